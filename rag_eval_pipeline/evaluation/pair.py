"""A benchmark and a system, with everything an evaluation of them needs to know before it asks anything."""

import hashlib
from dataclasses import dataclass

from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.spec import read_spec, shown_path
from rag_eval_pipeline.conversion.stamp import Stamp, current_stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.settings import METRICS_VERSION, EvaluationSettings, digest, merged_settings
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.systems.embedded import CODE_VERSION
from rag_eval_pipeline.systems.settings import SystemFile, read_system_file
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace


@dataclass(frozen=True, slots=True)
class Pair:
    """What is evaluated, and the fingerprints that two nights must share to be compared."""

    paths: BenchmarkPaths
    system: str
    system_file: SystemFile
    stamp: Stamp
    dataset: EvaluationDataset
    settings: EvaluationSettings
    fingerprints: Fingerprints

    @property
    def queries(self) -> tuple[EvaluationQuery, ...]:
        """The questions to ask: the first of the dataset where the system's file sets a limit."""
        return self.dataset.queries[: self.system_file.limit]


def load_pair(workspace: Workspace, benchmark: str, system: str) -> Pair:
    """The pair, checked: the benchmark has a current conversion, and the files on disk are those that it stamped.

    Raises:
        InputError: `no_benchmark`, `no_system`, `not_converted`, `stale_conversion`, `changed_dataset`, or a fault of a
            file.
    """
    paths = workspace.benchmark(benchmark)
    if not paths.spec.exists():
        raise InputError("no_benchmark", shown_path(paths, "benchmark.yaml"), "a folder with this file")
    spec = read_spec(paths)
    with locked(paths.lock, holder=f"an evaluation of {benchmark}", exclusive=False):
        stamp = current_stamp(paths, source_digest(paths))
        dataset_path = workspace.eval_json(stamp.dataset_id, stamp.dataset_version)
        fingerprint = hashlib.sha256(read_bytes(dataset_path)).hexdigest()
        if fingerprint != stamp.dataset_fingerprint:
            raise InputError(
                "changed_dataset", dataset_path, "the file that the conversion wrote",
                hint=f"Convert again: rag-eval convert {benchmark}",
            )  # fmt: skip
        dataset = EvaluationDataset.read(dataset_path)
    file = _system_file(workspace, system)
    settings = merged_settings(workspace, spec.evaluation, file.evaluation, of=f"{benchmark} x {system}")
    return Pair(
        paths=paths,
        system=system,
        system_file=file,
        stamp=stamp,
        dataset=dataset,
        settings=settings,
        fingerprints=Fingerprints(
            dataset=fingerprint,
            corpus=stamp.corpus_fingerprint,
            system=system_fingerprint(file),
            metrics=f"{METRICS_VERSION} {digest(settings.model_dump())[:16]}",
        ),
    )


def system_fingerprint(file: SystemFile) -> str:
    """What of a system can change its answers: kind, version, settings, limit and the code."""
    return digest([file.kind, file.version, file.settings.model_dump(), file.limit, file.offset_base, CODE_VERSION])


def _system_file(workspace: Workspace, system: str) -> SystemFile:
    path = workspace.system_file(system)
    if not path.exists():
        known = ", ".join(workspace.systems()) or "none"
        raise InputError("no_system", path, "a system's settings file", hint=f"Known systems: {known}.")
    return read_system_file(path)
