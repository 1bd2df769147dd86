"""A body comes once and whole: continued after an interruption, never a mix of versions, and through the guard only."""

import contextlib
import email.utils
import gzip
import hashlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import stamina
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.egress.config import EgressConfig
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.download_headers import header_values
from rag_eval_pipeline.sources.downloads import cached, download
from tests.conftest import REPOSITORY
from tests.corpus.certificates import Authority
from tests.corpus.making import serve

BODY = bytes(range(256)) * 2000  # 512,000 bytes; a mix of two offsets or versions would show
OTHER = BODY[::-1]


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3):
        yield


class Server:
    """A server whose answers are functions of the request; it remembers what it was asked."""

    def __init__(self):
        server = self
        self.answers = {}
        self.asked = []
        self.released = threading.Event()

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
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def url(self, path="/data.csv"):
        return f"http://{self.host}{path}"

    def ranges(self):
        return [headers.get("range") for _, headers in self.asked]


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


@pytest.fixture
def get(server, tmp_path):
    """Downloads from the server into a cache of the test's own."""

    def fetch(path="/data.csv", *, hosts=(), limits=None, **options):
        allowed = [server.host, *({"host": host, "for": [server.host]} for host in hosts)]
        config = EgressConfig(allowed_hosts=allowed, **(limits or {}))
        return download(server.url(path), tmp_path / "cache", EgressPolicy(config), **options)

    return fetch


def status(code, headers=None, body=b""):
    def answer(request):
        request.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def redirect(url):
    return status(302, {"Location": url})


def body(data=BODY, *, etag='"1"', cut_at=None, ranges=True, headers=None):
    """A file; `cut_at` breaks the connection once, so many bytes into the whole file."""
    cuts = [] if cut_at is None else [cut_at] if isinstance(cut_at, int) else list(cut_at)

    def answer(request):
        start = 0
        wanted = request.headers.get("Range")
        if ranges and wanted and request.headers.get("If-Range") in (etag, None):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if request.headers.get("If-None-Match") == etag is not None:
            request.send_response(304)
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        request.send_header("Content-Length", str(len(data) - start))
        if etag is not None:
            request.send_header("ETag", etag)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.end_headers()
        end = cuts.pop(0) if cuts else len(data)
        request.wfile.write(data[start:end])

    return answer


def refusal(get, *args, **options):
    with pytest.raises(InputError) as refused:
        get(*args, **options)
    return refused.value


def test_a_body_is_kept_by_its_content_with_what_is_known_of_it(server, get, tmp_path):
    headers = {"Content-Type": "text/csv", "Last-Modified": "Thu, 19 Sep 2024 10:00:00 GMT"}
    server.answers["/data.csv"] = body(b"q,a\n1,2\n", headers=headers)

    got = get()

    digest = hashlib.sha256(b"q,a\n1,2\n").hexdigest()
    assert got.path == tmp_path / "cache" / digest
    assert got.path.read_bytes() == b"q,a\n1,2\n"
    assert (got.sha256, got.size, got.etag, got.content_type) == (digest, 8, '"1"', "text/csv")
    assert (got.url, got.final_url) == (server.url(), server.url())
    assert got.last_modified == "Thu, 19 Sep 2024 10:00:00 GMT"
    assert got.first_bytes == b"q,a\n1,2\n"


def test_a_second_call_asks_nobody(server, get, tmp_path):
    server.answers["/data.csv"] = body()

    first = get()

    assert get() == first
    assert cached(server.url(), tmp_path / "cache") == first
    assert len(server.asked) == 1


def test_what_is_not_there_is_not_cached(server, tmp_path):
    assert cached(server.url(), tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("harm", [os.unlink, lambda path: path.write_bytes(b"cut")], ids=["gone", "cut"])
def test_a_cached_file_that_is_gone_or_cut_is_downloaded_anew(server, get, tmp_path, harm):
    server.answers["/data.csv"] = body()

    harm(get().path)

    assert cached(server.url(), tmp_path / "cache") is None
    assert get().path.read_bytes() == BODY


def test_an_index_that_cannot_be_read_is_made_anew(server, get, tmp_path):
    server.answers["/data.csv"] = body()
    get()
    (tmp_path / "cache" / "index.json").write_text("{")

    assert get().path.read_bytes() == BODY
    assert list(json.loads((tmp_path / "cache" / "index.json").read_text())) == [server.url()]


def test_nothing_is_left_of_a_part(server, get, tmp_path):
    server.answers["/data.csv"] = body(cut_at=1000)

    get()

    assert {path.suffix for path in (tmp_path / "cache" / "parts").iterdir()} == {".lock"}


def test_a_broken_connection_is_continued_with_the_rest_only(server, get):
    server.answers["/data.csv"] = body(cut_at=[100_000, 300_000])

    assert get().path.read_bytes() == BODY
    assert server.ranges() == [None, "bytes=100000-", "bytes=300000-"]
    assert [headers.get("if-range") for _, headers in server.asked] == [None, '"1"', '"1"']


def test_an_interrupted_download_is_continued_by_the_next_call(server, get):
    server.answers["/data.csv"] = body(cut_at=100_000)

    class Stop(Exception):
        pass

    def stop(done, size):
        if done >= 100_000:
            raise Stop

    with pytest.raises(Stop):
        get(progress=stop)

    assert get().path.read_bytes() == BODY
    assert server.ranges() == [None, "bytes=100000-"]


def test_progress_is_told_from_where_it_continues(server, get):
    server.answers["/data.csv"] = body(cut_at=100_000)
    told = []

    get(progress=lambda done, size: told.append((done, size)))

    done = [count for count, _ in told]
    assert done == sorted(done)
    assert (told[0], told[-1]) == ((0, 512_000), (512_000, 512_000))
    assert (100_000, 512_000) in told


def test_a_server_that_ignores_ranges_gives_all_of_it_anew(server, get):
    server.answers["/data.csv"] = body(cut_at=100_000, ranges=False)

    assert get().path.read_bytes() == BODY
    assert server.ranges() == [None, "bytes=100000-"]


def changing(*versions):
    """Another answer each time; the last one stays."""
    left = list(versions)

    def answer(request):
        (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


def test_a_version_that_changed_meanwhile_is_downloaded_anew(server, get):
    server.answers["/data.csv"] = changing(body(cut_at=100_000), body(OTHER, etag='"2"'))

    got = get()

    assert got.path.read_bytes() == OTHER
    assert got.etag == '"2"'


def rest(data, start, total=None, **headers):
    place = f"bytes {start}-{len(data) - 1}/{total or len(data)}"
    return status(206, {"ETag": '"1"', "Content-Range": place, **headers}, data[start:])


WRONG_RESTS = {
    "the rest of another version": rest(OTHER, 100_000, ETag='"2"'),
    "another place than asked for": rest(BODY, 99_999),
    "of another size": rest(BODY, 100_000, 600_000),
    "without a place": status(206, {"ETag": '"1"'}, BODY[100_000:]),
    "in several parts": status(206, {"Content-Type": "multipart/byteranges; boundary=x"}, b"--x"),
    "encoded now": rest(BODY, 100_000, **{"Content-Encoding": "gzip"}),
    "nothing more": status(416, {"Content-Range": "bytes */100000"}),
}


@pytest.mark.parametrize("wrong", WRONG_RESTS.values(), ids=WRONG_RESTS)
def test_a_rest_that_does_not_continue_the_part_is_never_mixed_in(server, get, wrong):
    server.answers["/data.csv"] = changing(body(cut_at=100_000), wrong, body())

    assert get().path.read_bytes() == BODY
    assert server.ranges() == [None, "bytes=100000-", None]


NOW = "now"  # when the test runs, which may be minutes after it was collected
VALIDATORS = {
    "a weak tag": ({"ETag": 'W/"1"'}, None),
    "nothing": ({}, None),
    "a date long before": ({"Last-Modified": "Thu, 19 Sep 2024 10:00:00 GMT"}, "Thu, 19 Sep 2024 10:00:00 GMT"),
    "a date just now": ({"Last-Modified": NOW}, None),
    "a tag that cannot be sent back": ({"ETag": '"\xe9"'}, None),
    "a date that is none": ({"Last-Modified": "yesterday"}, None),
}


@pytest.mark.parametrize(("headers", "validator"), VALIDATORS.values(), ids=VALIDATORS)
def test_only_what_tells_versions_apart_lets_a_download_continue(server, get, headers, validator):
    headers = {name: email.utils.formatdate(usegmt=True) if value == NOW else value for name, value in headers.items()}
    server.answers["/data.csv"] = body(etag=None, cut_at=100_000, headers=headers)

    assert get().path.read_bytes() == BODY
    assert server.asked[1][1].get("if-range") == validator
    assert server.ranges()[1] == (None if validator is None else "bytes=100000-")


def test_a_body_without_a_size_is_whole_at_its_end(server, get):
    def chunked(request):
        request.protocol_version = "HTTP/1.1"
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for part in (b"q,a\n", b"1,2\n"):
            request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        request.wfile.write(b"0\r\n\r\n")
        request.close_connection = True

    server.answers["/data.csv"] = chunked

    assert get().path.read_bytes() == b"q,a\n1,2\n"


def test_a_chunked_body_that_is_cut_is_not_taken_for_whole(server, get):
    def chunked(request):
        request.protocol_version = "HTTP/1.1"
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.wfile.write(b"4\r\nq,a\n\r\n")
        request.close_connection = True

    server.answers["/data.csv"] = chunked

    assert refusal(get).code == "download_failed"


def test_an_empty_body_is_a_body(server, get):
    server.answers["/data.csv"] = body(b"")

    assert (get().size, get().first_bytes) == (0, b"")


def test_a_body_sent_compressed_is_decoded(server, get):
    server.answers["/data.csv"] = body(gzip.compress(BODY), headers={"Content-Encoding": "gzip"})

    assert get().path.read_bytes() == BODY
    assert server.asked[0][1]["accept-encoding"] == "identity"


def test_a_compressed_file_sent_compressed_is_the_compressed_file(server, get):
    file = gzip.compress(BODY)
    server.answers["/data.csv"] = body(gzip.compress(file), headers={"Content-Encoding": "x-gzip"})

    assert get().path.read_bytes() == file


def test_a_compressed_body_is_continued_as_it_was_sent(server, get):
    sent = gzip.compress(BODY * 4)
    server.answers["/data.csv"] = body(sent, headers={"Content-Encoding": "gzip"}, cut_at=5000)

    assert get().path.read_bytes() == BODY * 4
    assert server.ranges() == [None, "bytes=5000-"]


ENCODED = {
    "a bomb": (gzip.compress(bytes(20_000_000)), "gzip", "archive_bomb"),
    "larger than allowed": (gzip.compress(BODY * 4), "gzip", "archive_bomb"),
    "cut": (gzip.compress(BODY)[:-9], "gzip", "bad_compression"),
    "not compressed": (BODY, "gzip", "bad_compression"),
    "in another way": (BODY, "br", "download_failed"),
}


@pytest.mark.parametrize(("data", "encoding", "code"), ENCODED.values(), ids=ENCODED)
def test_an_encoding_that_cannot_be_undone_is_refused(server, get, tmp_path, data, encoding, code):
    server.answers["/data.csv"] = body(data, headers={"Content-Encoding": encoding})

    assert refusal(get, max_bytes=1_000_000).code == code
    assert {path.suffix for path in (tmp_path / "cache" / "parts").iterdir()} == {".lock"}


def test_a_body_larger_than_allowed_is_refused_before_it_is_read(server, get):
    server.answers["/data.csv"] = body()

    assert get(max_bytes=len(BODY)).size == len(BODY)

    server.answers["/more.csv"] = body()
    told = []
    error = refusal(get, "/more.csv", max_bytes=len(BODY) - 1, progress=lambda *done: told.append(done))
    assert (error.code, told) == ("body_too_large", [])


def test_a_body_without_a_size_ends_at_the_limit(server, get, tmp_path):
    def endless(request):
        request.send_response(200)
        request.end_headers()
        while not server.released.is_set():
            request.wfile.write(BODY)

    server.answers["/data.csv"] = endless

    assert refusal(get, max_bytes=3_000_000).code == "body_too_large"
    assert {path.suffix for path in (tmp_path / "cache" / "parts").iterdir()} == {".lock"}


def test_a_source_may_be_larger_than_a_document(server, get):
    server.answers["/data.csv"] = body()

    assert get(limits={"max_body_bytes": 1000}).path.read_bytes() == BODY


def test_redirects_are_followed_and_their_query_is_not_kept(server, get):
    server.answers["/data.csv"] = redirect("/b?token=1")
    server.answers["/b?token=1"] = body()

    got = get()

    assert got.path.read_bytes() == BODY
    assert (got.url, got.final_url) == (server.url(), server.url("/b"))


def test_five_redirects_are_followed_and_no_sixth(server, get):
    for number in range(6):
        server.answers[f"/{number}"] = redirect(f"/{number + 1}")
    server.answers["/6"] = body()

    assert get("/1").path.read_bytes() == BODY
    assert refusal(get, "/0").code == "too_many_redirects"


REDIRECTS = {
    "to this machine": ("http://127.0.0.1:1/", "egress_blocked"),
    "to a machine of this network": ("http://10.0.0.1/", "egress_blocked"),
    "to a cloud's metadata": ("http://169.254.169.254/latest", "egress_blocked"),
    "to this machine over TLS": ("https://127.0.0.1:443/", "egress_blocked"),
    "to a local name": ("http://localhost/", "egress_blocked"),
    "to a file": ("file:///etc/passwd", "scheme"),
    "with credentials": ("http://u:p@example.org/", "bad_url"),
    "with half an address": ("http://[::1", "bad_url"),
    "to a mailbox": ("mailto:x", "scheme"),
    "to a name that is no Punycode": ("http://xn--a/", "bad_url"),
}


@pytest.mark.parametrize(("target", "code"), REDIRECTS.values(), ids=REDIRECTS)
def test_every_redirect_is_judged(server, get, target, code):
    server.answers["/data.csv"] = redirect(target)

    assert refusal(get).code == code


def test_a_redirect_is_judged_when_a_download_is_continued(server, get):
    server.answers["/data.csv"] = changing(body(cut_at=1000), redirect("http://127.0.0.1:1/"))

    assert refusal(get).code == "egress_blocked"


def test_this_machine_is_refused(server, tmp_path):
    with pytest.raises(InputError) as refused:
        download(server.url(), tmp_path / "cache", EgressPolicy())

    assert refused.value.code == "egress_blocked"
    assert server.asked == []


def test_a_proxy_in_the_environment_is_ignored(server, elsewhere, get, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, elsewhere.url(""))
    server.answers["/data.csv"] = body()

    assert get().path.read_bytes() == BODY
    assert elsewhere.asked == []


HEADERS = {"Authorization": "Bearer ${TOKEN}", "X-Plain": "plain"}
SECRET = {"TOKEN": "s3cr3t-value"}


def test_headers_are_sent_with_their_variables(server, get):
    server.answers["/data.csv"] = body()

    get(headers=HEADERS, environ=SECRET)

    assert server.asked[0][1]["authorization"] == "Bearer s3cr3t-value"
    assert server.asked[0][1]["x-plain"] == "plain"


def test_headers_are_not_sent_to_another_origin(server, elsewhere, get):
    server.answers["/data.csv"] = redirect("/step")
    server.answers["/step"] = redirect(elsewhere.url("/b"))
    elsewhere.answers["/b"] = body()

    get(headers={**HEADERS, "Cookie": "session=1"}, environ=SECRET, hosts=[elsewhere.host])

    sent = [set(headers) for _, headers in server.asked + elsewhere.asked]
    assert [{"authorization", "x-plain", "cookie"} & names for names in sent] == [
        {"authorization", "x-plain", "cookie"},
        {"authorization", "x-plain", "cookie"},
        set(),
    ]


def test_a_redirect_leads_to_no_private_host_that_is_open_to_its_own_documents_only(server, elsewhere, tmp_path):
    server.answers["/data.csv"] = redirect(elsewhere.url("/b"))
    elsewhere.answers["/b"] = body()
    policy = EgressPolicy(EgressConfig(allowed_hosts=[server.host, elsewhere.host]))

    with pytest.raises(InputError) as refused:
        download(server.url("/data.csv"), tmp_path / "cache", policy)

    assert (refused.value.code, elsewhere.asked) == ("egress_blocked", [])


def test_a_cookie_of_the_server_is_sent_to_nobody(server, elsewhere, get):
    server.answers["/data.csv"] = status(302, {"Location": elsewhere.url("/b"), "Set-Cookie": "session=1; Path=/"})
    elsewhere.answers["/b"] = body()

    get(hosts=[elsewhere.host])

    assert "cookie" not in elsewhere.asked[0][1]


@pytest.mark.parametrize("answer", [status(403), status(500), body(cut_at=[10] * 9), redirect("http://127.0.0.1:1/")])
def test_a_secret_stands_in_no_message_and_no_file(server, get, tmp_path, answer, caplog):
    server.answers["/data.csv"] = answer

    error = refusal(get, headers=HEADERS, environ=SECRET)

    assert "s3cr3t" not in f"{error}{error.__cause__}{caplog.text}"
    assert all(b"s3cr3t" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


BAD_HEADERS = {
    "an unset variable": ({"A": "${NOT_SET}"}, "missing_variable"),
    "an empty variable": ({"A": "${EMPTY}"}, "missing_variable"),
    "half a variable": ({"A": "${TOKEN"}, "bad_header"),
    "a second line": ({"A": "${LINES}"}, "bad_header"),
    "a letter outside of ASCII": ({"A": "${ACCENT}"}, "bad_header"),
    "a name that is none": ({"A b": "x"}, "bad_header"),
    "a name with a line of its own": ({"A\r\nB": "x"}, "bad_header"),
    "one header in two spellings": ({"A": "1", "a": "2"}, "bad_header"),
    "a range": ({"Range": "bytes=1-"}, "bad_header"),
    "another host": ({"host": "example.org"}, "bad_header"),
    "for the proxy": ({"Proxy-Authorization": "x"}, "bad_header"),
}


@pytest.mark.parametrize(("headers", "code"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_header_that_cannot_be_sent_is_refused_before_anything_is_asked(server, get, headers, code):
    environ = {**SECRET, "EMPTY": " ", "LINES": "s3cr3t\r\nHost: x", "ACCENT": "s3cr3té"}

    error = refusal(get, headers=headers, environ=environ)

    assert error.code == code
    assert "s3cr3t" not in str(error)
    assert server.asked == []


def test_a_missing_variable_is_named():
    with pytest.raises(InputError) as refused:
        header_values({"Authorization": "Bearer ${HF_TOKEN}"}, {}, shown="https://example.org/a")

    assert "environment variable HF_TOKEN" in str(refused.value)
    assert refused.value.field == "Authorization"


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_variables_value_is_sent_on_one_line_of_ascii_or_never_shown(value, stated):
    environ, shown = {"V": "s3cr3t" + value}, ""
    try:
        sent = header_values({"A": stated + "${V}"}, environ, shown="u")["a"]
    except InputError as error:
        sent, shown = "", str(error)

    assert "s3cr3t" not in shown
    assert not set(sent) - set(map(chr, range(0x20, 0x7F))) - {"\t"}


FAILURES = {
    "not found": (status(404), "HTTP 404"),
    "log in": (status(401), "HTTP 401"),
    "nothing to send": (status(204), "HTTP 204"),
    "a part that nobody asked for": (status(206, {"Content-Range": "bytes 0-0/9"}, b"x"), "HTTP 206"),
    "unchanged, which nobody asked": (status(304), "HTTP 304"),
    "a redirect to nowhere": (status(302), "HTTP 302"),
}


@pytest.mark.parametrize(("answer", "found"), FAILURES.values(), ids=FAILURES)
def test_what_is_no_body_fails_at_once_with_its_status(server, get, answer, found):
    server.answers["/data.csv"] = answer

    error = refusal(get)

    assert (error.code, error.file, error.found) == ("download_failed", server.url(), repr(found))
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server, get):
    server.answers["/data.csv"] = changing(status(503), status(429, {"Retry-After": "0"}), body())

    assert get().path.read_bytes() == BODY
    assert len(server.asked) == 3


def test_a_server_busy_all_the_time_is_given_up(server, get):
    server.answers["/data.csv"] = status(503)

    assert refusal(get).found == "'HTTP 503'"
    assert len(server.asked) == 3


def test_a_connection_that_breaks_at_once_is_given_up(server, get):
    server.answers["/data.csv"] = body(cut_at=[10] * 9)

    error = refusal(get)

    assert error.code == "download_failed"
    assert "after 10 bytes" in error.found
    assert len(server.asked) == 3


def test_a_connection_that_breaks_ever_further_on_is_not_given_up(server, get):
    large = BODY * 12  # 6.1 MB, broken off every 0.6 MB: three attempts alone would end after 1.8 MB
    server.answers["/data.csv"] = body(large, cut_at=range(600_000, len(large), 600_000))

    assert get().path.read_bytes() == large
    assert len(server.asked) == 11


def test_a_server_that_begins_ever_anew_is_given_up(server, get):
    server.answers["/data.csv"] = body(BODY * 12, etag=None, cut_at=[2_000_000] * 99)

    assert refusal(get).code == "download_failed"
    assert len(server.asked) == 6  # a round of three with progress, and one without


def test_a_body_that_drips_is_given_up(server, get):
    def drip(request):
        request.send_response(200)
        request.end_headers()
        while not server.released.wait(0.01):
            request.wfile.write(b"x")

    server.answers["/data.csv"] = drip

    error = refusal(get, limits={"fetch_limit_s": 0.2, "attempts": 1})

    assert error.code == "download_failed"
    assert "less than 16,384 bytes in 0.2 s" in error.found


def test_a_slow_body_is_no_stalled_one(server, get):
    def slow(request):
        request.send_response(200)
        request.end_headers()
        for start in range(0, 200_000, 20_000):  # ten pieces, each within the limit, together longer
            server.released.wait(0.15)
            request.wfile.write(BODY[start : start + 20_000])

    server.answers["/data.csv"] = slow

    assert get(limits={"fetch_limit_s": 1.0, "attempts": 1}).size == 200_000


COMPANY = Authority()
SECURE = contextlib.contextmanager(serve)


@pytest.fixture
def secure(tmp_path):
    """Downloads from a server over TLS, where a company's authority is trusted."""
    (tmp_path / "company.pem").write_bytes(COMPANY.pem)

    def fetch(site):
        policy = site.policy(ca_file=str(tmp_path / "company.pem"))
        return download(site.url("/data.csv"), tmp_path / "cache", policy)

    return fetch


def test_a_source_comes_from_a_server_that_a_company_vouches_for(secure):
    with SECURE(COMPANY.server()) as site:
        site.answers["/data.csv"] = (200, {"Content-Type": "text/csv"}, BODY)

        assert secure(site).path.read_bytes() == BODY


UNTRUSTED = {
    #                       what the server answers with          what to do
    "another host's":       (COMPANY.server("other.example"),     "cannot make up for that"),
    "expired":              (COMPANY.server(days=(-9, -2)),       "cannot make up for that"),
    "an unknown authority": (Authority("Stranger").server(),      "names an authority of one's own"),
}  # fmt: skip


@pytest.mark.parametrize(("answering", "hint"), UNTRUSTED.values(), ids=UNTRUSTED)
def test_a_certificate_that_does_not_hold_is_refused_once_with_its_origin(secure, answering, hint):
    met = []
    answering.sni_callback = lambda connection, name, context: met.append(name)
    with SECURE(answering) as site:
        error = refusal(secure, site)

    assert (error.code, error.file) == ("tls_untrusted", site.url("/data.csv"))
    assert f"https://{site.host}: " in error.found
    assert "`ca_file` in egress.config.yaml" in error.hint
    assert hint in error.hint
    assert (len(met), site.asked) == (1, [])


def test_an_authority_that_cannot_be_read_is_named_before_anything_is_asked(secure, tmp_path):
    with SECURE(COMPANY.server()) as site:
        (tmp_path / "company.pem").unlink()
        error = refusal(secure, site)

    assert (error.code, error.file) == ("bad_ca_file", str(tmp_path / "company.pem"))
    assert site.asked == []


def test_refreshing_keeps_what_has_not_changed(server, get):
    server.answers["/data.csv"] = body()
    first = get()

    assert get(refresh=True) == first
    assert server.asked[1][1]["if-none-match"] == '"1"'


def test_refreshing_by_date_keeps_what_has_not_changed(server, get):
    day = "Thu, 19 Sep 2024 10:00:00 GMT"
    server.answers["/data.csv"] = changing(body(etag=None, headers={"Last-Modified": day}), status(304))
    first = get()

    assert get(refresh=True) == first
    assert server.asked[1][1]["if-modified-since"] == day


def test_refreshing_takes_what_has_changed(server, get, tmp_path):
    server.answers["/data.csv"] = changing(body(), body(OTHER, etag='"2"'))
    first = get()

    assert get(refresh=True).path.read_bytes() == OTHER
    assert cached(server.url(), tmp_path / "cache").etag == '"2"'
    assert first.path.read_bytes() == BODY  # another URL, or a conversion under way, may still use it


def test_a_refreshing_that_fails_leaves_what_was_there(server, get):
    server.answers["/data.csv"] = changing(body(), status(500))
    first = get()

    assert refusal(get, refresh=True).code == "download_failed"
    assert get() == first


def test_two_urls_with_one_body_share_the_file(server, get):
    server.answers["/a"] = server.answers["/b"] = body()

    assert get("/a").path == get("/b").path


def test_two_spellings_of_one_address_share_the_body(server, get, tmp_path):
    server.answers["/data.csv"] = body()

    get("/data.csv#first")

    assert cached(server.url("/data.csv#second"), tmp_path / "cache").url == server.url("/data.csv#second")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "example.org/a.csv", "http://u:p@example.org/", "http://h/a b"])
def test_what_cannot_be_asked_for_is_refused(tmp_path, url):
    for ask in (lambda: download(url, tmp_path, EgressPolicy()), lambda: cached(url, tmp_path)):
        with pytest.raises(InputError) as refused:
            ask()
        assert refused.value.code in {"scheme", "bad_url"}


def test_many_threads_that_want_one_url_ask_for_it_once(server, get):
    server.answers["/data.csv"] = body()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: get(), range(4)))

    assert len(set(results)) == 1
    assert len(server.asked) == 1


def test_many_threads_that_want_several_urls_lose_none(server, get, tmp_path):
    for number in range(8):
        server.answers[f"/{number}"] = body(b"%d" % number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: get(f"/{number}"), range(8)))

    assert [cached(server.url(f"/{number}"), tmp_path / "cache").size for number in range(8)] == [1] * 8


PROCESS = """
import sys
from pathlib import Path
from rag_eval_pipeline.sources.downloads import download
from rag_eval_pipeline.corpus.egress.config import EgressConfig
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
url, cache, host = sys.argv[1:]
print(download(url, Path(cache), EgressPolicy(EgressConfig(allowed_hosts=(host,)))).sha256)
"""


def start(server, cache, before=""):
    command = [sys.executable, "-c", before + PROCESS, server.url(), str(cache), server.host]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)


def stalling(server, after):
    """Sends the beginning of the body and waits; whoever asks for the rest gets it."""

    def answer(request):
        if request.headers.get("Range"):
            body()(request)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(BODY)))
        request.send_header("ETag", '"1"')
        request.end_headers()
        request.wfile.write(BODY[:after])
        server.released.wait(30)

    return answer


def test_a_killed_download_is_continued_by_another_process(server, get, tmp_path):
    server.answers["/data.csv"] = stalling(server, 200_000)
    process = start(server, tmp_path / "cache")
    parts = tmp_path / "cache" / "parts"
    while not any(part.stat().st_size == 200_000 for part in parts.glob("*.part")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert get().path.read_bytes() == BODY
    assert server.ranges() == [None, "bytes=200000-"]


KILLED_AT_THE_LAST_STEP = """
import os
rename = os.replace
os.replace = lambda old, new: os._exit(9) if len(os.path.basename(new)) == 64 else rename(old, new)
"""


def test_a_process_killed_at_its_last_step_has_downloaded_all(server, get, tmp_path):
    server.answers["/data.csv"] = body()

    process = start(server, tmp_path / "cache", before=KILLED_AT_THE_LAST_STEP)
    process.communicate()

    assert process.returncode == 9
    assert get().path.read_bytes() == BODY
    assert len(server.asked) == 1


def test_refreshing_does_not_trust_what_a_killed_process_left(server, get, tmp_path):
    server.answers["/data.csv"] = changing(body(), body(OTHER, etag='"2"'))
    start(server, tmp_path / "cache", before=KILLED_AT_THE_LAST_STEP).communicate()

    assert get(refresh=True).path.read_bytes() == OTHER


def test_processes_that_download_one_url_at_once_do_no_harm(server, tmp_path):
    server.answers["/data.csv"] = body()

    processes = [start(server, tmp_path / "cache") for _ in range(3)]

    assert {process.communicate()[0].strip() for process in processes} == {hashlib.sha256(BODY).hexdigest()}
    assert len(server.asked) == 1
