"""`rag-eval render`: a line for each document, faults one by one, and the exit code."""

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


def test_render_needs_no_workspace_and_finishes_the_others_beside_each_fault(render, site):
    site.answers["/a"] = (200, PDF, simple_pdf("a"))
    Path("broken.pdf").write_bytes(b"no PDF")

    assert render("paper.pdf", site.url("/a#x"), "--allow", site.host) == (
        0, "paper.pdf: 2 pages\na#x.pdf: 1 page\n", "",
    )  # fmt: skip
    code, out, error = render("absent.html", "broken.pdf", "paper.pdf", "--overwrite")
    assert (code, out) == (2, "paper.pdf: 2 pages\n")
    first, second = error.splitlines()
    assert first.startswith("rag-eval: absent.html: expected a file")
    assert "http://" in first  # a URL without scheme is the likelier slip
    assert second.startswith("rag-eval: broken.pdf: ")
    assert second.endswith("[pdf_damaged]")
    code, out, error = render(site.url("/gone"), "absent.html", "http://xn--a/", "--allow", site.host)
    assert (code, out) == (4, "")  # the graver of the two
    _, gone, bad_url = error.splitlines()
    assert gone.startswith(f"rag-eval: gone.pdf: {site.url('/gone')}: ")
    assert gone.endswith("[http_404]")
    assert bad_url.endswith("[bad_url]")


def test_render_json_has_a_row_for_each_document_also_missing_and_repeated_ones(render, site):
    answers = iter([(503, {"Retry-After": "0"}, b""), (200, PDF, simple_pdf("a"))])
    site.answers["/a"] = lambda: next(answers)

    code, out, _ = render("paper.pdf", site.url("/a"), site.url("/gone"), "--allow", site.host, "--json")

    assert code == 4
    assert [(row["file_name"], row["pages"], row["error_code"]) for row in json.loads(out)] == [
        ("paper.pdf", 2, None), ("a.pdf", 1, None), ("gone.pdf", 0, "http_404"),
    ]  # fmt: skip
    assert site.asked.count("/a") == 2


def test_render_refuses_private_hosts_unless_allowed(render, site):
    site.answers["/a"] = (200, PDF, simple_pdf("a"))

    code, _, error = render(site.url("/a"))

    assert (code, "[egress_blocked]" in error) == (4, True)
    assert site.asked == []
    assert render(site.url("/a"), "--allow", "everything")[::2] == (
        2,
        "rag-eval: --allow: expected an exact host:port, found 'everything' [bad_host].\n",
    )


def test_render_follows_the_settings_of_the_workspace_which_must_be_one(render, site, tmp_path):
    (tmp_path / "data" / "sources").mkdir(parents=True)
    (tmp_path / "data" / "config").mkdir()
    settings = f"allowed_hosts: ['{site.host}']\nmax_body_bytes: 100\n"
    (tmp_path / "data" / "config" / "egress.config.yaml").write_text(settings)
    site.answers["/a"] = (200, PDF, simple_pdf("a"))

    code, _, error = render(site.url("/a"))

    assert (code, "[body_too_large]" in error, site.asked) == (4, True, ["/a"])
    code, _, error = render("paper.pdf", "--workspace", str(tmp_path / "nowhere"))
    assert (code, "[no_workspace]" in error) == (2, True)


def test_render_keeps_a_file_whose_name_is_taken_unless_it_may_overwrite(render):
    render("paper.pdf")
    Path("paper.pdf").write_bytes(simple_pdf("another"))

    code, out, error = render("paper.pdf")

    assert (code, out) == (2, "")
    assert error.startswith("rag-eval: pdfs/paper.pdf: expected no file with the name of paper.pdf")
    assert Path("pdfs/paper.pdf").read_bytes() == simple_pdf("one", "two")
    assert render("paper.pdf", "--overwrite")[0] == 0
    assert Path("pdfs/paper.pdf").read_bytes() == simple_pdf("another")


def test_render_with_a_manifest_fetches_nothing_again(render, site):
    site.answers["/a"] = (200, PDF, simple_pdf("a"))
    command = (site.url("/a"), "paper.pdf", "--manifest", "known.parquet", "--allow", site.host)
    render(*command)

    assert render(*command) == (0, "a.pdf: 1 page, unchanged\npaper.pdf: 2 pages, unchanged\n", "")
    assert site.asked == ["/a"]
