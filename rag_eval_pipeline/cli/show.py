"""Commands that show what a workspace has: list, status."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli.output import AsJson, Root, emit, find_workspace, painted, print_next, print_notes
from rag_eval_pipeline.errors import counted

if TYPE_CHECKING:
    from rag_eval_pipeline.monitoring.status import PairState
    from rag_eval_pipeline.monitoring.workspace_states import BenchmarkState, SystemState

COLOURS = {
    **dict.fromkeys(("converted", "nightly", "evaluated"), "green"),
    **dict.fromkeys(("stale", "not converted", "not nightly", "outdated", "unfinished", "not evaluated"), "yellow"),
    **dict.fromkeys(("converting", "running"), "cyan"),
    **dict.fromkeys(("invalid", "blocked", "void"), "red"),
}


def list_workspace(workspace: Root = None, as_json: AsJson = False) -> None:
    """List the benchmarks and systems of the workspace, one line each.

    Example: rag-eval list
    """
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.workspace_states import benchmark_states, config_faults, system_states

    root = find_workspace(workspace)
    registry = read_registry(root)
    benchmarks, systems = list(benchmark_states(root, registry)), list(system_states(root, registry))
    record = {"benchmarks": [asdict(one) for one in benchmarks], "systems": [asdict(one) for one in systems]}
    emit(record, as_json, [*_benchmark_lines(benchmarks), *_system_lines(systems)])
    print_notes(config_faults(root, registry))
    print_next(as_json, "rag-eval status" if benchmarks else "rag-eval init NAME --from FILE|FOLDER|URL")


def status(workspace: Root = None, as_json: AsJson = False) -> None:
    """Show the state of every benchmark, system and evaluation, and suggest the next command.

    Example: rag-eval status
    """
    from rag_eval_pipeline.monitoring.status import read_status

    found = read_status(find_workspace(workspace), now=clock.now())
    lines = [*_benchmark_lines(found.benchmarks), *_system_lines(found.systems), *_pair_lines(found.pairs)]
    emit(found.record(), as_json, lines)
    print_notes(found.faults)
    has_results = any(pair.evaluation_id is not None for pair in found.pairs)
    print_next(as_json, *(found.next[:1] or ["rag-eval report --open"] * has_results))


def _benchmark_lines(benchmarks: "list[BenchmarkState] | tuple[BenchmarkState, ...]") -> Iterator[str]:
    yield painted("Benchmarks", "bold") if benchmarks else "No benchmarks."
    width = max((len(one.name) for one in benchmarks), default=0)
    for one in benchmarks:
        counts = one.shards or ""
        if one.questions is not None:
            counts = f"{counted(one.questions, 'question')}, {counted(one.documents or 0, 'document')}"
        yield _line(one.name, width, one.state, counts, one.title or "")


def _system_lines(systems: "list[SystemState] | tuple[SystemState, ...]") -> Iterator[str]:
    from rag_eval_pipeline.monitoring.workspace_states import not_nightly_hint

    yield painted("Systems", "bold") if systems else "No systems."
    width = max((len(one.name) for one in systems), default=0)
    for one in systems:
        hint = f"({not_nightly_hint(one.name).partition(': ')[2]})" if one.state == "not nightly" else ""
        yield _line(one.name, width, one.state, f"kind {one.kind}" if one.kind else "", one.title or "", hint)


def _pair_lines(pairs: "tuple[PairState, ...]") -> Iterator[str]:
    from rag_eval_pipeline.monitoring.workspace_states import local_time

    if not pairs:
        return
    yield painted("Evaluations", "bold")
    names = [f"{one.benchmark} x {one.system}" for one in pairs]
    width = max(map(len, names))
    for name, one in zip(names, pairs, strict=True):
        when = "" if one.evaluated_at is None else f"{one.evaluation_id}, {local_time(one.evaluated_at)}"
        overdue = painted("overdue", "red") if one.is_overdue else ""
        verdict = one.void or one.verdict or ""
        colour = "red" if verdict.startswith("regressed") else "green" if verdict.startswith("improved") else None
        nightly = "" if one.is_nightly else "not nightly"
        yield _line(name, width, one.state, overdue, when, painted(verdict, colour), nightly)


def _line(name: str, width: int, state: str, *facts: str) -> str:
    return "  ".join(filter(None, (f"  {name:{width}}", painted(f"{state:13}", COLOURS.get(state)), *facts))).rstrip()
