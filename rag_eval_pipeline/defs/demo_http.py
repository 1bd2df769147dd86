"""`make demo-http`: the bundled benchmarks against servers: every answer travels over HTTP, and some of them badly.

A loopback server speaks the interfaces of an NVIDIA RAG Blueprint and of an OpenAI-compatible endpoint. It takes the
PDFs in, answers from them, and one attempt in ten fails in one of the ways in which servers do. The trial has a
workspace of its own, so that it leaves no trace in yours.
"""

import os
import shutil
import sys
from pathlib import Path

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.loopback.launch import RunningServer, loopback_server
from rag_eval_pipeline.storage.atomic import atomic_write
from rag_eval_pipeline.workspace import PROJECT, SYSTEM_SUFFIX, WORKSPACE_VARIABLE, Workspace

FAULT_RATE = 0.1
LATENCY_MS = 20.0
BLUEPRINT = """# An NVIDIA RAG Blueprint server: the corpus is uploaded, then every question is asked.
kind: nvidia
nightly: true
settings:
  rag: {{base_url: "{rag}"}}
  ingestor: {{base_url: "{ingestor}"}}
  upload: {{poll_seconds: 0.2}}
"""
CHAT = """# A chat model that is handed passages of the corpus.
kind: openai
nightly: true
settings:
  endpoint: {{base_url: "{openai}"}}
  chat: {{model: loopback}}
  retrieval: {{k: 5}}
"""


def main() -> int:
    """Runs the trial; 1 when a run failed."""
    root = Path(os.environ.get(WORKSPACE_VARIABLE) or PROJECT / ".demo-http")
    _prepare(root)
    with loopback_server(faults=FAULT_RATE, latency_ms=LATENCY_MS) as server:
        _write_systems(Workspace(root), server)
        os.environ[WORKSPACE_VARIABLE] = str(root)
        from rag_eval_pipeline.defs.demo import main as demo

        code = demo()
        counts = server.counts(by_question=False)
    print(f"The server was asked {counts}.")
    return code


def _prepare(root: Path) -> None:
    """The bundled benchmarks and settings in a folder of the trial's own; what an earlier trial made stays."""
    for part in ("sources", "config"):
        shutil.copytree(PROJECT / "data" / part, root / "data" / part, dirs_exist_ok=True)
    (root / "corpus").mkdir(exist_ok=True)


def _write_systems(workspace: Workspace, server: RunningServer) -> None:
    for name, text in (("blueprint", BLUEPRINT), ("chat", CHAT)):
        settings = text.format(rag=server.rag, ingestor=server.ingestor, openai=server.openai)
        atomic_write(workspace.config / "systems" / f"{name}{SYSTEM_SUFFIX}", settings.encode())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, ServiceError) as error:
        sys.exit(f"rag-eval: {error}")
