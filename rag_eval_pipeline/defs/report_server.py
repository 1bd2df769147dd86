"""The report over HTTP, for the links of the Dagster UI: reads `data/reports`, writes nothing.

On an address of this machine only requests that name this machine are answered: a page somewhere on the web could
otherwise give its own name this address and read the report in a visitor's browser.
"""

import argparse
import contextlib
import io
import ipaddress
import signal
import threading
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.defs.links import REPORT_URL_VARIABLE
from rag_eval_pipeline.workspace import Workspace, default_root

MISSING = "This page is not in the report. A run's page is drawn by the aggregation that follows it.\n"


class ReportHandler(SimpleHTTPRequestHandler):
    """GET and HEAD of the report's files; no listings, no hidden files, nothing outside by a link."""

    server_version = "rag-eval"
    sys_version = ""
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".js": "text/javascript; charset=utf-8"}

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """A file; None when the answer is out already and says in words why there is none."""
        if not self._names_this_machine():
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "This report is served to this machine only.\n")
            return None
        path, root = Path(self.translate_path(self.path)), Path(self.directory).resolve()
        hidden = any(part.startswith(".") for part in unquote(urlsplit(self.path).path).split("/"))
        found = path / "index.html" if path.is_dir() else path
        if hidden or not found.is_file() or not found.resolve().is_relative_to(root):
            self._refuse(HTTPStatus.NOT_FOUND, MISSING)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """What every answer says: look again before you show it, guess no type, tell nobody where you come from."""
        for name, value in (
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: who looks at the report is no event."""

    def _names_this_machine(self) -> bool:
        address = ipaddress.ip_address(str(self.connection.getsockname()[0]))
        asked = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return not address.is_loopback or asked in ("localhost", str(address))

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def report_server(reports: Path, host: str, port: int) -> Iterator[str]:
    """Serves the folder, which need not exist yet, and gives the address.

    Args:
        reports: `data/reports`.
        host: Name or address to listen on.
        port: 0 takes a free one.

    Raises:
        OSError: The port cannot be had.
    """
    server = ThreadingHTTPServer((host, port), partial(ReportHandler, directory=str(reports)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Serves the report alone, where the UI is started by something else: a container, a service manager."""
    arguments = argparse.ArgumentParser(description=f"The report of a workspace over HTTP; set {REPORT_URL_VARIABLE}.")
    arguments.add_argument("--host", default="127.0.0.1", help="The report has no login, as Dagster has none.")
    arguments.add_argument("--port", type=int, default=3001)
    options = arguments.parse_args()
    told = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, told)  # before the server's thread begins, which inherits it
    with report_server(Workspace(Path(default_root()).resolve()).reports, options.host, options.port) as address:
        print(f"Report: {address}", flush=True)
        signal.sigwait(told)


if __name__ == "__main__":
    main()
