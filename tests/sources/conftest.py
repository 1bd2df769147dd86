"""Scratch benchmarks, as those of the converter's tests, and servers whose answers are functions of the request."""

import http.server
import io
import threading
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conversion.conftest import benchmark

__all__ = ["benchmark"]


class Server:
    """A server of `answers` by path; it remembers what it was asked."""

    def __init__(self):
        server = self
        self.answers = {}
        self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                server.answers.get(self.path, status(404))(self)

            def log_message(self, *args):
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.host = f"127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def url(self, path="/data.csv"):
        return f"http://{self.host}{path}"


def parquet(rows):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def zipped(files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def status(code, headers=None, body=b"", *, cut=None):
    """An answer; with `cut`, the connection ends after so many bytes of the body."""

    def answer(request):
        request.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            if value is not None:
                request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body[:cut])

    return answer


@pytest.fixture
def server():
    started = Server()
    yield started
    started.close()


@pytest.fixture
def elsewhere():
    """A second origin: the same host, another port."""
    started = Server()
    yield started
    started.close()
