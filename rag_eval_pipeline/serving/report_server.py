"""The server of the report: static files, for requests that name this machine, with a bound on connections."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_eval_pipeline.defs.metadata import REPORT_URL_VARIABLE
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.monitoring.prometheus import MEDIA_TYPE, METRICS_FILE
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import Workspace, default_root

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

REPORT_CONNECTIONS = 64  # open at once; each holds at most one read, 256 KB, of what its client sends
LOOPBACK = ("localhost", "127.0.0.1")
LABEL_BYTES = 10_000
AUDIT_BYTES = 4_000_000
NOT_IN_REPORT = "This page is not in the report. A run's page is drawn by the aggregation that follows it.\n"


@contextlib.contextmanager
def report_server(reports: Path, host: str, port: int) -> Iterator[str]:
    """Serve `data/reports`, which need not exist yet, in a thread, and yield the address; port 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol  # of uvicorn's two parsers the one that bounds a head

    class ReportConnection(H11Protocol):
        """Ends the connection that has waited longest for its client if there are too many: no client stops others."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)  # type: ignore[arg-type]
            self.waiting_since = self.loop.time()
            if len(self.connections) > REPORT_CONNECTIONS:
                slowest = min(self.connections, key=lambda connection: connection.waiting_since)  # type: ignore[union-attr]
                self.connections.discard(slowest)
                slowest.transport.abort()

        def on_response_complete(self) -> None:
            self.waiting_since = self.loop.time()
            super().on_response_complete()

    listener = socket.create_server((host, port))
    # asyncio does this for the sockets that it makes itself; without it, a body waits 40 ms for the head's ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        report_app(reports, host),
        http=ReportConnection,
        ws="none",
        log_level="error",
        access_log=False,
        backlog=REPORT_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    logging.getLogger("uvicorn.error").addFilter(_without_traceback)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _without_traceback(record: logging.LogRecord) -> bool:
    """Log an error of the report server, such as a page that is replaced while it is sent, in one line."""
    if record.exc_info:
        record.msg, record.args, record.exc_info = f"The report: {record.exc_info[1]!r}", (), None
    return True


def _save_label(workspace: Workspace, request: "Request", body: bytes) -> bytes:
    """Save or remove one label in the file that `rag-eval calibrate` reads."""
    from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
    from rag_eval_pipeline.judges.labels import Label, labels_path, save_label

    evaluation_id = request.path_params["evaluation_id"]
    load_evaluation(workspace, evaluation_id)
    label = Label.model_validate_json(body)
    save_label(labels_path(workspace, evaluation_id), label, is_sure=request.method == "POST")
    return b"{}"


_writing = threading.Lock()


def _list_questions(workspace: Workspace, request: "Request", body: bytes) -> bytes:
    """Write the report again, with the questions of an older run."""
    from rag_eval_pipeline.site.site import write_report

    with _writing:
        write_report(workspace, listed=[request.path_params["evaluation_id"]])
    return b"{}"


def _save_audit(workspace: Workspace, request: "Request", body: bytes) -> bytes:
    """Write a benchmark's audit.yaml if that is posted, and return its decisions and SHA-256."""
    from rag_eval_pipeline.conversion.audit_decisions import audit_sha256, parse_decisions, read_decisions

    paths = workspace.existing_benchmark(request.path_params["benchmark"])
    with _writing:
        if request.method == "POST":
            decisions = parse_decisions(paths, body)
            if (audit_sha256(paths) or "") != request.query_params.get("of", ""):
                raise InputError("audit_changed", paths.audit, "the file that the page shows", hint="Load it again.")
            if decisions:
                atomic_write(paths.audit, body)
            else:
                paths.audit.unlink(missing_ok=True)
        found = [one.model_dump(mode="json", exclude_defaults=True) for one in read_decisions(paths)]
        return json.dumps({"sha256": audit_sha256(paths) or "", "decisions": found}).encode()


def _comparison_file(workspace: Workspace, request: "Request", body: bytes) -> bytes:
    """Return a comparison of the report as one file."""
    from rag_eval_pipeline.monitoring.regressions import read_comparisons
    from rag_eval_pipeline.site.comparison_file import comparison_file
    from rag_eval_pipeline.site.data import comparison_name

    wanted = request.path_params["comparison"]
    row = next((one for one in read_comparisons(workspace).rows if comparison_name(one) == wanted), None)
    if row is None or not row.verdicts:
        raise InputError("no_evaluation", "the report", "a comparison with verdicts", found=wanted)
    return comparison_file(workspace, row)


def report_app(reports: Path | None = None, host: str = "127.0.0.1") -> "Starlette":
    """Return the application that serves the report: files only, no listings, no hidden files, no links to outside.

    On a loopback address only requests that name this machine are answered: a page on the web could resolve its own
    name to that address and read the report in a visitor's browser.

    Args:
        reports: By default of the default workspace.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import Scope

    class ReportFiles(StaticFiles):
        async def check_config(self) -> None:
            """Accept a folder that does not exist yet."""

        async def get_response(self, path: str, scope: Scope) -> Response:
            if any(part.startswith(".") and part != "." for part in Path(path).parts) or "\0" in path:
                raise HTTPException(404)
            try:
                response = await super().get_response(path, scope)
            except OSError as error:  # a link that leads to itself, a folder that cannot be read
                raise HTTPException(404) from error
            response.headers["Cache-Control"] = "no-cache"
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            return response

    async def metrics(request: Request) -> Response:
        path = folder / METRICS_FILE
        if not path.is_file():
            return PlainTextResponse("Nothing was evaluated yet.\n", status_code=404)
        return Response(path.read_bytes(), media_type=MEDIA_TYPE)

    async def not_in_report(request: Request, error: Exception) -> Response:
        if not request.scope["path"].startswith("/"):
            return PlainTextResponse("The path of a request begins with /.\n", status_code=400)
        return PlainTextResponse(NOT_IN_REPORT, status_code=404)

    published_at = urlsplit(os.environ.get(REPORT_URL_VARIABLE, "")).hostname
    is_local = host == "localhost" or host.startswith("127.")
    names = [*LOOPBACK, host, *([published_at] if published_at else [])] if is_local else ["*"]
    folder = reports or Workspace(Path(default_root()).resolve()).reports
    workspace = Workspace(folder.parents[1])

    def action(what: str, limit: int, run: Callable[[Workspace, Request, bytes], bytes], kind: str = "json") -> Any:
        """Return a handler that passes on what a page of this report sends or asks for on this machine."""

        async def handle(request: Request) -> Response:
            address = request.headers.get("host", "")
            if not is_local or urlsplit(f"//{address}").hostname not in (*LOOPBACK, host):
                return PlainTextResponse(f"{what} are sent and saved only on a loopback address\n", status_code=403)
            if request.method != "GET" and request.headers.get("origin") != f"http://{address}":
                return PlainTextResponse(f"{what} are saved only from the pages of this report\n", status_code=403)
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    return PlainTextResponse(f"{what} have at most {limit} bytes\n", status_code=413)
            try:
                found = await run_in_threadpool(run, workspace, request, body)
            except (InputError, ServiceError, ValueError) as error:
                return PlainTextResponse(f"{error}\n", status_code=400)
            return Response(found, media_type={"json": "application/json", "html": "text/html"}[kind])

        return handle

    return Starlette(
        routes=[
            Route("/labels/{evaluation_id}", action("labels", LABEL_BYTES, _save_label), methods=["POST", "DELETE"]),
            Route("/questions/{evaluation_id}", action("lists", LABEL_BYTES, _list_questions), methods=["POST"]),
            Route("/audits/{benchmark}", action("decisions", AUDIT_BYTES, _save_audit), methods=["GET", "POST"]),
            Route("/files/{comparison}", action("files", 0, _comparison_file, "html")),
            Route("/metrics", metrics, methods=["GET"]),
            Mount("/", ReportFiles(directory=folder, html=True, check_dir=False)),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)],
        exception_handlers={404: not_in_report},
    )
