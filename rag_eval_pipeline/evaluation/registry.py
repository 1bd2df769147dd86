"""What the folders ask for: benchmarks to convert and pairs to evaluate, each with a digest of its source.

Files decide, not Dagster's event log: a benchmark with a current stamp is converted, and a pair is evaluated when its
newest published evaluation has the fingerprints of today's dataset, corpus, system, metrics and judge. A new instance
folder thus asks nobody again.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.spec import read_spec
from rag_eval_pipeline.conversion.stamp import Stamp, is_converted
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import system_fingerprint
from rag_eval_pipeline.evaluation.runs import newest_evaluation
from rag_eval_pipeline.evaluation.settings import digest, merged_settings, metrics_fingerprint
from rag_eval_pipeline.evaluation.taking_over import same_answers, scored_alike
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.judges.opening import judge_fingerprint
from rag_eval_pipeline.systems.settings import SystemFile, read_system_file
from rag_eval_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Registry:
    """The folders at one moment.

    Args:
        benchmarks: Name -> digest of its folder.
        systems: Name -> digest of its file; files with faults among them, disabled ones not.
        stamps: Name -> stamp of each converted benchmark.
        stamped: Name -> when the stamp was written, in nanoseconds.
        system_files: Name -> settings, of the files without faults.
        faults: One line each, for the log.
    """

    benchmarks: dict[str, str]
    systems: dict[str, str]
    stamps: dict[str, Stamp]
    stamped: dict[str, int]
    system_files: dict[str, SystemFile]
    faults: list[str] = field(default_factory=list)

    def automatic_pairs(self) -> Iterator[tuple[str, str]]:
        """Converted benchmarks and the systems that take part in automatic runs on them."""
        for benchmark in self.stamps:
            for system, file in self.system_files.items():
                if file.is_nightly and file.takes(benchmark):
                    yield benchmark, system

    def pair_digest(self, benchmark: str, system: str) -> str:
        """Changes when the benchmark or the system does, and when the benchmark is converted again."""
        return f"{self.benchmarks[benchmark][:16]}.{self.systems[system][:16]}.{self.stamped[benchmark]}"


def read_registry(workspace: Workspace) -> Registry:
    """The folders as they are; a broken file is a fault in a line, and the others go on."""
    benchmarks = {name: source_digest(workspace.benchmark(name)) for name in workspace.benchmarks()}
    stamps = {
        name: Stamp.read(workspace.benchmark(name).stamp)
        for name, digest in benchmarks.items()
        if is_converted(workspace.benchmark(name), digest)
    }
    stamped = {name: workspace.benchmark(name).stamp.stat().st_mtime_ns for name in stamps}
    systems: dict[str, str] = {}
    files: dict[str, SystemFile] = {}
    faults = []
    for name in workspace.systems():
        path = workspace.system_file(name)
        try:
            file = read_system_file(path)
        except InputError as error:
            faults.append(str(error))
            systems[name] = "broken"
            continue
        if file.enabled:
            systems[name] = hashlib.sha256(read_bytes(path)).hexdigest()
            files[name] = file
    return Registry(benchmarks, systems, stamps, stamped, files, faults)


def is_evaluated(workspace: Workspace, registry: Registry, benchmark: str, system: str) -> bool:
    """Whether the pair's newest evaluation is published and made from what is there today."""
    return wanted_evaluation(workspace, registry, benchmark, system) is None


def wanted_evaluation(workspace: Workspace, registry: Registry, benchmark: str, system: str) -> str | None:
    """A digest of what an evaluation of the pair is wanted for; None where its newest one shows that already.

    Where the answers are there and only metrics or judge have changed, it is another one for each such change: a run
    then scores them and asks nobody, so that it may be tried again as often as these are edited.
    """
    asked_for = registry.pair_digest(benchmark, system)
    newest = newest_evaluation(workspace, benchmark, system)
    if newest is None or newest.record.state != "published":
        return asked_for
    stamp, file = registry.stamps[benchmark], registry.system_files[system]
    try:
        spec = read_spec(workspace.benchmark(benchmark))
        settings = merged_settings(workspace, spec.evaluation, file.evaluation, of=f"{benchmark} x {system}")
    except InputError:
        return asked_for  # the evaluation will say what is wrong with its settings
    today = Fingerprints(
        dataset=stamp.dataset_fingerprint,
        corpus=stamp.corpus_fingerprint,
        system=system_fingerprint(file),
        metrics=metrics_fingerprint(settings),
        judge=judge_fingerprint(settings.judge),
    )
    if not same_answers(newest.record.fingerprints, today):
        return asked_for
    if scored_alike(newest.record.fingerprints, today):
        return None
    return f"{asked_for}.{digest([today.metrics, today.judge])[:16]}"
