"""The state of a workspace: its benchmarks, its systems, what was evaluated and compared, and what to do next."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, newest_evaluation, pair_pointer
from rag_eval_pipeline.evaluation.expected_pairs import Registry, is_evaluated, read_registry
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.alert_files import last_published, late_pairs, read_alert_settings
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.verdict_records import (
    Comparison,
    format_points,
    read_comparison_rows,
    withheld_text,
)
from rag_eval_pipeline.monitoring.workspace_states import (
    BenchmarkState,
    SystemState,
    benchmark_states,
    config_faults,
    system_states,
)
from rag_eval_pipeline.storage.lock import is_locked
from rag_eval_pipeline.workspace import Workspace

EvaluationState = Literal[
    "evaluated", "outdated", "unfinished", "void", "running", "not evaluated", "excluded", "blocked"
]

REASONS = {
    "no_baseline": "no baseline yet, and no comparable earlier evaluation",
    "is_baseline": "its evaluations are the baseline",
}
NOT_COMPARED = "not in the report yet"


@dataclass(frozen=True, slots=True)
class PairState:
    """A benchmark and a system that takes it or has results of it.

    Args:
        state: outdated: benchmark, system or settings have changed since; unfinished: not all is published; void:
            the system was out of order when it was last asked; blocked: the benchmark is not converted, or the system's
            file is invalid; excluded: the system's file no longer takes the benchmark.
        void: When and why the newest evaluation is void; None if it is not.
        evaluation_id: The newest published evaluation; `evaluated_at` is when it began.
        is_overdue: The nightly schedule should have published one since.
        verdict: Of that evaluation against its baseline; None while there is no evaluation.
    """

    benchmark: str
    system: str
    state: EvaluationState
    is_nightly: bool
    is_overdue: bool = False
    evaluation_id: str | None = None
    evaluated_at: datetime | None = None
    verdict: str | None = None
    void: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a workspace; `next` are commands and edits, the first one first."""

    benchmarks: tuple[BenchmarkState, ...]
    systems: tuple[SystemState, ...]
    pairs: tuple[PairState, ...]
    faults: tuple[str, ...]
    next: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the status as JSON."""
        pairs = [
            asdict(pair) | {"evaluated_at": pair.evaluated_at and pair.evaluated_at.isoformat()} for pair in self.pairs
        ]
        return asdict(self) | {"pairs": pairs}


def read_status(workspace: Workspace, *, now: datetime) -> Status:
    """Return the state of everything in a workspace, without comparing or writing anything."""
    registry = read_registry(workspace)
    benchmarks, systems = tuple(benchmark_states(workspace, registry)), tuple(system_states(workspace, registry))
    pairs = tuple(_pair_states(workspace, registry, now))
    faults = tuple(config_faults(workspace, registry))
    return Status(benchmarks, systems, pairs, faults, tuple(dict.fromkeys(_next(benchmarks, systems, pairs))))


def _pair_states(workspace: Workspace, registry: Registry, now: datetime) -> Iterator[PairState]:
    history = read_history(workspace)
    published = history.published
    expected = last_published(registry, history.by_pair)
    nightly = {(one.benchmark, one.system) for one in expected}
    overdue = late_pairs(now, expected, read_alert_settings(workspace).settings)
    late = {(one.benchmark, one.system) for one in overdue}
    rows = read_comparison_rows(workspace.reports / REGRESSIONS)
    verdicts = {(row.benchmark, row.new): row for row in rows if row.kind == "baseline"}
    for benchmark in registry.benchmarks:
        for system in registry.systems:
            pair = benchmark, system
            asked = newest_evaluation(workspace, *pair)
            state = _pair_state(workspace, registry, *pair, asked)
            if state in ("excluded", "blocked") and pair not in published and pair not in nightly:
                continue
            evaluations = published.get(pair, ())
            newest = evaluations[-1].record if evaluations else None
            yield PairState(
                benchmark,
                system,
                state,
                is_nightly=pair in nightly,
                is_overdue=pair in late,
                evaluation_id=newest.evaluation_id if newest else None,
                evaluated_at=newest.opened_at if newest else None,
                verdict=verdict_text(verdicts, pair, newest.evaluation_id) if newest else None,
                void=asked.record.void_text if asked is not None and state == "void" else None,
            )


def _pair_state(
    workspace: Workspace, registry: Registry, benchmark: str, system: str, newest: Evaluation | None
) -> EvaluationState:
    file = registry.system_files.get(system) or registry.broken[system]
    if file is not None and not file.takes(benchmark):
        return "excluded"
    if registry.obstacle(benchmark, system) is not None:
        return "blocked"
    if is_locked(pair_pointer(workspace, benchmark, system).with_suffix(".lock")):
        return "running"
    if newest is None:
        return "not evaluated"
    if newest.record.state != "published":
        return "void" if newest.record.is_void else "unfinished"
    return "evaluated" if is_evaluated(workspace, registry, benchmark, system) else "outdated"


def verdict_text(rows: Mapping[tuple[str, str], Comparison], pair: tuple[str, str], evaluation_id: str) -> str:
    """Return the state of an evaluation's verdict in a few words, from the rows of `regressions.json`."""
    row = rows.get(pair)
    if row is None or evaluation_id not in ((row.evaluation_id, row.rerun) if row.reason is None else row.newest):
        return NOT_COMPARED
    if row.reason is not None:
        return REASONS.get(row.reason) or row.note or row.reason
    parts = []
    for kind in CHANGES:
        moved = {name: found for name, found in row.verdicts.items() if found.kind == kind}
        changes = [f"{metric_label(name)} {format_points(found.estimate)}" for name, found in moved.items()]
        standing = sorted({found.standing for found in moved.values() if found.confirmation})
        if changes:
            parts.append(f"{kind}: {', '.join(changes)} points ({', '.join(standing)})")
    parts += [row.declines[0].sentence] if row.declines and row.declines[0].is_notable else []
    if parts:
        return "; ".join(parts)
    kinds = {found.kind for found in row.verdicts.values()}
    if kinds <= {"no_verdict", "withheld"}:
        most = max(row.verdicts.values(), key=lambda found: found.n, default=None)
        return "no verdict" if most is None else f"{most.kind.replace('_', ' ').capitalize()}: {most.reason}"
    return withheld_text(row.verdicts.values()) or "no change found"


def _next(
    benchmarks: tuple[BenchmarkState, ...], systems: tuple[SystemState, ...], pairs: tuple[PairState, ...]
) -> Iterator[str]:
    if not benchmarks:
        yield "rag-eval init NAME --from FILE|FOLDER|URL"
    for one in benchmarks:
        if one.state in ("stale", "not converted"):
            yield f"rag-eval convert {one.name}"
    if not systems:
        yield "rag-eval system init NAME --url URL"
    for pair in pairs:
        if pair.state in ("not evaluated", "unfinished", "void", "outdated"):
            yield f"rag-eval evaluate {pair.benchmark} --system {pair.system}"
    if any(pair.verdict == NOT_COMPARED for pair in pairs):
        yield "rag-eval report --open"
