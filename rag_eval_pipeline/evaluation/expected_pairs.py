"""The benchmarks and systems of a workspace, each with a digest of its source, and which pairs need an evaluation.

Files decide, not Dagster's event log, so that a new Dagster instance does not ask any system again.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.stamp import Stamp, is_converted, source_digest
from rag_eval_pipeline.errors import InputError, os_fault
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.evaluation_settings import digest
from rag_eval_pipeline.evaluation.evaluation_start import same_answers, same_scoring
from rag_eval_pipeline.evaluation.pair import fingerprints_of, settings_of
from rag_eval_pipeline.storage.json_files import read_bytes
from rag_eval_pipeline.systems.config import SystemFile, read_common_settings, read_system_file
from rag_eval_pipeline.workspace import NAME, RESERVED_SYSTEM, SYSTEM_SUFFIX, Workspace


class ExpectedPair(NamedTuple):
    """A benchmark and a system that are evaluated every night; `obstacle` says why they cannot be now."""

    benchmark: str
    system: str
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """The contents of the folders at one moment.

    Args:
        benchmarks: Name -> digest of its folder, "" if a file in it cannot be read.
        systems: Name -> digest of its file, invalid files included, disabled ones not.
        stamped: Name -> when the stamp was written, in nanoseconds.
        broken: Name of each system with an invalid file -> the settings common to all kinds; None if they are invalid.
        faults: A line for each invalid file of a system.
        unreadable: Name of each benchmark of which a file cannot be read -> a line that names the file.
    """

    benchmarks: dict[str, str]
    systems: dict[str, str]
    stamps: dict[str, Stamp]
    stamped: dict[str, int]
    system_files: dict[str, SystemFile]
    broken: Mapping[str, SystemFile | None] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def expected_pairs(self, published: Collection[tuple[str, str]] = ()) -> Iterator[ExpectedPair]:
        """Yield the pairs that every night evaluates: those that can be, and those that it has lost to an error.

        A pair that was published stays expected while its benchmark cannot be converted or its system's file cannot be
        read, until the file is removed, or says `nightly: false`, `enabled: false` or other `benchmarks`.

        Args:
            published: Pairs with results.
        """
        for benchmark in self.benchmarks:
            for system in self.systems:
                file = self.system_files.get(system) or self.broken[system]
                is_published = (benchmark, system) in published
                obstacle = self.obstacle(benchmark, system)
                is_wanted = is_published if file is None else file.is_nightly and file.takes(benchmark)
                if is_wanted and (is_published or obstacle is None):
                    yield ExpectedPair(benchmark, system, obstacle)

    def automatic_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the expected pairs that can be evaluated now."""
        return ((one.benchmark, one.system) for one in self.expected_pairs())

    def obstacle(self, benchmark: str, system: str) -> str | None:
        """Return why a pair cannot be evaluated; None if it can."""
        if benchmark in self.unreadable:
            return self.unreadable[benchmark]
        if benchmark not in self.stamps:
            return f"the present data/sources/{benchmark} is not converted: rag-eval convert {benchmark}"
        return self.faults.get(system)


def read_registry(workspace: Workspace) -> Registry:
    """Read the folders; a file that is invalid or cannot be read becomes a line, and the others are read."""
    benchmarks: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    for name in workspace.benchmarks():
        try:
            benchmarks[name] = source_digest(workspace.benchmark(name))
        except OSError as error:
            benchmarks[name] = ""
            unreadable[name] = str(os_fault(error)).removeprefix(f"{workspace.root}/")
    stamps = {
        name: Stamp.read(workspace.benchmark(name).stamp)
        for name, digest in benchmarks.items()
        if digest and is_converted(workspace.benchmark(name), digest)
    }
    stamped = {name: workspace.benchmark(name).stamp.stat().st_mtime_ns for name in stamps}
    systems: dict[str, str] = {}
    files: dict[str, SystemFile] = {}
    broken: dict[str, SystemFile | None] = {}
    faults: dict[str, str] = {}
    for name in workspace.systems():
        path = workspace.system_file(name)
        try:
            file = read_system_file(path)
        except InputError as error:
            faults[name] = str(error).removeprefix(f"{workspace.root}/")
            broken[name] = read_common_settings(path)
            systems[name] = "broken"
            continue
        if file.enabled:
            systems[name] = hashlib.sha256(read_bytes(path)).hexdigest()
            files[name] = file
    return Registry(benchmarks, systems, stamps, stamped, files, broken, faults, unreadable)


def is_evaluated(workspace: Workspace, registry: Registry, benchmark: str, system: str) -> bool:
    """Return whether the pair's newest evaluation is published with today's fingerprints."""
    return pending_evaluation(workspace, registry, benchmark, system) is None


def pending_evaluation(workspace: Workspace, registry: Registry, benchmark: str, system: str) -> str | None:
    """Return a digest of why the pair needs an evaluation; None if its newest one is published and up to date.

    It differs for each change of metrics or judge: a run then scores stored answers and asks no system.
    """
    # It differs for each conversion, too.
    sources = registry.benchmarks[benchmark][:16], registry.systems[system][:16], str(registry.stamped[benchmark])
    asked_for = ".".join(sources)
    newest = newest_evaluation(workspace, benchmark, system)
    if newest is None or newest.record.state != "published":
        return asked_for
    stamp, file = registry.stamps[benchmark], registry.system_files[system]
    try:
        spec = read_spec(workspace.benchmark(benchmark))
        settings = settings_of(workspace, spec, stamp, system, file)
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
    return [*registry.unreadable.values(), *registry.faults.values(), *_bad_names(workspace)]


def _bad_names(workspace: Workspace) -> Iterator[str]:
    folders = workspace.sources.glob("*/benchmark.yaml")
    files = (workspace.config / "systems").glob("*.y*ml")
    named = [(path.parent, path.parent.name, "") for path in folders]
    named += [(path, path.name.removesuffix(SYSTEM_SUFFIX), SYSTEM_SUFFIX) for path in files]
    for path, name, suffix in sorted(named):
        if not NAME.fullmatch(name) or not path.name.endswith(suffix):
            where = path.relative_to(workspace.root)
            yield f"{where}: expected a name matching ^{NAME.pattern}{suffix}$ [bad_name]. Rename it."
        elif suffix and name == RESERVED_SYSTEM:
            yield f"{where}: expected a name other than the reserved name of pinned evaluations [bad_name]. Rename it."
