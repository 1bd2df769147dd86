"""`data/config/systems/<system>.config.yaml`: one file, one system under test.

`kind` selects the system; the other keys are common to all kinds, and `settings` belongs to the kind. This is the one
place that knows which module is a kind's.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Self

import pydantic

from rag_eval_pipeline.errors import InputError, did_you_mean
from rag_eval_pipeline.formats.model import Model, bad_format_of
from rag_eval_pipeline.storage.yaml_files import read_settings
from rag_eval_pipeline.systems.base import System, SystemCorpus
from rag_eval_pipeline.systems.kind_settings import (
    EMBEDDED_VERSION,
    EmbeddedSettings,
    HttpSettings,
    JsonPath,
    OpenAiSettings,
    PythonSettings,
    ReplaySettings,
    takes,
)
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from rag_eval_pipeline.web.server_settings import Budget, EndpointSettings


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of system.

    Args:
        settings: Checks a file's `settings`.
        version: Raised whenever equal settings may answer differently because our own code changed.
        is_free: Asking costs nothing, so it takes part in automatic runs unless its file says otherwise.
        is_deterministic: Equal inputs give equal answers, so a new night reuses them unless its file says otherwise.
        in_flight: Questions asked at once of a system without a server, unless `concurrency` says otherwise.
        has_own_limits: Has its own time limits, over several attempts; others are stopped by `timeout_seconds`.
    """

    settings: type[Model]
    version: str
    is_free: bool = False
    is_deterministic: bool = False
    in_flight: int = 64
    has_own_limits: bool = False


KINDS: dict[str, Kind] = {
    "embedded": Kind(EmbeddedSettings, EMBEDDED_VERSION, is_free=True, is_deterministic=True, in_flight=8),
    "nvidia": Kind(NvidiaSettings, "nvidia/7", has_own_limits=True),
    "openai": Kind(OpenAiSettings, "openai/8", has_own_limits=True),
    "http": Kind(HttpSettings, "http/7", has_own_limits=True),
    "python": Kind(PythonSettings, "python/7", in_flight=8),
    "replay": Kind(ReplaySettings, "replay/7", is_free=True, is_deterministic=True),
}
ALWAYS_RETRIEVE = frozenset({"embedded", "nvidia"})  # kinds


class VersionSource(Model):
    """Where the version of what is deployed is read."""

    reply: JsonPath | None = pydantic.Field(None, description="JMESPath in the JSON of its replies.")
    header: str | None = pydantic.Field(None, min_length=1, description="Header of its replies, of kind http.")
    command: tuple[str, ...] | None = pydantic.Field(
        None, min_length=1, description="Command whose first line of output it is, run in this file's folder."
    )
    file: str | None = pydantic.Field(
        None, min_length=1, description="File whose SHA-256 it is, such as a prompt; relative to this file's folder."
    )

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("one of reply, header, command and file")
        return self

    @property
    def place(self) -> str:
        """Where in a reply it is, in words."""
        return f"the header {self.header}" if self.header is not None else f"a text at {self.reply!r}"


class SystemFile(Model):
    """A system under test."""

    kind: str = pydantic.Field(description=f"Kind of the system: {', '.join(KINDS)}.")
    title: str | None = pydantic.Field(None, description="Title shown to people; by default the file's name.")
    version: str = pydantic.Field("1", description="Version of the system itself; a new one starts a new history.")
    version_from: VersionSource | None = pydantic.Field(
        None,
        description="Where to read the deployed version at each evaluation; a new one starts no new history, and "
        "regressions name the version before and now.",
    )
    enabled: bool = pydantic.Field(True, description="false: the system is not evaluated and has no partition.")
    nightly: bool | None = pydantic.Field(
        None, description="Evaluated every night and when a benchmark appears; by default only kinds that cost nothing."
    )
    benchmarks: tuple[str, ...] = pydantic.Field(("*",), description="Globs of the benchmarks it is evaluated on.")
    limit: int | None = pydantic.Field(None, ge=1, description="Ask only the first N questions of each benchmark.")
    deterministic: bool | None = pydantic.Field(
        None,
        description="Equal inputs give equal answers, so a new night reuses them; by default for embedded, replay.",
    )
    closed_book: bool = pydantic.Field(
        False,
        description="The system is asked without documents, to find questions that need none (see rag-eval audit).",
    )
    budget: Budget = pydantic.Field(Budget(), description="Limits for one UTC day.")
    settings: pydantic.SerializeAsAny[Model] = pydantic.Field(description="Settings of the kind.")
    evaluation: dict[str, Any] = pydantic.Field(
        default_factory=dict, description="Evaluation settings that differ for this system."
    )

    @pydantic.model_validator(mode="after")
    def _asks_again_what_changes(self) -> Self:
        if getattr(self.settings, "is_by_night", False) and self.deterministic is not False:
            raise ValueError("a path with {started} needs `deterministic: false`, or old answers would be reused")
        return self

    @pydantic.model_validator(mode="after")
    def _has_no_documents(self) -> Self:
        if self.closed_book and (self.kind in ALWAYS_RETRIEVE or getattr(self.settings, "retrieval", None) is not None):
            raise ValueError(
                "closed_book of a system that is given no documents, such as kind openai without retrieval"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _reads_its_version(self) -> Self:
        if self.version_from is not None:
            if self.is_deterministic:
                raise ValueError(
                    "no version_from of a system that is deterministic: the version before would be reused, not asked"
                )
            if self.version_from.header is not None and self.kind != "http":
                raise ValueError("version_from.header of a system of kind http")
        return self

    @property
    def traits(self) -> Kind:
        """What all systems of this kind have in common."""
        return KINDS[self.kind]

    @property
    def is_nightly(self) -> bool:
        """Whether it takes part in automatic runs."""
        return self.enabled and (self.traits.is_free if self.nightly is None else self.nightly)

    @property
    def is_nightly_undecided(self) -> bool:
        """Whether it takes no part in automatic runs because nobody has said whether it should."""
        return self.enabled and self.nightly is None and not self.is_nightly

    @property
    def is_deterministic(self) -> bool:
        """Whether a new evaluation may reuse the answers of one with the same inputs."""
        return self.traits.is_deterministic if self.deterministic is None else self.deterministic

    @property
    def in_flight(self) -> int:
        """Questions asked at once unless `concurrency` says otherwise: the limit of its server, else of its kind."""
        servers = (value for _, value in self.settings if isinstance(value, EndpointSettings))
        server = next(servers, None)
        return self.traits.in_flight if server is None else server.in_flight

    @property
    def takes_history(self) -> bool:
        """Whether a follow-up question is sent with the messages before it; recordings have answers as they are."""
        if self.kind in ("http", "python"):
            own = (getattr(self.settings, name, None) for name in ("body", "params", "input"))
            return takes(("{history}", "{messages}"), *own)
        return self.kind != "embedded"

    def takes(self, benchmark: str) -> bool:
        """Return whether it is to be evaluated on a benchmark."""
        return self.enabled and not self.excludes(benchmark)

    def excludes(self, benchmark: str) -> bool:
        """Return whether no glob of `benchmarks` fits a benchmark."""
        return not any(fnmatchcase(benchmark, pattern) for pattern in self.benchmarks)


def parse_system(data: dict[str, Any], of: Path | str) -> SystemFile:
    """Parse a system's settings; `of` names their file in messages."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise InputError("bad_format", of, f"one of {', '.join(KINDS)}", field="kind", found=kind, hint=hint)
    model = _model_of(kind)
    with bad_format_of(of, model):
        return model.model_validate({"settings": {}, **data})


def read_system_file(path: Path) -> SystemFile:
    """Read a system's settings.

    Raises:
        InputError: `missing_file`, `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    return parse_system(read_settings(path), path)


def read_common_settings(path: Path) -> SystemFile | None:
    """Return an invalid file's settings that all kinds have in common; None if one of these is invalid."""
    try:
        own = {"settings", "evaluation", "budget"}
        common = {name: value for name, value in read_settings(path).items() if name not in own}
        file = SystemFile.model_validate({**common, "settings": {}})
    except (InputError, pydantic.ValidationError):
        return None
    return file if file.kind in KINDS else None


def answer_settings(settings: Model) -> dict[str, Any]:
    """Return the settings that can change an answer, as JSON values: all but the `operational` ones of their models."""
    found = settings.model_dump(mode="json", exclude=set(settings.operational))
    return found | {
        name: answer_settings(value) for name, value in settings if name in found and isinstance(value, Model)
    }


@cache
def _model_of(kind: str) -> type[SystemFile]:
    """Return the model of a kind's files, so that a bad setting is named by its place in the file."""
    return pydantic.create_model(f"SystemFile_{kind}", __base__=SystemFile, settings=(KINDS[kind].settings, ...))


def open_system(kind: str, settings: Any, corpus: SystemCorpus) -> AbstractAsyncContextManager[System]:
    """Return a context manager whose value is the system, ready to answer; no other kind's module is loaded.

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
