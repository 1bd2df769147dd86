"""The state of each benchmark and system of a workspace."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.shard_plan import is_current, read_shard_plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.expected_pairs import Registry, invalid_configs
from rag_eval_pipeline.monitoring.settings_files import settings_faults
from rag_eval_pipeline.storage.lock import is_locked
from rag_eval_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class BenchmarkState:
    """A benchmark; counts are those of its last conversion, `fault` is the error in its benchmark.yaml.

    `shards` says how many of a large corpus are made while it is converted (`2 of 3 shards`).
    """

    name: str
    state: Literal["converted", "stale", "not converted", "converting", "invalid"]
    title: str | None = None
    questions: int | None = None
    documents: int | None = None
    fault: str | None = None
    shards: str | None = None


@dataclass(frozen=True, slots=True)
class SystemState:
    """A system; `file` is its settings file from the workspace's root, `fault` is the error in it."""

    name: str
    state: Literal["nightly", "not nightly", "disabled", "invalid"]
    file: str
    kind: str | None = None
    title: str | None = None
    fault: str | None = None


def not_nightly_hint(name: str) -> str:
    """Return how a system takes part in the nights."""
    return f"not nightly: set `nightly: true` in data/config/systems/{name}.config.yaml"


def benchmark_states(workspace: Workspace, registry: Registry) -> Iterator[BenchmarkState]:
    """Yield the state of each benchmark."""
    for name in registry.benchmarks:
        paths = workspace.benchmark(name)
        if name in registry.unreadable:
            yield BenchmarkState(name, "invalid", fault=registry.unreadable[name])
            continue
        try:
            spec = read_spec(paths)
        except InputError as error:
            yield BenchmarkState(name, "invalid", fault=str(error))
            continue
        plan = read_shard_plan(paths)
        if plan is not None and is_current(paths, plan):
            made = f"{plan.shards - len(plan.missing(paths))} of {plan.shards} shards"
            yield BenchmarkState(name, "converting", spec.title, shards=made)
        elif is_locked(paths.lock):
            yield BenchmarkState(name, "converting", spec.title)
        elif name in registry.stamps:
            counts = registry.stamps[name].counts
            questions, documents = counts["evaluation_dataset.queries"], counts["corpus.documents"]
            yield BenchmarkState(name, "converted", spec.title, questions, documents)
        else:
            yield BenchmarkState(name, "stale" if paths.stamp.exists() else "not converted", spec.title)


def system_states(workspace: Workspace, registry: Registry) -> Iterator[SystemState]:
    """Yield the state of each system."""
    for name in workspace.systems():
        path = f"data/config/systems/{workspace.system_file(name).name}"
        file = registry.system_files.get(name)
        if file is not None:
            yield SystemState(name, "nightly" if file.is_nightly else "not nightly", path, file.kind, file.title)
        elif name in registry.systems:
            yield SystemState(name, "invalid", path, fault=registry.faults[name])
        else:
            yield SystemState(name, "disabled", path)


def config_faults(workspace: Workspace, registry: Registry) -> list[str]:
    """Return a line for each benchmark, system and settings file that cannot be read, with the reason."""
    states = benchmark_states(workspace, registry)
    invalid = [one.fault.removeprefix(f"{workspace.root}/") for one in states if one.fault]
    return [*dict.fromkeys([*invalid, *invalid_configs(workspace, registry)]), *settings_faults(workspace)]


def local_time(moment: datetime) -> str:
    """Return a time as `2026-11-23 02:00 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
