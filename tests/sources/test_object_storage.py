"""Objects of S3, Google Cloud Storage and Azure are downloaded like URLs, with credentials of the environment only."""

import http.server
import json
import threading
import urllib.parse

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.download import cached, download
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from tests.web.certificates import Authority

BODY = b"question,answer\n" + b"What is it?,It.\n" * 1000
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s3cr3t-value"}
AZURE = "AccountName=acc;AccountKey=czNjcjN0;BlobEndpoint="
DENIED = b"<Error><Code>AccessDenied</Code><Message>s3cr3t-value</Message></Error>"
DATE = "Fri, 02 Jan 2026 03:04:05 GMT"
FACTS = {"Last-Modified": DATE, "ETag": '"1"'}
FACTS |= {"x-ms-creation-time": DATE, "x-ms-blob-type": "BlockBlob", "x-ms-server-encrypted": "true"}
COMPANY = Authority()


class Handler(http.server.BaseHTTPRequestHandler):
    """A store with the bucket `data`, by the protocols of the three clouds; signatures are not checked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(self.path)
        path, _, query = urllib.parse.unquote(self.path).removeprefix("/acc").partition("?")
        is_google = path.startswith("/storage/v1/b/")
        path = path.removeprefix("/storage/v1/b").replace("/o/", "/", 1)
        if path.startswith("/private/"):
            self.answer(403, DENIED)
        elif path.startswith("/abroad/"):
            self.answer(301, headers={"x-amz-bucket-region": "eu-west-1"})
        elif path != "/data/a b/q.csv":
            self.answer(404)
        elif is_google and "alt=media" not in query:
            facts = {"kind": "storage#object", "name": "a b/q.csv", "bucket": "data", "generation": "1"}
            self.answer(200, json.dumps({**facts, "size": str(len(BODY))}).encode())
        else:
            asked = self.headers.get("x-ms-range") or self.headers.get("Range")
            start, end = (
                int(place or len(BODY) - 1) for place in (asked or "bytes=0-").removeprefix("bytes=").split("-")
            )
            part = {"Content-Range": f"bytes {start}-{end}/{len(BODY)}"} if asked else {}
            self.answer(206 if asked else 200, BODY[start : end + 1], {**FACTS, **part})

    do_HEAD = do_GET

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def store():
    """Starts stores; they end with the test."""
    servers = []

    def start(tls=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.host, server.asked = f"127.0.0.1:{server.server_address[1]}", []
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def get(server, tmp_path, url, environ=KEYS, *, allowed=True, **options):
    scheme = "http" if server.socket.__class__.__name__ == "socket" else "https"
    endpoint = f"{scheme}://{server.host}"
    (tmp_path / "company.pem").write_bytes(COMPANY.pem)
    config = EgressConfig(allowed_hosts=[server.host] * allowed, ca_file=str(tmp_path / "company.pem"))
    environ = {"AWS_ENDPOINT_URL": endpoint, "STORAGE_EMULATOR_HOST": endpoint, **environ}
    environ.setdefault("AZURE_STORAGE_CONNECTION_STRING", f"{AZURE}{endpoint}/acc")
    return download(url, tmp_path / "cache", EgressPolicy(config), environ=environ, **options)


@pytest.mark.parametrize("url", ["s3://data/a b/q.csv", "gs://data/a b/q.csv", "az://data/a b/q.csv"])
def test_object_is_downloaded_once(store, tmp_path, url, started_workers):
    server, seen = store(COMPANY.server() if url.startswith("az") else None), []

    first = get(server, tmp_path, url, progress=lambda done, size: seen.append(done))

    assert first.read_bytes() == BODY
    assert seen[-1] == len(BODY)
    asked = len(server.asked)
    assert get(server, tmp_path, url) == cached(url.replace(url[:2], url[:2].upper(), 1), tmp_path / "cache") == first
    assert len(server.asked) == asked


REFUSALS = {
    #                        url                   options                                   code                what is said
    "no such object":       ("s3://data/none",     {},                                       "download_failed",  "Check bucket and key"),
    "no such bucket":       ("gs://none/401 x",    {},                                       "download_failed",  "Check bucket and key"),
    "without credentials":  ("s3://private/x",     {"environ": {}},                          "download_failed",  "Set AWS_ACCESS_KEY_ID and"),
    "others' credentials":  ("s3://private/x",     {},                                       "download_failed",  "Check AWS_ACCESS_KEY_ID and"),
    "Google, without":      ("gs://private/x",     {},                                       "download_failed",  "Set GOOGLE_APPLICATION_CREDENTIALS"),
    "another region":       ("s3://abroad/x",      {},                                       "download_failed",  "Set AWS_REGION"),
    "half of the keys":     ("s3://data/x",        {"environ": {"AWS_ACCESS_KEY_ID": "s3cr3t"}}, "download_failed", "Check AWS_ACCESS_KEY_ID and AWS_SECRET"),
    "no connection string": ("az://data/x",        {"environ": {"AZURE_STORAGE_CONNECTION_STRING": "AccountKey=s3cr3t"}}, "missing_variable", "AccountName"),
    "not allowed":          ("s3://data/a b/q.csv", {"allowed": False},                      "egress_blocked",   "allowed_hosts"),
    "Google, not allowed":  ("gs://data/a b/q.csv", {"allowed": False},                      "egress_blocked",   "allowed_hosts"),
    "too large":            ("s3://data/a b/q.csv", {"max_bytes": 100},                      "body_too_large",   "at most 100 bytes, found '16,016'"),
    "a password":           ("s3://me:s3cr3t@data/x", {},                                    "bad_url",          "s3://...data/x"),
    "a key in the query":   ("gs://data/x?key=s3cr3t", {},                                   "bad_url",          "gs://data/x?..."),
    "a folder":             ("s3://data/folder/",  {},                                       "bad_url",          "s3://BUCKET/KEY"),
}  # fmt: skip


@pytest.mark.parametrize(("url", "options", "code", "said"), REFUSALS.values(), ids=REFUSALS)
def test_object_is_refused_with_what_to_do_and_without_secrets(store, tmp_path, url, options, code, said):
    with pytest.raises(InputError) as refused:
        get(store(), tmp_path, url, **options)

    assert refused.value.code == code
    assert said in str(refused.value)
    assert "s3cr3t" not in str(refused.value)
    assert not list((tmp_path / "cache").rglob("*.part"))
