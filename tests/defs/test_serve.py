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
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, answer.headers, body.decode()

        yield run


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", "overview"),
        ("/index.html", "overview"),
        ("/runs/one/", "run one"),
        ("/runs/one/index.html?x=1", "run one"),
    ],
)
def test_a_page_is_served(path, body, ask):
    status, headers, found = ask(path)

    assert (status, found) == (200, body)
    assert headers["Cache-Control"] == "no-cache"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_script_has_its_type(ask):
    assert ask("/page.js")[1]["Content-Type"] == "text/javascript; charset=utf-8"


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
def test_what_is_not_in_the_report_is_said_in_words(path, ask):
    status, headers, body = ask(path)

    assert status == 404
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "drawn by the aggregation that follows" in body


HOSTS = {
    "by address": ("127.0.0.1:3001", 200),
    "by name": ("localhost:3001", 200),
    "by a page's own name": ("evil.example", 400),
    "by a name that looks alike": ("127.0.0.1.evil.example", 400),
    "without a name": ("", 400),
}


@pytest.mark.parametrize(("host", "status"), HOSTS.values(), ids=HOSTS)
def test_only_who_names_this_machine_is_answered(host, status, ask):
    assert ask("/", host=host)[0] == status


def test_head_has_no_body_and_nothing_is_written(ask):
    assert ask("/", method="HEAD")[2] == ask("/absent", method="HEAD")[2] == ""
    assert [ask("/index.html", method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3


def test_a_report_that_is_not_there_yet_is_served_later(tmp_path):
    with report_server(tmp_path / "reports", "127.0.0.1", 0) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=30)
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
