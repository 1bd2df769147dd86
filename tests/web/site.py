"""A server on loopback whose answers a test sets."""

import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from tests.patience import PATIENCE_S

Answer = tuple[int, dict[str, str], bytes]


class Site:
    """A server on loopback whose answers a test sets, and which remembers what it was asked."""

    def __init__(self, port: int, scheme: str = "http", address: str = "127.0.0.1") -> None:
        self.port = port
        self.address = address
        self.scheme = scheme
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []  # of each request, by lower-case name

    @property
    def host(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.host}{path}"

    def policy(self, **limits: object) -> EgressPolicy:
        """Allows this server and nothing else of this machine."""
        limits = {"fetch_limit_s": PATIENCE_S, "page_load_limit_s": PATIENCE_S} | limits
        return EgressPolicy(EgressConfig(allowed_hosts=(self.host,), **limits))


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, host: str, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), handler)


def serve(tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> Iterator[Site]:
    """The server, over TLS where it has something to answer with."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            site.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = site.answers.get(self.path, (404, {}, b"not here"))
            status, headers, body = answer() if callable(answer) else answer
            self.send_response(status)
            if status == 304:
                body = b""
            for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = _Server(host, Handler)
    site = Site(server.server_address[1], "https" if tls else "http", host)
    if tls is not None:
        # The handshake belongs to the connection's own thread; a client that refuses the certificate is no error here.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda request, address: None
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
