"""The application of all interfaces, and its command line."""

import asyncio
import contextlib
import hmac
import json
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic
import typer
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from examples.mock_server.faults import Fault, FaultScript, fail
from examples.mock_server.nvidia_ingestor import (
    create_collection,
    delete_collections,
    delete_documents,
    list_collections,
    list_documents,
    new_task,
    task_status,
    upload_documents,
)
from examples.mock_server.nvidia_rag import configuration, generate, health, message_body, search
from examples.mock_server.openai import complete_chat, error_body, list_models, refuse_openai_url, show_model
from examples.mock_server.site import DEFAULT_COLLECTION, Collection, Options, Site


async def ask(site: Site, request: Request) -> Response:
    """`POST /ask`: a question in, a text and its sources out."""
    body = pydantic.TypeAdapter(dict[str, Any]).validate_json(await request.body())
    question = site.ask("ask", str(body.get("question", "")))
    if (failed := await fail(request, question.fault, message_body)) is not None:
        return failed
    text, passages = await site.answer(question.text, [DEFAULT_COLLECTION])
    site.count_answer(question)
    sources = [{"file": p.document, "page": p.page, "chunk": p.text, "score": p.score} for p in passages]
    return JSONResponse({"result": {"text": text, "sources": sources}})


async def control(site: Site, request: Request) -> Response:
    """`GET /control`, `POST /control/reset`."""
    if request.method == "POST":
        site.reset()
        if script := await request.body():
            site.options = site.options._replace(faults=FaultScript.model_validate_json(script))
    return JSONResponse(site.counts(by_question="summary" not in request.query_params))


Handler = Callable[[Site, Request], Awaitable[Response]]
Interface = Mapping[tuple[str, str], Handler]  # method and path -> what answers

RAG: Interface = {
    ("POST", "/v1/generate"): generate,
    ("POST", "/v1/search"): search,
    ("GET", "/v1/health"): health,
    ("GET", "/v1/configuration"): configuration,
}
INGESTOR: Interface = {
    ("GET", "/v1/health"): health,
    ("GET", "/v1/collections"): list_collections,
    ("DELETE", "/v1/collections"): delete_collections,
    ("POST", "/v1/collection"): create_collection,
    ("GET", "/v1/documents"): list_documents,
    ("POST", "/v1/documents"): upload_documents,
    ("PATCH", "/v1/documents"): upload_documents,
    ("DELETE", "/v1/documents"): delete_documents,
    ("GET", "/v1/status"): task_status,
}
OPENAI: Interface = {
    ("GET", "/models"): list_models,
    ("GET", "/models/{model}"): show_model,
    ("POST", "/chat/completions"): complete_chat,
}
MOUNTED = (("/rag", RAG), ("/ingestor", INGESTOR), ("/openai/v1", OPENAI), ("", {**RAG, **INGESTOR}))


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with the transport in `request.state` for faults that break the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Keep the transport."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


def make_app(site: Site, alone: Mapping[int, Interface]) -> ASGIApp:
    """Return the application; a port in `alone` serves one interface, without a prefix."""

    def guard(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            await request.body()
            place = f"{request.method} {request.url.path}"
            site.paths[place] += 1
            script = site.options.faults.paths.get(place, ())
            number = site.paths[place]
            fault = Fault(script[number - 1]) if number <= len(script) and script[number - 1] != "ok" else None
            site.faults.update([fault.name] if fault is not None else [])
            given = request.headers.get("authorization", "").encode()
            key = site.options.api_key
            if key is not None and not hmac.compare_digest(given, f"Bearer {key}".encode()):
                error = error_body(401, "Incorrect API key provided.", code="invalid_api_key")
                return JSONResponse({"message": "Unauthorized", **error}, 401)
            if (failed := await fail(request, fault, message_body)) is not None:
                return failed
            try:
                return await handler(site, request)
            except pydantic.ValidationError as error:
                detail = error.errors(include_url=False, include_input=False, include_context=False)
                return JSONResponse({"detail": detail}, 422)
            except ValueError as error:
                return JSONResponse({"message": str(error)}, 400)

        return respond

    async def count(request: Request) -> Response:
        return await control(site, request)

    routes = [
        Route(prefix + path, guard(handler), methods=[method])
        for prefix, interface in MOUNTED
        for (method, path), handler in interface.items()
    ]
    routes += [Route("/rag/v1/chat/completions", guard(generate), methods=["POST"])]
    routes += [Route("/v1/chat/completions", guard(complete_chat), methods=["POST"])]
    routes += [Route("/openai/v1/{path:path}", guard(refuse_openai_url), methods=["GET", "POST", "DELETE"])]
    routes += [Route("/ask", guard(ask), methods=["POST"])]
    routes += [Route("/control", count), Route("/control/reset", count, methods=["POST"])]
    everything = Starlette(routes=routes)
    by_port = {
        port: Starlette(routes=[Route(path, guard(handle), methods=[m]) for (m, path), handle in interface.items()])
        for port, interface in alone.items()
    }

    async def serve_port(scope: Scope, receive: Receive, send: Send) -> None:
        await by_port.get(scope["server"][1], everything)(scope, receive, send)

    return serve_port


def serve(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 uses a free one.")] = 0,
    rag_port: Annotated[
        int | None, typer.Option(help="A port for NVIDIA's RAG server alone, at /v1; 0 uses a free one.")
    ] = None,
    ingestor_port: Annotated[
        int | None, typer.Option(help="A port for NVIDIA's ingestor alone, at /v1; 0 uses a free one.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help=f"Folder of PDFs that are ingested as `{DEFAULT_COLLECTION}` at the start.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the faults.")] = 0,
    faults: Annotated[str, typer.Option(help="Share of the attempts that fail, such as 0.1, or a JSON script.")] = "0",
    latency_ms: Annotated[float, typer.Option(help="Time from a question to the beginning of its answer.")] = 50.0,
    canned: Annotated[
        bool, typer.Option("--canned", help="Answer from the question's hash and read no document.")
    ] = False,
    ingestion_ms: Annotated[float, typer.Option(help="Time for ingesting a document, besides reading it.")] = 0.0,
    media_every: Annotated[int, typer.Option(help="Every n-th passage is a table, chart or image; 0 for none.")] = 5,
    page_base: Annotated[int, typer.Option(min=0, max=1, help="Number of a document's first page.")] = 1,
    unready: Annotated[str | None, typer.Option(help="A dependency that /v1/health reports as down.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the bearer token that requests need.")
    ] = None,
    until_stdin_closes: Annotated[
        bool, typer.Option("--until-stdin-closes", help="Exit when standard input is closed.")
    ] = False,
) -> None:
    """Serve mocks of OpenAI's and NVIDIA's interfaces and a JSON endpoint on this machine."""
    try:
        value = json.loads(faults)
        script = FaultScript.model_validate(value if isinstance(value, dict) else {"rate": value})
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--faults") from None
    key = None if api_key_env is None else os.environ[api_key_env]
    site = Site(Options(seed, script, latency_ms, canned, ingestion_ms, media_every, page_base, unready, key))
    if corpus is not None:
        collection = site.collections[DEFAULT_COLLECTION] = Collection(DEFAULT_COLLECTION)
        files = [(path.name, path.read_bytes()) for path in sorted(corpus.glob("*.pdf"))]
        task = new_task([name for name, _ in files])
        asyncio.run(site.ingest(collection, files, replace=True, task=task))
        for failed in task["result"]["failed_documents"]:
            typer.echo(failed["error_message"], err=True)
    common = _listen(port, "--port")
    rag = None if rag_port is None else _listen(rag_port, "--rag-port")
    ingestor = None if ingestor_port is None else _listen(ingestor_port, "--ingestor-port")
    url = _url(common)
    typer.echo(common.getsockname()[1])  # the first line is for programs
    typer.echo(f"OpenAI: {url}/openai/v1\nNVIDIA: {url}/rag and {url}/ingestor\nJSON:   {url}/ask")
    alone = {}
    for name, listening, interface in (("RAG server", rag, RAG), ("ingestor", ingestor, INGESTOR)):
        if listening is not None:
            typer.echo(f"NVIDIA's {name} alone: {_url(listening)}")
            alone[listening.getsockname()[1]] = interface
    sys.stdout.flush()
    if until_stdin_closes:
        threading.Thread(target=_exit_with_stdin, daemon=True).start()
    config = uvicorn.Config(
        make_app(site, alone), http=Protocol, loop="asyncio", ws="none", lifespan="off", log_level="error",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[one for one in (common, rag, ingestor) if one is not None])


def _listen(port: int, option: str) -> socket.socket:
    try:
        listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError as error:
        raise typer.BadParameter(f"port {port}: {os.strerror(error.errno or 0)}", param_hint=option) from None
    # asyncio does this for the sockets that it makes itself; without it, a body waits 40 ms for the head's ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _url(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def _exit_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)
