"""The server's addresses: which method and path is answered by what."""

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable

from rag_eval_pipeline.loopback.bodies import send_json
from rag_eval_pipeline.loopback.breaking import break_answer, retry_after, status_of
from rag_eval_pipeline.loopback.chat import ChatServer
from rag_eval_pipeline.loopback.faults import BREAKING
from rag_eval_pipeline.loopback.ingestor import IngestorServer
from rag_eval_pipeline.loopback.rag import RagServer
from rag_eval_pipeline.loopback.site import Site
from rag_eval_pipeline.loopback.wire import Connection, Request

RAG, INGESTOR, OPENAI, CONTROL = "/rag", "/ingestor", "/openai/v1", "/control"

Route = Callable[[Request, Connection], Awaitable[None]]


class Server:
    """All interfaces on one port.

    Args:
        site: The server's state.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._secret = os.environ[site.options.api_key_env] if site.options.api_key_env else None
        rag, ingestor, chat = RagServer(site), IngestorServer(site), ChatServer(site)
        self._routes: dict[str, Route] = {
            f"POST {RAG}/v1/generate": rag.generate,
            f"POST {RAG}/v1/chat/completions": rag.generate,
            f"POST {RAG}/v1/search": rag.search,
            f"GET {RAG}/v1/health": rag.health,
            f"GET {RAG}/v1/configuration": rag.configuration,
            f"GET {INGESTOR}/v1/health": ingestor.health,
            f"GET {INGESTOR}/v1/collections": ingestor.collections,
            f"DELETE {INGESTOR}/v1/collections": ingestor.delete_collections,
            f"POST {INGESTOR}/v1/collection": ingestor.create,
            f"GET {INGESTOR}/v1/documents": ingestor.documents,
            f"POST {INGESTOR}/v1/documents": ingestor.upload,
            f"PATCH {INGESTOR}/v1/documents": ingestor.upload,
            f"DELETE {INGESTOR}/v1/documents": ingestor.delete_documents,
            f"GET {INGESTOR}/v1/status": ingestor.status,
            f"GET {OPENAI}/models": chat.models,
            f"POST {OPENAI}/chat/completions": chat.completions,
            f"GET {CONTROL}": self._counts,
            f"POST {CONTROL}/reset": self._reset,
        }

    async def listen(self, port: int) -> asyncio.Server:
        """Begins to answer on 127.0.0.1; port 0 takes a free one."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Connection(self.handle), "127.0.0.1", port, backlog=1024)

    async def handle(self, request: Request, connection: Connection) -> None:
        """Answers a request."""
        place = f"{request.method} {request.path}"
        route = self._routes.get(place)
        if route is None:
            known = any(path.partition(" ")[2] == request.path for path in self._routes)
            await send_json(
                connection, {"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404
            )
        elif request.path.startswith(CONTROL):
            await route(request, connection)
        else:
            self._site.counts.opened(1)
            try:
                await self._answer(place, route, request, connection)
            finally:
                self._site.counts.opened(-1)

    async def _answer(self, place: str, route: Route, request: Request, connection: Connection) -> None:
        fault = self._site.plan.of_path(place, attempt=self._site.counts.path(place))
        if fault is not None:
            self._site.counts.fault(fault.name)
        given = request.headers.get("authorization", "")
        if self._secret is not None and not hmac.compare_digest(given.encode(), f"Bearer {self._secret}".encode()):
            error = {
                "message": "Incorrect API key provided.",
                "type": "authentication_error",
                "param": None,
                "code": None,
            }
            await send_json(connection, {"message": "Unauthorized", "error": error}, 401)
        elif fault is not None and (status := status_of(fault)) is not None:
            message = f"The server was told to answer with status {status}."
            await send_json(connection, {"message": message}, status, retry_after(fault))
        elif fault is not None and fault.name in BREAKING:
            await break_answer(connection, fault)
        else:
            await route(request, connection)

    async def _counts(self, request: Request, connection: Connection) -> None:
        counts = self._site.counts
        await send_json(connection, counts.summary() if "summary" in request.query else counts.whole())

    async def _reset(self, _: Request, connection: Connection) -> None:
        self._site.counts.reset()
        await send_json(connection, {"message": "Counts are reset."})
