"""A server on loopback that nobody should ask twice: it counts its questions, as a system and as a judge."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

from rag_eval_pipeline.workspace import Workspace


class PaidServer(ThreadingHTTPServer):
    """Answers `/ask`, and refuses every chat completion with status 400, as a judge whose key is wrong does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.judged = 0
        self.refused: set[int] = set()  # numbers of the different questions that get no answer, from 1

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PaidServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/ask":
            self.server.asked[body["question"]] += 1
            self._send(400 if len(self.server.asked) in self.server.refused else 200, {"answer": "It is 4."})
        else:
            self.server.judged += 1
            self._send(400, {"error": {"message": "unknown model"}})

    def _send(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def paid_server() -> Iterator[PaidServer]:
    """Serves until the block ends."""
    with PaidServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def set_system(workspace: Workspace, server: PaidServer, endpoint: dict[str, Any] | None = None, **more: Any) -> None:
    """Makes the server the system `paid`, which takes part in nights."""
    settings = {
        "endpoint": {"base_url": server.url, "in_flight": 1, **(endpoint or {})},
        "path": "/ask",
        "body": {"question": "{question}"},
        "answer": "answer",
    }
    file = {"kind": "http", "nightly": True, "settings": settings, **more}
    workspace.system_file("paid").write_text(yaml.safe_dump(file))


def set_judge(workspace: Workspace, server: PaidServer, **more: Any) -> None:
    """Makes the server the judge."""
    judge = {"kind": "openai", "settings": {"endpoint": {"base_url": server.url}, "chat": {"model": "m"}}, **more}
    path = workspace.defaults_config
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "judge": judge}))
