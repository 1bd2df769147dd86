"""A server on loopback that answers every request by a function of its path and JSON body."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"
Reply = Any | tuple[int, Any] | tuple[int, Any, str]


class JsonServer(ThreadingHTTPServer):
    """Keeps what it was sent; a reply is JSON or text, with a status and a media type if it is a tuple."""

    daemon_threads = True
    request_queue_size = 128  # more than are asked at once: the default of 5 resets connections under load

    def __init__(self, answer: Callable[[str, Any], Reply], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer
        self.bodies: list[Any] = []
        self.headers: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that hangs up is no fault
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: JsonServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self.server.headers.append(str(self.headers))
        self._answer(body)

    do_PUT = do_POST

    def do_GET(self) -> None:
        self._answer(None)

    def _answer(self, body: Any) -> None:
        reply = self.server.answer(self.path, body)
        status, value, media = (*reply, JSON)[:3] if isinstance(reply, tuple) else (200, reply, JSON)
        sent = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def json_server(answer: Callable[[str, Any], Reply]) -> Iterator[JsonServer]:
    """Serves until the block ends."""
    with JsonServer(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
