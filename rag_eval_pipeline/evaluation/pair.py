"""A benchmark and a system, with what an evaluation of them needs before it asks anything."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec, read_spec
from rag_eval_pipeline.conversion.stamp import Stamp, current_stamp, source_digest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.conversations import whole_conversations
from rag_eval_pipeline.evaluation.evaluation_settings import (
    EvaluationSettings,
    digest,
    merged_settings,
    metrics_fingerprint,
)
from rag_eval_pipeline.formats.dataset import EvaluationQuery, StoredDataset, open_dataset
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.judges.open_judge import judge_fingerprint
from rag_eval_pipeline.storage.atomic_files import sha256_of
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.systems.config import SystemFile, answer_settings, read_system_file
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles

EXCLUDED = "excluded_benchmark"


@dataclass(frozen=True)
class Pair:
    """What is evaluated, and its fingerprints; manifest and corpus text are read when they are first asked for.

    Args:
        chosen: Places in the dataset of the questions to ask; None for all.
    """

    paths: BenchmarkPaths
    system: str
    system_file: SystemFile
    stamp: Stamp
    dataset: StoredDataset
    settings: EvaluationSettings
    fingerprints: Fingerprints
    chosen: tuple[int, ...] | None = None

    @property
    def queries(self) -> Sequence[EvaluationQuery]:
        """The questions to ask: the first of the dataset where the system's file sets a limit."""
        if self.chosen is not None:
            return [self.dataset.queries[place] for place in self.chosen]
        return self.dataset.queries[: self.system_file.limit]

    @cached_property
    def files(self) -> "CorpusFiles":
        """The corpus; only valid while the benchmark is locked against conversions."""
        from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles

        return CorpusFiles.read(self.paths)

    def only(self, chosen: Sequence[int]) -> "Pair":
        """Return the pair with these questions only, in this order; the corpus is not read again."""
        found = replace(self, chosen=tuple(chosen))
        found.__dict__["files"] = self.files
        return found


def load_pair(workspace: Workspace, benchmark: str, system: str, *, limit: int | None = None) -> Pair:
    """Load a pair and check that the benchmark's conversion is current and its files are unchanged.

    Args:
        limit: Of the questions, instead of what the system's file says; None for that.

    Raises:
        InputError: `no_benchmark`, `no_system`, `excluded_benchmark`, whether it is converted or not, `not_converted`,
            `stale_conversion`, `changed_dataset`, `no_questions`, or the errors of a file.
    """
    paths = workspace.existing_benchmark(benchmark)
    file = find_system_file(workspace, system)
    if file.excludes(benchmark):
        raise InputError(
            EXCLUDED, workspace.system_file(system), f"globs that fit {benchmark}, to evaluate {system} on it",
            field="benchmarks", found=list(file.benchmarks), hint=f"Add {benchmark} to benchmarks.",
        )  # fmt: skip
    spec = read_spec(paths)
    with locked(paths.lock, holder=f"an evaluation of {benchmark}", exclusive=False):
        stamp = current_stamp(paths, source_digest(paths))
        dataset_path = workspace.eval_json(stamp.dataset_id, stamp.dataset_version)
        made = {dataset_path: stamp.dataset_fingerprint, **{paths.dataset / n: sha for n, sha in stamp.files.items()}}
        for path, sha256 in made.items():
            hint = f"Convert again: rag-eval convert {benchmark}"
            if not path.is_file():
                raise InputError("missing_file", path, "a file", hint=hint)
            if sha256_of(path) != sha256:
                raise InputError("changed_dataset", path, "the file that the conversion wrote", hint=hint)
        dataset = open_dataset(dataset_path)
        if not dataset.queries:
            raise InputError("no_questions", dataset_path, "one question or more", hint="Fix the benchmark's sources.")
    if limit is not None:  # of a dataset with fewer questions, all are asked, as without a limit
        file = file.model_copy(update={"limit": limit if limit < len(dataset.queries) else None})
    settings = settings_of(workspace, spec, stamp, system, file)
    fingerprints = fingerprints_of(stamp, file, settings)
    if settings.history == "own":
        file = file.model_copy(update={"limit": whole_conversations(dataset.queries, file.limit)})
    return Pair(
        paths=paths,
        system=system,
        system_file=file,
        stamp=stamp,
        dataset=dataset,
        settings=settings,
        fingerprints=fingerprints,
    )


def settings_of(
    workspace: Workspace, spec: BenchmarkSpec, stamp: Stamp, system: str, file: SystemFile
) -> EvaluationSettings:
    """Return today's settings of a pair; where a benchmark has no conversations, no history is the system's own.

    Raises:
        InputError: What `merged_settings` raises, and the errors of the dataset.
    """
    settings = merged_settings(workspace, spec.evaluation, file.evaluation, of=f"{stamp.benchmark} x {system}")
    if settings.history == "own":
        queries = open_dataset(workspace.eval_json(stamp.dataset_id, stamp.dataset_version)).queries
        if all(query.conversation is None for query in queries):
            return settings.model_copy(update={"history": "gold"})
    return settings


def fingerprints_of(stamp: Stamp, file: SystemFile, settings: EvaluationSettings) -> Fingerprints:
    """Return the fingerprints of today's files; the system's covers what can change its answers."""
    system = [file.kind, file.version, answer_settings(file.settings), file.limit, file.traits.version]
    return Fingerprints(
        dataset=stamp.dataset_fingerprint,
        corpus=stamp.corpus_fingerprint,
        system=digest(system),
        metrics=metrics_fingerprint(settings),
        judge=judge_fingerprint(settings.judge),
        history=None if settings.history == "gold" else settings.history,
    )


def find_system_file(workspace: Workspace, system: str) -> SystemFile:
    """Read a system's settings.

    Raises:
        InputError: `no_system` with the known names, and the errors of the file.
    """
    return read_system_file(workspace.existing_system_file(system))
