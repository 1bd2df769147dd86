"""A loopback site, and small PDFs and pictures made by hand."""

import http.server
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Iterator

from rag_eval_pipeline.corpus.egress.config import EgressConfig
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy

Answer = tuple[int, dict[str, str], bytes]


def png(red: int, green: int, blue: int, size: int = 64) -> bytes:
    """A square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, green, blue)) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def simple_pdf(*texts: str) -> bytes:
    """A PDF with one line of Latin text on each page."""
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(texts)))
    font = "<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(texts)}>>"]
    for n, text in enumerate(texts):
        drawing = f"BT /F 12 Tf 72 700 Td ({text}) Tj ET"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources{font}/Contents {4 + 2 * n} 0 R>>")
        objects.append(f"<</Length {len(drawing)}>>stream\n{drawing}\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj{body}endobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


class Site:
    """A server on loopback whose answers a test sets, and which remembers what it was asked."""

    def __init__(self, port: int, scheme: str = "http") -> None:
        self.port = port
        self.scheme = scheme
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []  # of each request, by lower-case name

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.host}{path}"

    def policy(self, **limits: object) -> EgressPolicy:
        """Allows this server and nothing else of this machine."""
        return EgressPolicy(EgressConfig(allowed_hosts=(self.host,), **limits))


def serve(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
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

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(server.server_address[1], "https" if tls else "http")
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
