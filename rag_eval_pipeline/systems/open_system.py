"""Open a system under test: the one place that knows which module is a kind's, and loads no other."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from rag_eval_pipeline.systems.base import System, SystemCorpus


def open_system(kind: str, settings: Any, corpus: SystemCorpus) -> AbstractAsyncContextManager[System]:
    """Return a context manager whose value is the system, ready to answer.

    Args:
        kind: One of `KINDS`, of whose model the settings are.
    """
    match kind:
        case "embedded":
            from rag_eval_pipeline.systems.embedded_bm25 import open_embedded

            return open_embedded(settings, corpus)
        case "nvidia":
            from rag_eval_pipeline.systems.nvidia_rag import open_nvidia

            return open_nvidia(settings, corpus)
        case "openai":
            from rag_eval_pipeline.systems.openai import open_openai

            return open_openai(settings, corpus)
        case "http":
            from rag_eval_pipeline.systems.http import open_http

            return open_http(settings, corpus)
        case "python":
            from rag_eval_pipeline.systems.python_callable import open_python

            return open_python(settings, corpus)
        case "replay":
            from rag_eval_pipeline.systems.replay import open_replay

            return open_replay(settings, corpus)
    raise ValueError(f"no kind of system: {kind}")
