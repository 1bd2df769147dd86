"""The report over HTTP: its files, and nothing else of the machine."""

import http.client

import pytest

from rag_eval_pipeline.defs.serve import report_server


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
    return folder


@pytest.fixture
def ask(reports):
    """The status, the headers and the body of an answer; the path goes out as it is written."""
    with report_server(reports, "127.0.0.1", 0) as address:
        port = int(address.rstrip("/").rpartition(":")[2])

        def run(path, *, method="GET", host="127.0.0.1"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, answer.headers, body.decode()

        yield run


def test_report_server_serves_pages_and_scripts(ask):
    pages = {
        "/": "overview", "/index.html": "overview", "/runs/one/": "run one", "/runs/one/index.html?x=1": "run one",
    }  # fmt: skip
    for path, body in pages.items():
        status, headers, found = ask(path)
        assert (status, found) == (200, body)
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-cache", "nosniff")
    assert ask("/page.js")[1]["Content-Type"] == "text/javascript; charset=utf-8"
    assert ask("/", method="HEAD")[2] == ask("/absent", method="HEAD")[2] == ""
    assert [ask("/index.html", method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3


ABSENT = {
    "a page that is not there": "/runs/two/index.html",
    "a folder's listing": "/runs/",
    "the report's own state": "/.site.json",
    "the same, disguised": "/%2esite.json",
    "a way up": "/../../secret.txt",
    "the same, disguised twice": "/%2e%2e/%2e%2e/secret.txt",
    "a link that leads outside": "/link.txt",
    "a file of the machine": "//etc/passwd",
    "a zero byte": "/index.html%00",
}


@pytest.mark.parametrize("path", ABSENT.values(), ids=ABSENT)
def test_report_server_serves_nothing_else(path, ask):
    status, headers, body = ask(path)

    assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert "drawn by the aggregation that follows" in body


def test_report_server_answers_only_requests_that_name_this_machine(ask):
    hosts = {
        "127.0.0.1:3001": 200, "localhost:3001": 200, "evil.example": 400, "127.0.0.1.evil.example": 400, "": 400,
    }  # fmt: skip
    assert {host: ask("/", host=host)[0] for host in hosts} == hosts


def test_report_server_may_start_before_the_report_exists(tmp_path):
    with report_server(tmp_path / "reports", "127.0.0.1", 0) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=240)
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
