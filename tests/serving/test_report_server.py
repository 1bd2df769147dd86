"""The report over HTTP: its files, and nothing else of the machine."""

import contextlib
import http.client
import json
import os
import re
import socket
import threading

import psutil
import pytest

from rag_eval_pipeline.judges.labels import labels_path, read_labels
from rag_eval_pipeline.serving.report_server import REPORT_CONNECTIONS, report_server
from tests.patience import PATIENCE_S


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "data" / "reports"
    (folder / "runs" / "one").mkdir(parents=True)
    (folder / "index.html").write_text("overview")
    (folder / "runs" / "one" / "index.html").write_text("run one")
    (folder / "page.js").write_text("let x")
    (folder / ".site.json").write_text("{}")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "circle.txt").symlink_to("circle.txt")
    return folder


@contextlib.contextmanager
def asking(reports, listens="127.0.0.1"):
    """The status, the headers and the body of an answer; the path goes out as it is written."""
    with report_server(reports, listens, 0) as address:
        port = int(address.rstrip("/").rpartition(":")[2])

        def run(path, *, method="GET", host="127.0.0.1", origin=None, body=""):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host)
            if origin is not None:
                connection.putheader("Origin", origin)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body.encode() or None)
            answer = connection.getresponse()
            found = answer.read()
            connection.close()
            return answer.status, answer.headers, found.decode()

        yield run


@pytest.fixture
def ask(reports):
    with asking(reports) as run:
        yield run


def test_report_server_serves_pages_and_scripts(ask, reports):
    pages = {
        "/": "overview", "/index.html": "overview", "/runs/one/": "run one", "/runs/one/index.html?x=1": "run one",
    }  # fmt: skip
    for path, body in pages.items():
        status, headers, found = ask(path)
        assert (status, found) == (200, body)
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-cache", "nosniff")
    assert ask("/page.js")[1]["Content-Type"] == "text/javascript; charset=utf-8"
    assert ask("/metrics")[0] == 404
    (reports / "metrics.prom").write_text("a 1\n")
    assert (ask("/metrics")[1]["Content-Type"], ask("/metrics")[2]) == (
        "text/plain; version=0.0.4; charset=utf-8",
        "a 1\n",
    )
    assert ask("/", method="HEAD")[2] == ask("/absent", method="HEAD")[2] == ""
    assert [ask("/index.html", method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3


LABEL = '{"query_id": "12", "task": "correctness", "label": "%s", "annotator": "ada"}'


def test_report_server_saves_labels_of_its_own_pages(evaluated):
    (name, *_) = sorted(path.name for path in evaluated.runs.glob("eval_run_*"))
    file = labels_path(evaluated, name)
    request = {
        "path": f"/labels/{name}", "method": "POST", "host": "127.0.0.1:3001", "origin": "http://127.0.0.1:3001",
        "body": LABEL % "correct",
    }  # fmt: skip
    refused = {
        "another site's page": ({"origin": "http://evil.example"}, 403, "only from the pages of this report"),
        "no page": ({"origin": None}, 403, "only from the pages of this report"),
        "another name of this machine": ({"host": "evil.example"}, 400, "Invalid host"),
        "a label that there is not": ({"body": LABEL % "good"}, 400, "a label of correctness: correct, incorrect"),
        "another evaluation": ({"path": "/labels/eval_run_1"}, 400, "no_evaluation"),
        "a way up": ({"path": "/labels/..%2fx"}, 405, "Method Not Allowed"),
        "a very long one": ({"body": LABEL % ("x" * 10_000)}, 413, "at most 10000 bytes"),
    }
    with asking(evaluated.reports) as ask:
        for label in ("correct", "incorrect"):  # the second replaces the first
            assert ask(**request | {"body": LABEL % label})[0] == 200
        assert [(one.query_id, one.label) for one in read_labels(file)] == [("12", "incorrect")]
        for case, (other, status, words) in refused.items():
            found = ask(**request | other)
            assert (case, found[0], words in found[2]) == (case, status, True)
        assert len(read_labels(file)) == 1
        assert ask(**request | {"method": "DELETE"})[0] == 200
    assert not file.exists()


@pytest.mark.parametrize(("listens", "named"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "reports.example")])
def test_report_server_saves_no_labels_for_other_machines(listens, named, reports, monkeypatch):
    monkeypatch.setenv("RAG_EVAL_REPORT_URL", "https://reports.example/")
    with asking(reports, listens) as ask:
        found = ask("/labels/one", method="POST", host=named, origin=f"http://{named}", body=LABEL % "correct")

    assert (found[0], "only on a loopback address" in found[2]) == (403, True)


def test_report_server_saves_the_audit_yaml_of_its_own_pages(reports, tmp_path):
    folder = tmp_path / "data" / "sources" / "scratch"
    folder.mkdir(parents=True)
    (folder / "benchmark.yaml").write_text("name: scratch\n")
    audit, text = folder / "audit.yaml", "decisions: [{id: 1, question: b, decision: drop}]\n"
    own = {"path": "/audits/scratch?of=", "method": "POST", "host": "127.0.0.1:3001", "body": text}
    own["origin"] = "http://127.0.0.1:3001"
    refused = {
        "another site's page": ({"origin": "http://evil.example"}, 403, "only from the pages of this report"),
        "no page": ({"origin": None}, 403, "only from the pages of this report"),
        "a decision that there is not": ({"body": text.replace("drop", "cut")}, 400, "audit.yaml, line 1"),
        "a file that was changed meanwhile": ({"path": "/audits/scratch?of=1"}, 400, "audit_changed"),
        "no benchmark": ({"path": "/audits/other?of="}, 400, "no_benchmark"),
        "a way up": ({"path": "/audits/..%2fx"}, 405, "Method Not Allowed"),
        "a very long one": ({"body": text + "#" * 4_000_000}, 413, "at most 4000000 bytes"),
    }
    with asking(reports) as ask:
        for case, (other, status, words) in refused.items():
            found = ask(**own | other)
            assert (case, found[0], words in found[2], audit.exists()) == (case, status, True, False)
        assert json.loads(ask("/audits/scratch")[2]) == {"sha256": "", "decisions": []}
        saved = json.loads(ask(**own)[2])
        assert audit.read_text() == text
        assert saved["decisions"] == [{"id": "1", "question": "b", "decision": "drop"}]
        assert ask(**own | {"path": f"/audits/scratch?of={saved['sha256']}", "body": "decisions: []"})[0] == 200
    assert [path.name for path in folder.iterdir()] == ["benchmark.yaml"]


ABSENT = {
    "a page that is not there": "/runs/two/index.html",
    "a folder's listing": "/runs/",
    "the report's own state": "/.site.json",
    "the same, disguised": "/%2esite.json",
    "a way up": "/../../secret.txt",
    "the same, disguised twice": "/%2e%2e/%2e%2e/secret.txt",
    "a link that leads outside": "/link.txt",
    "a link that leads to itself": "/circle.txt",
    "a file of the machine": "//etc/passwd",
    "a zero byte": "/index.html%00",
    "no UTF-8": "/%ff%fe",
    "a name that is too long": f"/{'a' * 5000}",
}


def test_report_server_serves_nothing_else(ask):
    for what, path in ABSENT.items():
        status, headers, body = ask(path)

        assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8"), what
        assert "drawn by the aggregation that follows" in body, what


def test_report_server_answers_only_requests_that_name_this_machine(ask):
    hosts = {
        "127.0.0.1:3001": 200, "localhost:3001": 200, "evil.example": 400, "127.0.0.1.evil.example": 400, "": 400,
    }  # fmt: skip
    assert {host: ask("/", host=host)[0] for host in hosts} == hosts


def test_report_server_may_start_before_the_report_exists(tmp_path):
    with report_server(tmp_path / "reports", "127.0.0.1", 0) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=PATIENCE_S)
        connection.request("GET", "/")
        assert connection.getresponse().status == 404


def test_report_server_sends_a_body_without_waiting_for_the_acknowledgement_of_its_head(tmp_path):
    with report_server(tmp_path, "127.0.0.1", 0) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        [number] = [one.fd for one in psutil.Process().net_connections("tcp4") if one.laddr.port == port]
        with socket.socket(fileno=os.dup(number)) as listener:
            assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.fixture
def connect(reports):
    """`connect(request)` opens a connection to the server and sends bytes."""
    with contextlib.ExitStack() as stack:
        port = int(stack.enter_context(report_server(reports, "127.0.0.1", 0)).rstrip("/").rpartition(":")[2])

        def run(request):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            connection.sendall(request)
            return connection

        yield run


def head_of(connection):
    """The head of an answer; empty if the server has ended the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in received and (part := connection.recv(1)):
            received += part
    return received.decode("latin-1")


def get(path="/", *fields):
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *fields, "", "")).encode("latin-1")


MALFORMED = {
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "every byte": bytes(range(256)),
    "words": b"hello there\r\n\r\n",
    "empty lines": b"\r\n" * 1000,
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": get("/", "Host: evil.example"),
    "a host that is none": b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "no path": get("index.html"),
    "a tunnel": get("x").replace(b"GET x", b"CONNECT 127.0.0.1:22"),
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a zero byte": get("/\0"),
    "a byte that is no ASCII": get("/\xff"),
    "a header without a name": get("/", ": x"),
    "a zero byte in a header": get("/", "X: \0"),
    "a negative length": get("/", "Content-Length: -1"),
    "two lengths": get("/", "Content-Length: 1", "Content-Length: 2"),
    "a header without end": get("/", f"X: {'a' * 20_000}")[:-4],
}


def test_report_server_answers_malformed_requests_with_400(connect, capfd):
    heads = {name: head_of(connect(request)) for name, request in MALFORMED.items()}

    assert {name: head.partition(" ")[2][:3] for name, head in heads.items()} == dict.fromkeys(MALFORMED, "400")
    assert "overview" in connect(get("/", "Connection: close")).makefile().read()
    assert capfd.readouterr().err == ""


def test_report_server_answers_others_while_slow_clients_keep_connections_open(connect, reports):
    with (reports / "large").open("wb") as file:
        file.truncate(64_000_000)
    before = threading.active_count()
    slow = []
    for number in range(REPORT_CONNECTIONS + 9):
        slow.append(connect(get("/large") if number % 2 else get()[:-1]))
        assert "200 OK" in head_of(connect(get("/", "Connection: close")))  # which waits until the slow one is accepted

    assert threading.active_count() - before <= 40
    assert head_of(slow[0]) == head_of(slow[8]) == ""  # has waited longest
    slow[-1].sendall(b"\n")
    assert "200 OK" in head_of(slow[-1])


def test_report_server_logs_a_page_that_changes_while_it_is_sent_in_one_line(connect, reports, capfd):
    with (reports / "large").open("wb") as file:
        file.truncate(64_000_000)
    connection = connect(get("/large"))
    size = int(re.search(r"content-length: (\d+)", head_of(connection))[1])
    (reports / "large").write_text("")

    received = 0
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 20):
            received += len(part)

    assert received < size == 64_000_000
    assert len(capfd.readouterr().err.splitlines()) <= 1
