"""Which source a file was made from, and whether a conversion is complete and current.

Each step leaves a small record with the source digest it used; the next step refuses a record with another digest, so
files of two versions of a source are never mixed. `conversion.json` is written last, only when every blocking check
passed: evaluation trusts it and nothing else, because Dagster's blocking checks do not hold back other runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.conversion.spec import BenchmarkSpec

Progress = Callable[[int, int], None]
Tell = Callable[[str], None]
Recheck = Literal["no", "look", "accept"]

CODE_VERSION = "conversion/5"  # raised when the same source may convert differently; then every benchmark converts anew


class Check(Model):
    """A property that holds or does not, with its numbers either way."""

    name: str = pydantic.Field(description="Named for the property that holds.")
    passed: bool = pydantic.Field(description="Whether it does.")
    blocking: bool = pydantic.Field(True, description="A failed one keeps the benchmark from being evaluated.")
    numbers: dict[str, Any] = pydantic.Field(default_factory=dict, description="What it was decided on.")


class StepRecord(FileModel):
    """What one conversion step used and found."""

    step: str
    source_digest: str
    code_version: str = CODE_VERSION
    counts: dict[str, int] = pydantic.Field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> list[str]:
        """Names of the blocking checks that failed."""
        return [check.name for check in self.checks if check.blocking and not check.passed]


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a step did: its record, and what people look at.

    Args:
        record: Kept on disk.
        preview: First rows of what was made.
        notes: Remarks on single rows and documents.
        figures: Numbers that differ from run to run, such as times, and so have no place in the record.
        tables: Further rows, by name.
        pictures: By name, each drawn as PNG when it is called.
    """

    record: StepRecord
    preview: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pictures: dict[str, Callable[[], bytes]] = field(default_factory=dict)


class Stamp(FileModel):
    """`conversion.json`: the benchmark is converted, from this source, with these counts."""

    schema_version: str = SCHEMA_VERSION
    benchmark: str
    source_digest: str
    code_version: str = CODE_VERSION
    dataset_id: str
    dataset_version: str
    dataset_fingerprint: str = pydantic.Field(description="sha256 of the .eval.json.")
    corpus_fingerprint: str = pydantic.Field(
        description="sha256 over the corpus files' names and hashes, and what extracted their text."
    )
    files: dict[str, str] = pydantic.Field(description="sha256 of the tables beside it that an evaluation reads.")
    counts: dict[str, int]
    checks: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Conversion:
    """One conversion on its way: what every step is given.

    Args:
        workspace: Where.
        paths: Of the benchmark.
        spec: Its benchmark.yaml.
        digest: Of its source, as it is now.
        progress: Called with done and total by steps that take long.
        tell: Called with a line on each document as it is made; not where there are too many of them to read.
        replace: Whether a dataset version that was published may get other content.
        recheck: Whether the pages on the web are looked at again, and whether what they say now is accepted.
    """

    workspace: Workspace
    paths: BenchmarkPaths
    spec: "BenchmarkSpec"
    digest: str
    progress: Progress | None = None
    tell: Tell | None = None
    replace: bool = False
    recheck: Recheck = "no"

    def require(self, step: str) -> StepRecord:
        """The record of an earlier step; see `require`."""
        return require(self.paths, step, self.digest)

    def report(
        self,
        step: str,
        counts: dict[str, int],
        checks: tuple[Check, ...],
        preview: list[dict[str, Any]],
        notes: tuple[str, ...] = (),
    ) -> StepReport:
        """The report of a step that used this source."""
        record = StepRecord(step=step, source_digest=self.digest, counts=counts, checks=checks)
        return StepReport(record, preview, notes)


def write_record(paths: BenchmarkPaths, record: StepRecord) -> None:
    """Leaves a step's record."""
    record.write(paths.steps / f"{record.step}.json")


def require(paths: BenchmarkPaths, step: str, digest: str) -> StepRecord:
    """The record of an earlier step.

    Raises:
        InputError: `step_missing`, `step_stale` when it was made from another source or by other code, `step_failed`
            when one of its blocking checks failed.
    """
    path = paths.steps / f"{step}.json"
    hint = f"Materialize {step} first, or run: rag-eval convert {paths.name}"
    if not path.exists():
        raise InputError("step_missing", path, f"the step {step} to be done for {paths.name}", hint=hint)
    record = StepRecord.read(path)
    if (record.source_digest, record.code_version) != (digest, CODE_VERSION):
        raise InputError("step_stale", path, f"the step {step} made from the present source of {paths.name}", hint=hint)
    if record.failed:
        raise InputError("step_failed", path, f"the checks of {step} to pass", found=", ".join(record.failed))
    return record


def discard_stamp(paths: BenchmarkPaths) -> None:
    """Takes the stamp and the records away: from here on the benchmark is not converted."""
    paths.stamp.unlink(missing_ok=True)
    for record in paths.steps.glob("*.json"):
        record.unlink(missing_ok=True)


def is_converted(paths: BenchmarkPaths, digest: str) -> bool:
    """Whether the benchmark has a stamp made from this source by this code."""
    if not paths.stamp.exists():
        return False
    try:
        stamp = Stamp.read(paths.stamp)
    except InputError:
        return False  # a damaged stamp is no stamp: the benchmark is converted again
    return (stamp.source_digest, stamp.code_version) == (digest, CODE_VERSION)


def current_stamp(paths: BenchmarkPaths, digest: str) -> Stamp:
    """The stamp of a benchmark that may be evaluated.

    Raises:
        InputError: `not_converted`, `stale_conversion`.
    """
    hint = f"Materialize the conversion group, or run: rag-eval convert {paths.name}"
    if not paths.stamp.exists():
        raise InputError("not_converted", paths.stamp, f"a finished conversion of {paths.name}", hint=hint)
    if not is_converted(paths, digest):
        raise InputError("stale_conversion", paths.stamp, f"a conversion of the present {paths.source}", hint=hint)
    return Stamp.read(paths.stamp)
