"""Commands on the questions of a benchmark: audit, suggest."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.output import (
    STRICT,
    AsJson,
    BenchmarkName,
    Root,
    emit,
    find_workspace,
    painted,
    print_next,
    print_notes,
)
from rag_eval_pipeline.errors import counted

if TYPE_CHECKING:
    from rag_eval_pipeline.audit.findings import AuditFinding

COLOURS = {"wrong": "red", "doubtful": "yellow", "note": None}


def audit(
    name: BenchmarkName,
    rows: Annotated[int, typer.Option(min=0, help="Rows of each finding that are shown; JSON has all.")] = 3,
    workspace: Root = None,
    as_json: AsJson = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if a question is wrong.")] = False,
) -> None:
    """List what is wrong with the questions, answers and documents of a benchmark, and what to do.

    Before a conversion, checks that need the documents' text are left out.

    Example: rag-eval audit skarn-railway
    """
    from dataclasses import asdict

    from rag_eval_pipeline.audit.audit_benchmark import audit as run
    from rag_eval_pipeline.audit.audit_benchmark import has_documents

    root = find_workspace(workspace)
    findings = run(root, name)
    is_converted = has_documents(root.benchmark(name))
    found = {
        "benchmark": name,
        "has_documents": is_converted,
        "findings": [asdict(one) | {"count": one.count} for one in findings],
    }
    emit(found, as_json, _lines(name, findings, rows))
    if not is_converted:
        print_notes([f"{name} is not converted, so that answers were not compared with the documents."])
        print_next(as_json, f"rag-eval convert {name}")
    if strict and any(one.severity == "wrong" for one in findings):
        raise typer.Exit(STRICT)


def _lines(name: str, findings: "list[AuditFinding]", rows: int) -> Iterator[str]:
    if not findings:
        yield f"{name}: nothing was found."
    width = max((len(one.kind) for one in findings), default=0)
    for one in findings:
        what = "document" if one.documents else "question"
        count = counted(one.count, what)
        yield f"{painted(f'{one.severity:8}', COLOURS[one.severity])}  {one.kind:{width}}  {count}"
        yield f"    {one.text}"
        shown = [f"{suspect.place}: {suspect.evidence}" for suspect in one.suspects] or list(one.documents)
        yield from (f"      {line}" for line in shown[:rows])
        if len(shown) > rows:
            yield f"      and {len(shown) - rows:,} more"
        yield f"    {one.remedy}"


def suggest(
    name: BenchmarkName,
    origin: Annotated[
        list[Path], typer.Option("--from", metavar="FILE", help="Exported traces: CSV, JSON, JSON lines or parquet.")
    ],
    rows: Annotated[int, typer.Option(min=0, help="Drafts that are shown; JSON has all.")] = 10,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Find questions in production that are unlike any of a benchmark, or have thumbs down, as drafts to decide on.

    Nothing is sent anywhere, and no question is added: the audit page of the report shows the drafts, to take or drop.

    Example: rag-eval suggest skarn-railway --from traces.jsonl
    """
    from rag_eval_pipeline.audit.audited_texts import quoted
    from rag_eval_pipeline.audit.drafts import suggest as run

    root = find_workspace(workspace)
    found, files = run(root, name, origin)
    traces, read = sum(len(file.traces) for file in files), sum(file.rows for file in files)
    down = sum(one.thumbs_down > 0 for one in found.drafts)
    lines = [
        f"read {counted(traces, 'trace')} ({counted(read, 'row')}), {counted(found.distinct, 'distinct question')}: "
        f"{found.unlike:,} unlike any of {name}, {down:,} with thumbs down",
        f"asked by {name} already: {found.known:,}, {found.known_down:,} with thumbs down",
        f"drafts: {len(found.drafts):,}, in {root.benchmark(name).drafts.relative_to(root.root)}",
    ]
    for one in found.drafts[:rows]:
        nearest = f"nearest {quoted(one.nearest)}, similarity {one.similarity:.2f}" if one.nearest else "nothing near"
        lines.append(f"  {quoted(one.question)}: asked {one.asked:,}, thumbs down {one.thumbs_down:,}; {nearest}")
    drafts = [one._asdict() for one in found.drafts]
    emit({"benchmark": name, "traces": traces, "rows": read, **found._asdict(), "drafts": drafts}, as_json, lines)
    print_notes([note for file in files for note in file.notes])
    if found.drafts:
        print_notes(["the audit page of the report shows the drafts, to take or drop"])
        print_next(as_json, "rag-eval report")
