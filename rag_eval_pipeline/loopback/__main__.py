"""`python -m rag_eval_pipeline.loopback`: serves until it is ended, and prints where."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.loopback.faults import FaultScript, parse_faults
from rag_eval_pipeline.loopback.ingestor_shapes import DEFAULT_COLLECTION
from rag_eval_pipeline.loopback.library import Collection, read_folder
from rag_eval_pipeline.loopback.server import INGESTOR, OPENAI, RAG, Server
from rag_eval_pipeline.loopback.site import LoopbackOptions, Site


def serve(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    corpus: Annotated[
        Path | None, typer.Option(help=f"Folder of PDFs that are there from the start, as `{DEFAULT_COLLECTION}`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the faults.")] = 0,
    faults: Annotated[
        str | None, typer.Option(help="Share of the attempts that fail, such as 0.1, or a script in JSON.")
    ] = None,
    latency_ms: Annotated[float, typer.Option(help="From a question to the first of its answer.")] = 50.0,
    canned: Annotated[
        bool, typer.Option("--canned", help="Answer from the question's hash; read no document.")
    ] = False,
    ingestion_ms: Annotated[float, typer.Option(help="For taking in one document, beside reading it.")] = 0.0,
    media_every: Annotated[int, typer.Option(help="Every so manieth passage is a table, chart or picture.")] = 5,
    page_base: Annotated[int, typer.Option(help="Number of a document's first page, 0 or 1.")] = 1,
    unready: Annotated[str | None, typer.Option(help="A dependency that /v1/health reports as down.")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="Environment variable with the bearer token.")] = None,
    until_stdin_closes: Annotated[
        bool, typer.Option("--until-stdin-closes", help="End when standard input does, for a parent that starts it.")
    ] = False,
) -> None:
    """Serves the interfaces of RAG servers and judges on this machine, for trying a pipeline."""
    try:
        script = FaultScript() if faults is None else parse_faults(faults)
    except InputError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    options = LoopbackOptions(
        seed=seed,
        faults=script,
        latency_ms=latency_ms,
        is_canned=canned,
        ingestion_ms=ingestion_ms,
        media_every=media_every,
        page_base=page_base,
        unready=unready,
        api_key_env=api_key_env,
    )
    asyncio.run(_serve(options, port, corpus, until_stdin_closes=until_stdin_closes))


async def _serve(options: LoopbackOptions, port: int, corpus: Path | None, *, until_stdin_closes: bool) -> None:
    site = Site(options)
    if corpus is not None:
        collection = site.library.collections[DEFAULT_COLLECTION] = Collection(DEFAULT_COLLECTION)
        taken = await site.library.take_in(collection, read_folder(corpus), replaces=True)
        for failed in taken["failed_documents"]:
            typer.echo(f"{failed['document_name']}: {failed['error_message']}", err=True)
    server = await Server(site).listen(port)
    bound = server.sockets[0].getsockname()[1]
    # The first line is for programs, the rest for people.
    typer.echo(bound)
    for title, path in (("NVIDIA RAG server", RAG), ("NVIDIA ingestor", INGESTOR), ("OpenAI-compatible", OPENAI)):
        typer.echo(f"{title}: http://127.0.0.1:{bound}{path}")
    sys.stdout.flush()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 4096) else ended.set())
    await ended.wait()
    server.close()
    os._exit(0)  # answers that wait for ever, and threads that read, are not waited for


if __name__ == "__main__":
    typer.run(serve)
