"""Commands on systems under test: system probe, system init."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from rag_eval_pipeline.cli.output import (
    BENCHMARK,
    UNAVAILABLE,
    AsJson,
    Command,
    Root,
    SystemName,
    emit,
    find_workspace,
    keep_stdout_for_results,
    only_system,
    print_next,
    print_notes,
)
from rag_eval_pipeline.errors import InputError, counted, did_you_mean, printable, shortened
from rag_eval_pipeline.workspace import Workspace

EXCERPT_CHARS = 300
REPLY_LINES = 40
TEXT_SHOWN = 200  # characters of a text in the reply
ITEMS_SHOWN = 3  # of a list in the reply
NAMES_SHOWN = 5  # rows of a draft of a map of names
CHAT_ENDINGS = ("/v1", "/v1/", "/chat/completions")


class _Group(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first sentence of each command's help whole."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(200)) for name, one in self.commands.items()])


system = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Set up and inspect systems under test.\n\nExample: rag-eval system probe embedded",
)


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
    from rag_eval_pipeline.evaluation.probing import names_documents
    from rag_eval_pipeline.evaluation.probing import probe as run

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
    names = f"let passages name documents of the corpus, or add contexts.names in {file}"
    return f"{names}; then rag-eval system probe {name}"


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
        "  " + ", ".join(filter(None, (state, latency, counted(usage["requests"], "request"), *used, row["model"]))),
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


@system.command("init", cls=Command)
@keep_stdout_for_results
def init_system(
    name: Annotated[str, typer.Argument(help="Name of the new system.")],
    url: Annotated[
        str | None, typer.Option(help="Where questions go; for openai and nvidia the server's base URL.")
    ] = None,
    body: Annotated[
        str | None,
        typer.Option(
            help='JSON that is sent, with {question} in a text; by default {"question": "{question}"}. '
            "python: the value passed instead of the text."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="http, openai, nvidia or python; by default guessed from the URL.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="A converted benchmark, whose first question is asked; by default the first one.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Ask this instead.")] = None,
    answer: Annotated[str | None, typer.Option(help="JMESPath of the answer, if the guess is wrong.")] = None,
    method: Annotated[
        Literal["POST", "GET", "PUT"] | None,
        typer.Option(help="HTTP method; by default GET if the URL has {question}, else POST."),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Name of the environment variable with the bearer token.")
    ] = None,
    header_env: Annotated[
        list[str] | None,
        typer.Option(metavar="HEADER=VARIABLE", help="A header from an environment variable; repeatable."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="openai: the model; by default the first that the server lists.")
    ] = None,
    ingestor: Annotated[str | None, typer.Option(help="nvidia: base URL of the ingestor.")] = None,
    callable_: Annotated[
        str | None,
        typer.Option(
            "--callable",
            metavar="MODULE:NAME",
            help="python: the function that answers a question, such as my_rag:answer.",
        ),
    ] = None,
    path: Annotated[
        Path | None, typer.Option(help="python: folder of the module; by default the current one, if it is there.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option(help="python: interpreter of the code's own environment; by default this one.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the file of a system of this name.")] = False,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Start a system: ask it one question, guess how its reply is read, and write its settings file with comments.

    Secrets are given by the names of environment variables. Exits 4 if the server cannot be used.

    Example: rag-eval system init my-rag --url http://127.0.0.1:8000/ask
    """
    from rag_eval_pipeline.scaffold.system_init import (
        INIT_KINDS,
        check_free,
        propose_system,
        write_name_map,
        write_system,
    )
    from rag_eval_pipeline.scaffold.system_proposal import Wanted

    root = find_workspace(workspace)
    if not replace:
        check_free(root, name)
    kind, why = _kind(kind, url, callable_)
    if kind not in INIT_KINDS:
        raise InputError(
            "bad_option", "--kind", f"one of {', '.join(INIT_KINDS)}", found=kind, hint=did_you_mean(kind, INIT_KINDS)
        )
    wanted = Wanted(
        name=name, kind=kind, url=url, body=_body(body), method=method, answer=answer, question=question,
        benchmark=benchmark, api_key_env=api_key_env, headers_env=_headers(header_env or []), model=model,
        ingestor=ingestor, callable=callable_, path=path, python=python,
    )  # fmt: skip
    proposal = propose_system(root, wanted)
    file = write_system(root, name, proposal.text, replace_file=replace)
    lines = [proposal.asked]
    if proposal.reply is not None:
        lines += _reply_lines(proposal.reply)
    lines += [*([f"guess: {why}"] if why else []), *(f"guess: {sentence}" for sentence in proposal.guesses)]
    if proposal.row is not None:
        lines += ["Read with these settings:", *(f"  {line}" for line in probe_lines(proposal.row)[1:-1])]
    notes = list(proposal.notes)
    if proposal.names:
        path = write_name_map(root, name, proposal.names)
        shown = [f"{row.name} -> {row.file} ({row.evidence})" for row in proposal.names[:NAMES_SHOWN]]
        more = [f"{len(proposal.names) - NAMES_SHOWN} more"] if len(proposal.names) > NAMES_SHOWN else []
        notes.append(
            f"{path} has a draft of a map from the names in the reply to files: {'; '.join([*shown, *more])}. "
            f"Check each row, complete it, and set contexts.names: {path.name}"
        )
    lines += [*(f"note: {note}" for note in notes), f"{file}: written"]
    record = {
        "system": name, "kind": kind, "file": str(file), "asked": proposal.asked, "reply": proposal.reply,
        "guesses": proposal.guesses, "read": proposal.row, "notes": notes,
        "names": [row._asdict() for row in proposal.names],
    }  # fmt: skip
    emit(record, as_json, [printable(line) for line in lines])
    print_next(as_json, _next(root, name, proposal.benchmark) if proposal.is_scored else name_documents(root, name))


def _next(root: Workspace, name: str, benchmark: str | None) -> str:
    """Return the next command: evaluate, else convert, else start a benchmark."""
    if benchmark is not None:
        return f"rag-eval evaluate {benchmark} --system {name}"
    started = root.benchmarks()
    return f"rag-eval convert {started[0]}" if started else "rag-eval init NAME --from FILE|FOLDER|URL"


def _kind(kind: str | None, url: str | None, callable_: str | None) -> tuple[str, str | None]:
    """Return the kind, and why if it was guessed."""
    if kind is not None:
        return kind, None
    if callable_ is not None:
        return "python", None
    if url is not None and url.endswith(CHAT_ENDINGS):
        return "openai", "kind = openai, because of the URL's end; another: --kind http"
    return "http", None


def _body(text: str | None) -> Any:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError("bad_option", "--body", "JSON", found=text, hint=f"{error}.") from None
    if "{question}" not in json.dumps(value):
        raise InputError("bad_option", "--body", "JSON with {question} in a text", found=text)
    return value


def _headers(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for header, equals, variable in pairs:
        if not (header and equals and variable):
            # The text is not shown: it may hold the secret itself.
            raise InputError("bad_option", "--header-env", "HEADER=VARIABLE, such as X-API-Key=MY_KEY")
    return {header: variable for header, _, variable in pairs}


def _reply_lines(reply: Any) -> list[str]:
    lines = json.dumps(_cut(reply), indent=2, ensure_ascii=False).splitlines()
    more = len(lines) - REPLY_LINES
    return lines if more <= 0 else [*lines[:REPLY_LINES], f"... {counted(more, 'more line')}"]


def _cut(value: Any) -> Any:
    """Return a JSON value with long texts and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_SHOWN else f"{value[:TEXT_SHOWN]}…"
    if isinstance(value, list):
        more = len(value) - ITEMS_SHOWN
        return [*map(_cut, value[:ITEMS_SHOWN]), *([f"… {more} more"] if more > 0 else [])]
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    return value
