"""Commands on systems under test: system probe."""

from typing import Annotated, Any

import typer

from rag_eval_pipeline.cli.output import (
    BENCHMARK,
    UNAVAILABLE,
    AsJson,
    CommandGroup,
    Root,
    SystemName,
    emit,
    find_workspace,
    keep_stdout_for_results,
    only_system,
    print_next,
    print_notes,
)
from rag_eval_pipeline.errors import printable, shortened
from rag_eval_pipeline.workspace import Workspace

EXCERPT_CHARS = 300

system = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@system.callback()
def _group() -> None:
    """Set up and inspect systems under test.

    Example: rag-eval system probe embedded
    """


@system.command()
@keep_stdout_for_results
def probe(
    name: SystemName = None,
    benchmark: Annotated[
        str | None, typer.Option(**BENCHMARK, help="A converted benchmark; by default the first one of the system.")
    ] = None,
    questions: Annotated[int, typer.Option(min=1, max=100, help="Number of questions to ask.")] = 3,
    workspace: Root = None,
    as_json: AsJson = False,
) -> dict[str, Any]:
    """Ask a system a few questions and show how its replies are parsed; writes nothing and records no cost.

    Exits 4 if no question was answered.

    Example: rag-eval system probe embedded --questions 1
    """
    from rag_eval_pipeline.evaluation.asking import names_documents
    from rag_eval_pipeline.evaluation.asking import probe as run

    root = find_workspace(workspace)
    name = name or only_system(root, *filter(None, [benchmark]))
    found = run(root, name, benchmark, questions=questions)
    emit(found, as_json, [printable(line) for row in found["questions"] for line in probe_lines(row)])
    print_notes(found["warnings"])
    if not found["answered"]:
        raise typer.Exit(UNAVAILABLE)
    evaluate = f"rag-eval evaluate {found['benchmark']} --system {name}"
    print_next(as_json, evaluate if names_documents(found["questions"]) else name_documents(root, name))
    return found


def name_documents(root: Workspace, name: str) -> str:
    """Return what to do about a system whose passages name no documents of the corpus."""
    file = root.system_file(name)
    return f"fix contexts.document in {file}, or add contexts.names; then rag-eval system probe {name}"


def probe_lines(row: dict[str, Any]) -> list[str]:
    """Return what was parsed from one reply, for a terminal."""
    usage, ms = row["usage"], row["latency_ms"]
    used = [f"{usage['prompt_tokens']} tokens read, {usage['completion_tokens']} written"] * bool(usage["total_tokens"])
    used += [f"{usage['estimated_cost_usd']:g} US dollars"] * bool(usage["estimated_cost_usd"])
    latency = "latency not measured" if ms is None else f"{ms:.0f} ms"
    state = "abstained" if row["abstained"] else row["status"]
    if row["error"]:
        state = f"{state}: {row['error']} [{row['error_code']}]"
    passages, citations = row["passages"], row["citations"]
    known = sum(passage["is_known"] for passage in passages)
    paged = sum(passage["page"] is not None for passage in passages)
    return [
        f"{row['query_id']}  {row['question']}",
        "  " + ", ".join(filter(None, (state, latency, f"{usage['requests']} requests", *used, row["model"]))),
        f"  answer: {_excerpt(row['answer'])}",
        f"  passages: {len(passages)}, {known} of known documents, {paged} with a page",
        *(
            f"    {one['rank']}. {_place(one['document'], one['is_known'], one['page'])}: {_excerpt(one['text'], 80)}"
            for one in passages
        ),
        f"  citations: {len(citations)}, {sum(citation['is_known'] for citation in citations)} of known documents",
        *(
            f"    {_place(one['file_name'], one['is_known'], one['page_number'])}, "
            f"characters {one['start_char']} to {one['end_char']}"
            for one in citations
        ),
        f"  keys left unread: {', '.join(row['keys_left_unread']) or 'none'}",
    ]


def _place(document: str, is_known: bool, page: int | None) -> str:
    unknown = "" if is_known else " (not in the corpus)"
    return f"{document or '(no document)'}{unknown if document else ''}{'' if page is None else f', page {page}'}"


def _excerpt(text: str | None, limit: int = EXCERPT_CHARS) -> str:
    return "(none)" if text is None else shortened(" ".join(text.split()), limit)
