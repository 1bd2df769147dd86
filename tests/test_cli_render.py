"""`rag-eval render`: a line a document, faults one by one, and an exit code that says whether all came out."""

import json
from pathlib import Path

import pytest

from rag_eval_pipeline import cli
from tests.corpus.making import simple_pdf
from tests.web.site import serve

PDF = {"Content-Type": "application/pdf"}


@pytest.fixture
def site():
    yield from serve()


@pytest.fixture
def render(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder outside any workspace; returns exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAG_EVAL_WORKSPACE", raising=False)
    Path("paper.pdf").write_bytes(simple_pdf("one", "two"))

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["rag-eval", "render", *arguments, "--out", "pdfs"])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


def test_it_needs_no_workspace_and_prints_a_line_a_document(render, site):
    site.answers["/a"] = (200, PDF, simple_pdf("a"))

    done = render("paper.pdf", site.url("/a#x"), "--allow", site.host)

    assert done == (0, "paper.pdf: 2 pages\na#x.pdf: 1 page\n", "")


def test_a_page_that_cannot_be_had_is_a_line_and_exit_4_after_the_others(render, site):
    code, out, error = render(site.url("/gone"), "paper.pdf", "--allow", site.host)

    assert (code, out) == (4, "paper.pdf: 2 pages\n")
    assert error.startswith(f"rag-eval: gone.pdf: {site.url('/gone')}: ")
    assert error.endswith("[http_404]\n")
    assert error.count("\n") == 1


def test_a_file_that_cannot_be_rendered_is_a_line_and_exit_2_after_the_others(render):
    Path("broken.pdf").write_bytes(b"no PDF")

    code, out, error = render("absent.html", "broken.pdf", "paper.pdf")

    assert (code, out) == (2, "paper.pdf: 2 pages\n")
    first, second = error.splitlines()
    assert first.startswith("rag-eval: absent.html: expected a file")
    assert "http://" in first  # a URL without scheme is the likelier slip
    assert second.startswith("rag-eval: broken.pdf: ")
    assert second.endswith("[pdf_damaged]")


def test_the_exit_code_is_the_graver_one(render, site):
    assert render(site.url("/gone"), "absent.html", "--allow", site.host)[0] == 4


def test_json_has_a_row_a_document_the_missing_ones_too(render, site):
    code, out, _ = render("paper.pdf", site.url("/gone"), "--allow", site.host, "--json")

    rows = json.loads(out)
    assert code == 4
    assert [(row["file_name"], row["pages"], row["error_code"]) for row in rows] == [
        ("paper.pdf", 2, None),
        ("gone.pdf", 0, "http_404"),
    ]


def test_json_is_json_when_a_page_had_to_be_asked_for_twice(render, site):
    answers = iter([(503, {"Retry-After": "0"}, b""), (200, PDF, simple_pdf("a"))])
    site.answers["/a"] = lambda: next(answers)

    code, out, _ = render(site.url("/a"), "--allow", site.host, "--json")

    assert (code, [row["file_name"] for row in json.loads(out)]) == (0, ["a.pdf"])
    assert len(site.asked) == 2


def test_a_url_that_is_none_is_a_line_and_not_the_end(render):
    code, out, error = render("http://xn--a/", "paper.pdf")

    assert (code, out) == (4, "paper.pdf: 2 pages\n")
    assert error.endswith("[bad_url]\n")


def test_private_hosts_are_refused_unless_allowed(render, site):
    site.answers["/a"] = (200, PDF, simple_pdf("a"))

    code, _, error = render(site.url("/a"))

    assert (code, "[egress_blocked]" in error) == (4, True)
    assert site.asked == []
    assert render(site.url("/a"), "--allow", "everything")[::2] == (
        2,
        "rag-eval: --allow: expected an exact host:port, found 'everything' [bad_host].\n",
    )


def test_hosts_and_limits_are_those_of_the_workspace(render, site, tmp_path):
    (tmp_path / "data" / "sources").mkdir(parents=True)
    (tmp_path / "data" / "config").mkdir()
    settings = f"allowed_hosts: ['{site.host}']\nmax_body_bytes: 100\n"
    (tmp_path / "data" / "config" / "egress.config.yaml").write_text(settings)
    site.answers["/a"] = (200, PDF, simple_pdf("a"))

    code, _, error = render(site.url("/a"))

    assert (code, "[body_too_large]" in error) == (4, True)
    assert site.asked == ["/a"]


def test_a_workspace_that_is_named_must_be_one(render, tmp_path):
    code, _, error = render("paper.pdf", "--workspace", str(tmp_path / "nowhere"))

    assert (code, "[no_workspace]" in error) == (2, True)


def test_a_name_that_is_taken_is_one_line_and_the_file_stays(render):
    render("paper.pdf")
    Path("paper.pdf").write_bytes(simple_pdf("another"))

    code, out, error = render("paper.pdf")

    assert (code, out) == (2, "")
    assert error.startswith("rag-eval: pdfs/paper.pdf: expected no file of this name")
    assert Path("pdfs/paper.pdf").read_bytes() == simple_pdf("one", "two")
    assert render("paper.pdf", "--overwrite")[0] == 0
    assert Path("pdfs/paper.pdf").read_bytes() == simple_pdf("another")


def test_a_manifest_lets_the_same_command_run_again(render, site):
    site.answers["/a"] = (200, PDF, simple_pdf("a"))
    command = (site.url("/a"), "paper.pdf", "--manifest", "known.parquet", "--allow", site.host)
    render(*command)

    assert render(*command) == (0, "a.pdf: 1 page, unchanged\npaper.pdf: 2 pages, unchanged\n", "")
    assert site.asked == ["/a"]
