"""Records of conversion steps, and the stamp that says a benchmark is converted.

Each step leaves a record with the digest of its source, and the next step refuses a record with another one.
`conversion.json` is written last, and only when every blocking check passed. Evaluations rely on it alone, because
Dagster's blocking checks do not hold back other runs.
"""

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pydantic

from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model
from rag_eval_pipeline.storage.atomic_files import file_sha256, walk
from rag_eval_pipeline.storage.yaml_files import parse_yaml
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

Progress = Callable[[int, int], None]
LogLine = Callable[[str], None]
Recheck = Literal["no", "report", "accept"]

# Raised when the same source may convert differently; then every benchmark converts anew.
CODE_VERSION = "conversion/11"


class CheckFact(NamedTuple):
    """A check before it has run."""

    may_block: bool
    description: str


# Dagster needs the checks before anything has run.
CHECKS: dict[str, dict[str, CheckFact]] = {
    "questions": {
        "rows_conserved": CheckFact(True, "Rows read = accepted + dropped + quarantined."),
        "counts_as_expected": CheckFact(True, "The counts are those that `expect` states."),
        "every_document_known": CheckFact(True, "Every document that a question names has a row. Blocks under `fail`."),
    },
    "corpus": {
        "every_document_on_disk": CheckFact(True, "No document is missing. Blocks under `fail`."),
        "documents_as_on_the_web": CheckFact(
            True, "No page has changed or gone since its document was accepted. Blocks under `on_drift: fail`."
        ),
        "page_words_in_pdf": CheckFact(
            False, "At least 90 % of the words that a person can see on each HTML page are in its PDF."
        ),
    },
    "corpus_text": {
        "every_pdf_has_text": CheckFact(False, "Every PDF has extractable text."),
    },
    "train_json": {
        "questions_left": CheckFact(
            True, "Questions are left after documents were fetched, and no fewer than `expect` states."
        ),
        "rows_conserved": CheckFact(True, "Rows read = questions written + dropped + quarantined."),
        "every_gold_document_on_disk": CheckFact(
            True, "Every context of every accepted question names a document of the manifest that is on disk."
        ),
        "no_context_lost": CheckFact(True, "No context was removed with its document. Blocks under `fail`."),
    },
    "evaluation_dataset": {
        "dataset_validates": CheckFact(True, "The `.eval.json` is valid."),
        "gold_texts_located": CheckFact(False, "At least 97 % of the gold texts were found in the PDFs."),
    },
    "ground_truth": {
        "annotations_conserved": CheckFact(False, "Every annotation that was read was imported; none was refused."),
        "annotators_agree": CheckFact(False, "Character Jaccard of what annotators cite is above 0.85."),
        "every_cited_document_exists": CheckFact(False, "Annotated files are in the corpus."),
        "documents_match_annotated_digests": CheckFact(False, "Annotations were made of the corpus's present text."),
        "spans_are_in_bounds": CheckFact(False, "Annotated spans end within their document."),
        "quoted_texts_are_in_documents": CheckFact(False, "The document has the annotated text where the span says."),
        "annotation_ids_are_unique": CheckFact(False, "No two annotations have the same id."),
        "spans_are_disjoint": CheckFact(False, "An annotator's spans of a question do not overlap."),
        "scores_are_in_range": CheckFact(False, "Quality scores lie in [0, 1]."),
        "overall_scores_are_means": CheckFact(False, "An overall score is the mean of its five scores."),
    },
}


class Check(Model):
    """A property that holds or does not, with the numbers that decided it."""

    name: str  # named for the property that holds
    passed: bool
    blocking: bool = True  # a failed one keeps the benchmark from being evaluated
    numbers: dict[str, Any] = pydantic.Field(default_factory=dict)  # the numbers that decided it


def make_check(name: str, passed: bool, numbers: dict[str, Any], *, blocking: bool = True) -> Check:
    """Return a check."""
    return Check(name=name, passed=passed, blocking=blocking, numbers=numbers)


class StepRecord(FileModel):
    """The source and the results of one conversion step."""

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
    """The record of a step, and what is shown of it."""

    record: StepRecord
    preview: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)  # not in the record, as they differ from run to run
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pictures: dict[str, Callable[[], bytes]] = field(default_factory=dict)  # draw PNG images
    fingerprint: str | None = None  # of what was made, if evaluations read it


class Stamp(FileModel):
    """`conversion.json`: the benchmark is converted, from this source, with these counts."""

    schema_version: str = SCHEMA_VERSION
    benchmark: str
    source_digest: str
    code_version: str = CODE_VERSION
    dataset_id: str
    dataset_version: str
    dataset_fingerprint: str  # sha256 of the .eval.json
    corpus_fingerprint: str  # sha256 over the corpus files' names and hashes, and what extracted their text
    audit_sha256: str | None = None  # of the audit.yaml that was applied; `counts` has what it dropped and fixed
    files: dict[str, str]  # sha256 of the tables beside it that an evaluation reads
    counts: dict[str, int]
    checks: dict[str, bool]

    @property
    def fingerprint(self) -> str:
        """Of all that evaluations read."""
        return f"{self.dataset_fingerprint[:16]}.{self.corpus_fingerprint[:16]}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The arguments of each step of a conversion.

    Args:
        digest: `source_digest` when the step began.
        progress: Called with done and total by steps that take long.
        log: Called with a line on each document, unless there are too many to read.
        replace: Whether a published dataset version may get other content.
        recheck: Whether pages on the web are fetched again, and whether their present content is accepted.
    """

    workspace: Workspace
    paths: BenchmarkPaths
    spec: BenchmarkSpec
    digest: str
    progress: Progress | None = None
    log: LogLine | None = None
    replace: bool = False
    recheck: Recheck = "no"

    def require(self, step: str) -> StepRecord:
        """Return the record of an earlier step."""
        return require_step(self.paths, step, self.digest)

    def report(
        self,
        step: str,
        counts: dict[str, int],
        checks: tuple[Check, ...],
        preview: list[dict[str, Any]],
        notes: tuple[str, ...] = (),
    ) -> StepReport:
        """Return the report of a step that used this source."""
        record = StepRecord(step=step, source_digest=self.digest, counts=counts, checks=checks)
        return StepReport(record, preview, notes)


def require_step(paths: BenchmarkPaths, step: str, digest: str) -> StepRecord:
    """Return the record of an earlier step.

    Raises:
        InputError: `step_missing`, `step_stale` when it was made from another source or by other code, `step_failed`
            when one of its blocking checks failed.
    """
    path = paths.steps / f"{step}.json"
    hint = f"Convert it: rag-eval convert {paths.name}"
    if not path.exists():
        raise InputError("step_missing", path, f"the step {step} to be done for {paths.name}", hint=hint)
    record = StepRecord.read(path)
    if (record.source_digest, record.code_version) != (digest, CODE_VERSION):
        raise InputError("step_stale", path, f"the step {step} made from the present source of {paths.name}", hint=hint)
    if record.failed:
        raise InputError("step_failed", path, f"the checks of {step} to pass", found=", ".join(record.failed))
    return record


def discard_stamp(paths: BenchmarkPaths) -> None:
    """Remove the stamp and all step records: from here on the benchmark is not converted."""
    paths.stamp.unlink(missing_ok=True)
    for record in paths.steps.glob("*.json"):
        record.unlink(missing_ok=True)


def is_converted(paths: BenchmarkPaths, digest: str) -> bool:
    """Return whether the benchmark has a stamp made from this source by this code."""
    if not paths.stamp.exists():
        return False
    try:
        stamp = Stamp.read(paths.stamp)
    except InputError:
        return False  # a damaged stamp is no stamp: the benchmark is converted again
    return (stamp.source_digest, stamp.code_version) == (digest, CODE_VERSION)


def read_stamp(paths: BenchmarkPaths) -> Stamp:
    """Return the stamp of a benchmark that is converted, maybe from an earlier source; else raise `not_converted`."""
    if paths.stamp.exists():
        return Stamp.read(paths.stamp)
    expected = f"a finished conversion of {paths.name}"
    raise InputError("not_converted", paths.stamp, expected, hint=_what_to_do(paths, "Convert it"))


def refusal_file(paths: BenchmarkPaths) -> Path:
    """Return the file that says why the last conversion was refused, if it was."""
    return paths.steps / "refused.txt"


def _what_to_do(paths: BenchmarkPaths, advice: str) -> str:
    try:
        return f"The last conversion was refused: {refusal_file(paths).read_text()}"
    except OSError:
        return f"{advice}: rag-eval convert {paths.name}"


def current_stamp(paths: BenchmarkPaths, digest: str) -> Stamp:
    """Return the stamp of a benchmark that may be evaluated.

    Raises:
        InputError: `not_converted`, `stale_conversion`.
    """
    if paths.stamp.exists() and not is_converted(paths, digest):
        expected = f"a conversion of the present {paths.source} by this version of the pipeline"
        raise InputError("stale_conversion", paths.stamp, expected, hint=_what_to_do(paths, "Convert it again"))
    return read_stamp(paths)


def source_digest(paths: BenchmarkPaths) -> str:
    """Return sha256 over the path and content of every regular file in the benchmark's folder; links are not followed.

    All files count, because rows may name any of them as a document's body, which only the SQL decides. Of
    benchmark.yaml everything counts but `evaluation`, with which nothing is converted.
    """
    paths_below = (Path(parent) / name for parent, _, names in walk(paths.source) for name in names)
    files = {str(path.relative_to(paths.source)): path for path in paths_below}
    digest = hashlib.sha256()
    for relative, path in sorted(files.items()):
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(FileNotFoundError):  # an editor's temporary file, gone since it was listed
                content = _spec_digest(path) if path == paths.spec else file_sha256(path)
                line = f"{relative}\0{content}\n"
                digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _spec_digest(path: Path) -> str:
    """Return sha256 of a benchmark.yaml without the lines of its `evaluation`; of all of one that is invalid."""
    raw = path.read_bytes()
    with contextlib.suppress(InputError):
        places = parse_yaml(raw, path.name).lines
        lines = raw.decode().splitlines(keepends=True)
        begin = places.get(("evaluation",))
        if begin is not None and lines[begin - 1].startswith("evaluation"):
            keys = (line for key, line in places.items() if len(key) == 1 and line > begin)
            del lines[begin - 1 : min(keys, default=len(lines) + 1) - 1]
            raw = "".join(lines).encode()
    return hashlib.sha256(raw).hexdigest()
