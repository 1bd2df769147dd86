"""A body is downloaded once and whole, through the egress proxy only, and its headers stay with its origin."""

import contextlib
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import stamina

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.download import cached, download
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE_S
from tests.sources.conftest import status
from tests.web.certificates import Authority
from tests.web.site import serve

BODY = bytes(range(256)) * 2000  # 512,000 bytes


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3):
        yield


@pytest.fixture
def get(server, tmp_path):
    """Downloads from the server into a cache of the test's own."""

    def fetch(path="/data.csv", *, hosts=(), limits=None, **options):
        allowed = [server.host, *({"host": host, "for": [server.host]} for host in hosts)]
        config = EgressConfig(allowed_hosts=allowed, **(limits or {}))
        return download(server.url(path), tmp_path / "cache", EgressPolicy(config), **options)

    return fetch


def in_turn(*answers):
    """Another answer each time; the last one stays."""
    left = list(answers)

    def answer(request):
        (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


def refusal(get, *args, **options):
    with pytest.raises(InputError) as refused:
        get(*args, **options)
    return refused.value


def test_download_asks_once_and_keeps_the_body_by_its_content(server, get, tmp_path):
    server.answers["/data.csv"] = status(200, body=BODY)
    assert cached(server.url(), tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()

    first = get()

    assert first == tmp_path / "cache" / hashlib.sha256(BODY).hexdigest()
    assert first.read_bytes() == BODY
    assert {path.suffix for path in (tmp_path / "cache" / "parts").iterdir()} == {".lock"}
    spelled = server.url().replace("http", "HTTP").replace("/data.csv", "/data.csv#top")
    assert get() == cached(spelled, tmp_path / "cache") == first
    assert len(server.asked) == 1


HARMS = {
    "the body is gone": lambda path: path.unlink(),
    "the index is damaged": lambda path: (path.parent / "index.json").write_text("{"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_download_repairs_a_damaged_cache(server, get, tmp_path, harm):
    server.answers["/data.csv"] = status(200, body=BODY)

    harm(get())

    assert cached(server.url(), tmp_path / "cache") is None
    assert get().read_bytes() == BODY
    assert list(json.loads((tmp_path / "cache" / "index.json").read_text())) == [server.url()]


@pytest.mark.fault(18)
def test_download_retries_a_broken_connection_and_a_busy_server(server, get):
    busy = status(429, {"Retry-After": "0"})
    server.answers["/data.csv"] = in_turn(status(200, body=BODY, cut=1000), busy, status(200, body=BODY))
    seen = []

    assert get(progress=lambda done, size: seen.append((done, size))).read_bytes() == BODY
    assert len(server.asked) == 3
    assert seen[-1] == (512_000, 512_000)


@pytest.mark.fault(14)
def test_download_limits_the_size(server, get):
    server.answers["/data.csv"] = status(200, body=BODY)
    assert (
        get(max_bytes=512_000, limits={"max_body_bytes": 1000}).stat().st_size == 512_000
    )  # a document's limit is another

    server.answers["/more.csv"] = status(200, body=BODY + b"x")
    server.answers["/bomb.csv"] = status(200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(512_001)))

    for path in ("/more.csv", "/bomb.csv"):
        assert refusal(get, path, max_bytes=512_000).code == "body_too_large"


FAILURES = {
    #                              answer                                                 code                 found
    "not found":                  (status(404),                                           "download_failed",   "HTTP 404"),
    "a signed redirect":          (status(302, {"Location": "/gone?signature=abc"}),      "download_failed",   "/gone?..."),
    "an unknown host":            (status(302, {"Location": "http://data.invalid/"}),      "download_failed",   "host_unresolved: "),
    "a redirect to this machine": (status(302, {"Location": "http://127.0.0.1:1/"}),      "egress_blocked",    "127.0.0.1:1"),
    "a circle":                   (status(302, {"Location": "/data.csv"}),                "too_many_redirects", "5 redirects"),
}  # fmt: skip


@pytest.mark.fault(18)
@pytest.mark.parametrize(("answer", "code", "found"), FAILURES.values(), ids=FAILURES)
def test_download_failures_have_a_code_and_what_was_found(server, get, answer, code, found):
    server.answers["/data.csv"] = answer

    error = refusal(get)

    assert (error.code, error.file) == (code, server.url())
    assert found in error.found
    asked = [path for path, _ in server.asked]
    assert len(asked) == (6 if code == "too_many_redirects" else len(set(asked)))  # final: nothing is retried


HEADERS = {"Authorization": "Bearer ${TOKEN}", "X-Plain": "plain", "Cookie": "session=1"}
SECRET = {"TOKEN": "s3cr3t-value"}


@pytest.mark.fault(5)
def test_download_sends_headers_to_their_origin_only(server, elsewhere, get):
    server.answers["/data.csv"] = status(302, {"Location": "/step", "Set-Cookie": "own=1; Path=/"})
    server.answers["/step"] = status(302, {"Location": elsewhere.url("/b")})
    elsewhere.answers["/b"] = status(200, body=BODY)

    get(headers=HEADERS, environ=SECRET, hosts=[elsewhere.host])

    assert [headers.get("authorization") for _, headers in server.asked] == ["Bearer s3cr3t-value"] * 2
    assert [headers.get("cookie") for _, headers in server.asked] == ["session=1"] * 2
    assert set(elsewhere.asked[0][1]) & {"authorization", "x-plain", "cookie"} == set()


@pytest.mark.fault(44)
@pytest.mark.parametrize("answer", [status(500), status(200, body=BODY, cut=10)])
def test_download_shows_a_secret_in_no_message_and_no_file(server, get, tmp_path, answer, caplog):
    server.answers["/data.csv"] = answer

    error = refusal(get, headers=HEADERS, environ=SECRET)

    assert "s3cr3t" not in f"{error}{error.__cause__}{caplog.text}"
    assert all(b"s3cr3t" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


BAD_HEADERS = {
    "an unset variable": ({"A": "${NOT_SET}"}, "missing_variable"),
    "a second line": ({"A": "${LINES}"}, "bad_header"),
    "a name that is none": ({"A b": "x"}, "bad_header"),
    "a range": ({"Range": "bytes=1-"}, "bad_header"),
    "for the proxy": ({"Proxy-Authorization": "x"}, "bad_header"),
}


@pytest.mark.parametrize(("headers", "code"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_download_refuses_a_bad_header_before_asking(server, get, headers, code):
    environ = {**SECRET, "LINES": "s3cr3t\r\nHost: x", "ACCENT": "s3cr3té"}

    error = refusal(get, headers=headers, environ=environ)

    assert (error.code, error.field) == (code, next(iter(headers)))
    assert "s3cr3t" not in str(error)
    assert server.asked == []


COMPANY, STRANGER = Authority(), Authority("Stranger")
CERTIFICATES = {
    #                      answering              body   hint
    "the company's":      (COMPANY.server(),      BODY,  None),
    "another host's":     (COMPANY.server("other.example"), None, "does not help"),
}  # fmt: skip


@pytest.mark.fault(61)
@pytest.mark.parametrize(("answering", "expected", "hint"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_download_trusts_a_companys_authority_and_no_other(tmp_path, answering, expected, hint):
    (tmp_path / "company.pem").write_bytes(COMPANY.pem)
    with contextlib.contextmanager(serve)(answering) as site:
        site.answers["/data.csv"] = (200, {"Content-Type": "text/csv"}, BODY)
        policy = site.policy(ca_file=str(tmp_path / "company.pem"))
        if expected is not None:
            assert download(site.url("/data.csv"), tmp_path / "cache", policy).read_bytes() == expected
            return
        with pytest.raises(InputError) as refused:
            download(site.url("/data.csv"), tmp_path / "cache", policy)

    assert refused.value.code == "tls_untrusted"
    assert hint in str(refused.value)
    assert site.asked == []


def test_download_of_many_threads_asks_once_a_url_and_loses_none(server, get, tmp_path):
    paths = [f"/{number % 4}" for number in range(12)]
    for path in paths:
        server.answers[path] = status(200, body=path.encode() * 1000)

    with ThreadPoolExecutor(12) as pool:
        got = list(pool.map(get, paths))

    assert [one.read_bytes() for one in got] == [path.encode() * 1000 for path in paths]
    assert len(server.asked) == 4
    assert all(cached(server.url(path), tmp_path / "cache") for path in paths)


KILLED = """
import sys
from pathlib import Path
from rag_eval_pipeline.sources.download import download
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
url, host, cache = sys.argv[1:]
download(url, Path(cache), EgressPolicy(EgressConfig(allowed_hosts=[host])))
"""


def test_download_of_a_killed_process_leaves_nothing_that_is_taken_for_whole(server, get, tmp_path):
    arrived = threading.Event()

    def stalling(request):
        status(200, {"Content-Length": str(len(BODY))}, BODY[:100_000])(request)
        request.wfile.flush()
        arrived.set()
        server.released.wait(PATIENCE_S)

    server.answers["/data.csv"] = stalling
    command = [sys.executable, "-c", KILLED, server.url(), server.host, str(tmp_path / "cache")]
    with subprocess.Popen(command, cwd=REPOSITORY, env=os.environ) as process:
        assert arrived.wait(PATIENCE_S)
        process.send_signal(signal.SIGKILL)

    assert cached(server.url(), tmp_path / "cache") is None
    server.answers["/data.csv"] = status(200, body=BODY)
    assert get().read_bytes() == BODY
