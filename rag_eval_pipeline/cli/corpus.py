"""Commands on documents: render."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.options import AsJson, Root
from rag_eval_pipeline.cli.output import BAD_INPUT, UNAVAILABLE, emit, find_workspace_if_any, progress_bars, say
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    from rag_eval_pipeline.corpus.documents import CorpusDocument
    from rag_eval_pipeline.web.egress import EgressPolicy


def render(
    sources: Annotated[
        list[str], typer.Argument(metavar="URL|FILE...", help="Pages, and local HTML, text, Markdown or PDF files.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the PDFs; nothing in it is removed.")],
    manifest: Annotated[
        Path | None,
        typer.Option(
            help="Parquet file that remembers names, hashes and flags: what it has is not fetched again, and a name "
            "stays its document's."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Render all anew, over files that have the same names.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A private host that documents may come from; repeatable."),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Render pages and files to PDFs, named by the URL-stem rule, without any benchmark.

    Allowed hosts and limits are those of the workspace, where there is one.
    Exits 2 when a file could not be rendered, 4 when a page could not;
    the others are finished first.

    Example: rag-eval render notes.md --out pdfs
    """
    from dataclasses import asdict

    from rag_eval_pipeline.corpus.standalone import is_url, render_documents

    policy = _policy(workspace, allow or [])
    code = 0
    found = []
    for source in sources:
        if is_url(source) or Path(source).is_file():
            found.append(source)
            continue
        hint = "A URL begins with http:// or https://."
        code = say(InputError("missing_file", source, "a file that can be read", hint=hint))
    with progress_bars() as bar:
        rows = render_documents(found, out, policy, manifest=manifest, overwrite=overwrite, progress=bar("render"))
    missing = [row for row in rows if row.origin == "missing"]
    emit([asdict(row) for row in rows], as_json, (_line(row) for row in rows if row.origin != "missing"))
    for row in missing:
        code = max(code, _say_missing(row))
    if code:
        raise typer.Exit(code)


def _policy(workspace: Path | None, allow: list[str]) -> "EgressPolicy":
    from pydantic import ValidationError

    from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy, read_egress_config

    root = find_workspace_if_any(workspace)
    config = EgressConfig() if root is None else read_egress_config(root.egress_config)
    try:
        given = EgressConfig.model_validate({"allowed_hosts": allow})
    except ValidationError:
        raise InputError("bad_host", "--allow", "an exact host:port", found=", ".join(allow)) from None
    hosts = (*config.allowed_hosts, *given.allowed_hosts)
    return EgressPolicy(config.model_copy(update={"allowed_hosts": hosts}))


def _line(row: "CorpusDocument") -> str:
    pages = "1 page" if row.pages == 1 else f"{row.pages} pages"
    unchanged = () if row.seconds else ("unchanged",)
    return ", ".join([f"{row.file_name}: {pages}", *unchanged, *row.flags])


def _say_missing(row: "CorpusDocument") -> int:
    """Says why a document could not be had; whose fault it is follows from where it was to come from."""
    from rag_eval_pipeline.conversion.report import missing_note

    print(f"rag-eval: {missing_note(row)}", file=sys.stderr, flush=True)
    return BAD_INPUT if row.url is None else UNAVAILABLE
