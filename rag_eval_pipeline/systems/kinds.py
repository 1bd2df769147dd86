"""The kinds of systems under test: what each is configured by, how it is opened, and what it costs to ask.

A new kind is a folder with its settings and an opener, and a line here.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.systems.answer import System
from rag_eval_pipeline.systems.corpus import SystemCorpus

Opener = Callable[[Any, SystemCorpus], AbstractAsyncContextManager[System]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of system.

    Args:
        module: `<module>.settings` holds the settings, `<module>.system` the opener; loaded when they are wanted.
        settings_name: Class of the settings, a `Model`.
        opener_name: `async with opener(settings, corpus) as system`: the system, ready to answer.
        version: Raised whenever equal settings may answer differently for a change of our own code.
        is_free: Nothing is spent by asking, so it takes part in automatic runs unless its file says otherwise.
        is_deterministic: Equal inputs give equal answers, so a new night reuses them unless its file says otherwise.
        in_flight: Questions asked at once of a system without a server, unless `concurrency` says otherwise.
        has_own_limits: Keeps its own time limits, over several attempts; others are stopped by `timeout_seconds`.
    """

    module: str
    settings_name: str
    opener_name: str
    version: str
    is_free: bool = False
    is_deterministic: bool = False
    in_flight: int = 64
    has_own_limits: bool = False

    def settings(self) -> type[Model]:
        """The model that a file's `settings` are checked with."""
        found: type[Model] = getattr(import_module(f"{_ROOT}.{self.module}.settings"), self.settings_name)
        return found

    def opener(self) -> Opener:
        """What makes a system of settings and a corpus."""
        found: Opener = getattr(import_module(f"{_ROOT}.{self.module}.system"), self.opener_name)
        return found


_ROOT = "rag_eval_pipeline.systems"
KINDS: dict[str, Kind] = {
    "embedded": Kind(
        "embedded", "EmbeddedSettings", "open_embedded", "embedded/2", is_free=True, is_deterministic=True, in_flight=8
    ),
    "nvidia": Kind("nvidia", "NvidiaSettings", "open_nvidia", "nvidia/2", has_own_limits=True),
    "openai": Kind("openai", "OpenAiSettings", "open_openai", "openai/2", has_own_limits=True),
    "http": Kind("http", "HttpSettings", "open_http", "http/2", has_own_limits=True),
    "python": Kind("python", "PythonSettings", "open_python", "python/2", in_flight=8),
    "replay": Kind("replay", "ReplaySettings", "open_replay", "replay/2", is_free=True, is_deterministic=True),
}
