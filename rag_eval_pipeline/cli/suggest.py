"""The command suggest."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.output import AsJson, BenchmarkName, Root, emit, find_workspace, print_next

if TYPE_CHECKING:
    from rag_eval_pipeline.audit.drafts import Suggestions
    from rag_eval_pipeline.audit.trace_questions import TraceFile


def suggest(
    name: BenchmarkName,
    origin: Annotated[
        list[Path], typer.Option("--from", metavar="FILE", help="Exported traces: CSV, JSON, JSON lines or parquet.")
    ],
    rows: Annotated[int, typer.Option(min=0, help="Drafts that are shown; the audit page and JSON have all.")] = 10,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Find questions in production that are unlike any of a benchmark, or have thumbs down, as drafts to decide on.

    Nothing is sent anywhere, and no question is added: the audit page of the report shows the drafts, to take or drop.

    Example: rag-eval suggest skarn-railway --from traces.jsonl
    """
    import msgspec

    from rag_eval_pipeline.audit.drafts import suggest as run

    root = find_workspace(workspace)
    found, files = run(root, name, origin)
    value = {
        "benchmark": name,
        "rows": sum(file.rows for file in files),
        "without_question": sum(file.without_question for file in files),
        "traces": sum(len(file.traces) for file in files),
        **found._asdict(),
        "drafts": msgspec.to_builtins(found.drafts),
    }
    shown = root.benchmark(name).drafts.relative_to(root.root)
    emit(value, as_json, _lines(name, found, files, rows, shown))
    if found.drafts:
        print_next(as_json, "rag-eval report")


def _lines(name: str, found: "Suggestions", files: "list[TraceFile]", rows: int, shown: Path) -> Iterator[str]:
    from rag_eval_pipeline.audit.audited_texts import quoted

    read = sum(file.rows for file in files)
    traces = sum(len(file.traces) for file in files)
    without = sum(file.without_question for file in files)
    down = sum(one.thumbs_down > 0 for one in found.drafts)
    rows_read = f"read {read:,} rows, {traces:,} traces" if read != traces else f"read {traces:,} traces"
    found_in = f"{found.unlike:,} unlike any of {name}, {down:,} with thumbs down"
    yield f"{rows_read}, {found.distinct:,} distinct questions: {found_in}"
    if without:
        yield f"rows without a question: {without:,}"
    if found.known:
        also = f", with thumbs down: {found.known_down:,}" if found.known_down else ""
        yield f"asked by {name} already: {found.known:,}{also}"
    if not found.drafts:
        yield f"no drafts: {name} has a question like each of them"
        return
    yield f"drafts: {len(found.drafts):,}, in {shown}; the audit page shows them, to take or drop"
    for one in found.drafts[:rows]:
        down_text = f", {one.thumbs_down:,} thumbs down" if one.thumbs_down else ""
        times = "once" if one.asked == 1 else f"{one.asked:,} times"
        yield f"  {quoted(one.question)}: asked {times}{down_text}"
        if one.nearest is not None:
            yield f"    nearest, with similarity {one.similarity:.2f}: {quoted(one.nearest)}"
    if len(found.drafts) > rows:
        yield f"  and {len(found.drafts) - rows:,} more"
