"""`data/config/systems/<system>.config.yaml`: one file, one system under test.

`kind` picks the system; the other keys are common to all kinds, and `settings` belongs to the kind.
"""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pydantic

from rag_eval_pipeline.endpoints.budget import Budget
from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.formats.yaml_reader import read_typed_yaml
from rag_eval_pipeline.systems.kinds import KINDS, Kind


class SystemFile(Model):
    """A system under test."""

    kind: str = pydantic.Field(description=f"What answers: {', '.join(KINDS)}.")
    title: str | None = pydantic.Field(None, description="For people; by default the file's name.")
    version: str = pydantic.Field("1", description="Of the system itself; a new version starts a new history.")
    enabled: bool = pydantic.Field(True, description="Off, the system is neither a partition nor evaluated.")
    nightly: bool | None = pydantic.Field(
        None, description="Evaluated every night and when a benchmark appears; by default only kinds that cost nothing."
    )
    benchmarks: tuple[str, ...] = pydantic.Field(("*",), description="Globs of the benchmarks it is evaluated on.")
    limit: int | None = pydantic.Field(None, ge=1, description="Only the first questions of each benchmark.")
    deterministic: bool | None = pydantic.Field(
        None,
        description="Equal inputs give equal answers, so a new night reuses them; by default for embedded, replay.",
    )
    budget: Budget = pydantic.Field(Budget(), description="What one UTC day may cost.")
    settings: pydantic.SerializeAsAny[Model] = pydantic.Field(description="Settings of the kind.")
    evaluation: dict[str, Any] = pydantic.Field(
        default_factory=dict, description="Evaluation settings that differ for this system."
    )

    @property
    def traits(self) -> Kind:
        """What all systems of this kind have in common."""
        return KINDS[self.kind]

    @property
    def is_nightly(self) -> bool:
        """Takes part in automatic runs."""
        return self.enabled and (self.traits.is_free if self.nightly is None else self.nightly)

    @property
    def is_deterministic(self) -> bool:
        """Its answers can be reused."""
        return self.traits.is_deterministic if self.deterministic is None else self.deterministic

    @property
    def in_flight(self) -> int:
        """Questions asked at once unless `concurrency` says otherwise: as many as its server is asked requests."""
        servers = (value for _, value in self.settings if isinstance(value, EndpointSettings))
        server = next(servers, None)
        return self.traits.in_flight if server is None else server.in_flight

    def takes(self, benchmark: str) -> bool:
        """Whether it is to be evaluated on a benchmark."""
        return self.enabled and any(fnmatchcase(benchmark, pattern) for pattern in self.benchmarks)


def read_yaml(path: Path) -> dict[str, Any]:
    """A settings file as a mapping; an empty file is an empty mapping.

    Raises:
        InputError: `missing_file`, or `bad_yaml` with the line.
    """
    if not path.is_file():
        raise InputError("missing_file", path, "a file")
    value = read_typed_yaml(path, str(path)).value
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError("bad_yaml", path, "a mapping of settings", found=value)
    return value


def parse_system(data: dict[str, Any], of: Path | str) -> SystemFile:
    """A system's settings from a mapping.

    Args:
        data: As read.
        of: Where it is from, for messages.

    Raises:
        InputError: `bad_format` naming the first bad setting.
    """
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError("bad_format", of, f"one of {', '.join(KINDS)}", field="kind", found=kind)
    try:
        return _model_of(kind).model_validate({"settings": {}, **data})
    except pydantic.ValidationError as error:
        raise bad_format(of, error) from error


def read_system_file(path: Path) -> SystemFile:
    """A system's settings.

    Raises:
        InputError: `missing_file`, `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    return parse_system(read_yaml(path), path)


def answer_settings(settings: Model) -> dict[str, Any]:
    """The settings that can change an answer, as JSON values: all but those that their models call operational."""
    found = settings.model_dump(mode="json", exclude=set(settings.operational))
    return found | {
        name: answer_settings(value) for name, value in settings if name in found and isinstance(value, Model)
    }


@cache
def _model_of(kind: str) -> type[SystemFile]:
    """The model of a kind's files: a fault in the settings is then named by its place in the file."""
    return pydantic.create_model(f"SystemFile_{kind}", __base__=SystemFile, settings=(KINDS[kind].settings(), ...))
