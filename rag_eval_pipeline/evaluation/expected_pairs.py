"""The benchmarks and systems of a workspace, each with a digest of its source, and which pairs need an evaluation.

Files decide, not Dagster's event log, so that a new Dagster instance does not ask any system again.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.stamp import Stamp, is_converted, source_digest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation, same_answers, same_scoring
from rag_eval_pipeline.evaluation.evaluation_settings import digest, merged_settings
from rag_eval_pipeline.evaluation.pair import fingerprints_of
from rag_eval_pipeline.storage.json_files import read_bytes
from rag_eval_pipeline.systems.config import SystemFile, read_system_file
from rag_eval_pipeline.workspace import NAME, SYSTEM_SUFFIX, Workspace


@dataclass(frozen=True, slots=True)
class Registry:
    """The contents of the folders at one moment.

    Args:
        systems: Name -> digest of its file, invalid files included, disabled ones not.
        stamped: Name -> when the stamp was written, in nanoseconds.
    """

    benchmarks: dict[str, str]
    systems: dict[str, str]
    stamps: dict[str, Stamp]
    stamped: dict[str, int]
    system_files: dict[str, SystemFile]
    faults: list[str] = field(default_factory=list)

    def automatic_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each converted benchmark with the systems that take part in automatic runs on it."""
        for benchmark in self.stamps:
            for system, file in self.system_files.items():
                if file.is_nightly and file.takes(benchmark):
                    yield benchmark, system

    def pair_digest(self, benchmark: str, system: str) -> str:
        """Return a digest that changes with the benchmark, the system, and each conversion."""
        return f"{self.benchmarks[benchmark][:16]}.{self.systems[system][:16]}.{self.stamped[benchmark]}"


def read_registry(workspace: Workspace) -> Registry:
    """Read the folders; an invalid file becomes a line in `faults`, and the others are read all the same."""
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
    """Return whether the pair's newest evaluation is published with today's fingerprints."""
    return pending_evaluation(workspace, registry, benchmark, system) is None


def pending_evaluation(workspace: Workspace, registry: Registry, benchmark: str, system: str) -> str | None:
    """Return a digest of why the pair needs an evaluation; None if its newest one is published and up to date.

    It differs for each change of metrics or judge: a run then scores stored answers and asks no system.
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
        return asked_for  # the evaluation will report what is wrong with its settings
    today = fingerprints_of(stamp, file, settings)
    if not same_answers(newest.record.fingerprints, today):
        return asked_for
    if same_scoring(newest.record.fingerprints, today):
        return None
    return f"{asked_for}.{digest([today.metrics, today.judge])[:16]}"


def invalid_configs(workspace: Workspace, registry: Registry) -> list[str]:
    """Return a line for each benchmark folder and system file that the registry skips, with its path and the reason."""
    return [*(fault.removeprefix(f"{workspace.root}/") for fault in registry.faults), *_bad_names(workspace)]


def _bad_names(workspace: Workspace) -> Iterator[str]:
    folders = workspace.sources.glob("*/benchmark.yaml")
    files = (workspace.config / "systems").glob("*.y*ml")
    named = [(path.parent, path.parent.name, "") for path in folders]
    named += [(path, path.name.removesuffix(SYSTEM_SUFFIX), SYSTEM_SUFFIX) for path in files]
    for path, name, suffix in sorted(named):
        if not NAME.fullmatch(name) or not path.name.endswith(suffix):
            where = path.relative_to(workspace.root)
            yield f"{where}: expected a name matching ^{NAME.pattern}{suffix}$ [bad_name]. Rename it."
