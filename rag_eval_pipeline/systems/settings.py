"""`data/config/systems/<system>.config.yaml`: one file, one system under test.

`kind` picks the system; the other keys are common to all kinds, and `settings` belongs to the kind.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.formats.yaml_reader import read_typed_yaml

AUTOMATIC_KINDS = frozenset({"embedded", "replay"})  # they cost nothing; every other kind is asked only on demand


class EmbeddedSettings(Model):
    """How the embedded system retrieves and answers."""

    k: int = pydantic.Field(10, ge=1, le=100, description="Passages retrieved for a question.")
    passage_words: int = pydantic.Field(
        30, ge=5, le=2000, description="Words of a passage at most; smaller passages are more exact and lose context."
    )
    rerank: bool = pydantic.Field(
        True, description="Raise passages with a sentence that covers the question; off, BM25's order stands."
    )
    abstention_threshold: float = pydantic.Field(
        0.35, ge=0, le=1,
        description="Share of the question's weight that a sentence must cover to be answered from; 0 always answers.",
    )  # fmt: skip

    answer: Literal["phrase", "sentence"] = pydantic.Field(
        "phrase", description="Answer with the words of the best sentence that fit the question, or with all of it."
    )


class SystemFile(Model):
    """A system under test."""

    kind: Literal["embedded"] = pydantic.Field(description="What answers: `embedded` is the built-in system.")
    version: str = pydantic.Field("1", description="Of the system itself; a new version starts a new history.")
    enabled: bool = pydantic.Field(True, description="Off, the system is neither a partition nor evaluated.")
    nightly: bool | None = pydantic.Field(
        None, description="Evaluated every night and when a benchmark appears; by default only kinds that cost nothing."
    )
    benchmarks: tuple[str, ...] = pydantic.Field(("*",), description="Globs of the benchmarks it is evaluated on.")
    limit: int | None = pydantic.Field(None, ge=1, description="Only the first questions of each benchmark.")
    deterministic: bool | None = pydantic.Field(
        None, description="Equal inputs give equal answers, so a new night reuses them; by default true for `embedded`."
    )
    settings: EmbeddedSettings = pydantic.Field(EmbeddedSettings(), description="Settings of the kind.")
    evaluation: dict[str, Any] = pydantic.Field(
        default_factory=dict, description="Evaluation settings that differ for this system."
    )

    @property
    def is_nightly(self) -> bool:
        """Takes part in automatic runs."""
        return self.enabled and (self.kind in AUTOMATIC_KINDS if self.nightly is None else self.nightly)

    @property
    def is_deterministic(self) -> bool:
        """Its answers can be reused."""
        return self.kind in AUTOMATIC_KINDS if self.deterministic is None else self.deterministic

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


def read_system_file(path: Path) -> SystemFile:
    """A system's settings.

    Raises:
        InputError: `missing_file`, `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    try:
        return SystemFile.model_validate(read_yaml(path))
    except pydantic.ValidationError as error:
        raise bad_format(path, error) from error
