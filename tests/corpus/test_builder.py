"""A corpus is built with a real browser, each document once, and whatever is wrong with one stops no other."""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from corpus.hostile.drawing import shows
from corpus.making import png, simple_pdf
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE, find_browser
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.web.egress import EgressPolicy
from tests.web.site import serve

pytestmark = pytest.mark.browser

RED, BLUE = (200, 0, 0), (0, 0, 220)

# What any page may do is in `hostile`; these are pages of files, with a folder beside them.
PAGES = {
    "picture.html": '<p>Picture</p><img src="img/red.png" width=64><img src="img/none.png" width=64>',
    "folded.html": "<details><summary>More</summary><p>FOLDED</p></details>",
    "leaves.html": '<meta http-equiv="refresh" content="0;url=http://10.0.0.1/"><p>STAYS</p>',
    "remote.html": '<p>Remote</p><img src="https://dead.invalid/a.png"><link rel=stylesheet href="//dead.invalid/a">',
    "climbs.html": '<p>Climbs</p><img src="..%2fsecret.png"><img src="link.png"><img src="/secret.png">',
}


@pytest.fixture(scope="module")
def site():
    yield from serve()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory) -> Path:
    """A folder of saved pages with their pictures, and a picture outside it."""
    folder = tmp_path_factory.mktemp("mirror")
    (folder / "img").mkdir()
    (folder / "img" / "red.png").write_bytes(png(*RED))
    (folder.parent / "secret.png").write_bytes(png(*BLUE))
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    for name, content in PAGES.items():
        (folder / name).write_text(f"<!doctype html><title>{name}</title>{content}")
    (folder / "ready.pdf").write_bytes(simple_pdf("one", "two"))
    (folder / "broken.pdf").write_bytes(simple_pdf("one")[:50])
    return folder


def local(mirror: Path, name: str, url: str | None = None) -> PlannedDocument:
    return PlannedDocument(name, (FileName(f"{name}.pdf", url),), "file", url, mirror / name)


def remote(url: str, name: str) -> PlannedDocument:
    return PlannedDocument(url, (FileName(f"{name}.pdf", url),), "url", url)


@pytest.fixture(scope="module")
def planned(mirror, site) -> list[PlannedDocument]:
    site.answers["/wiki/Page"] = (302, {"Location": "/wiki/Page_(moved)"}, b"")
    site.answers["/wiki/Page_(moved)"] = (200, {}, b'<p>Fetched</p><img src="/red.png" width=64>')
    site.answers["/red.png"] = (200, {"Content-Type": "image/png"}, png(*RED))
    site.answers["/paper"] = (200, {"Content-Type": "application/pdf"}, simple_pdf("publisher"))
    names = [*PAGES, "ready.pdf", "broken.pdf", "absent.html"]
    twice = PlannedDocument(
        "twice", (FileName("A.pdf", "https://h/A"), FileName("A#x.pdf", "https://h/A#x", ("collision",))), "html",
        "https://h/A", None, "<p>Twice</p>",
    )  # fmt: skip
    return [
        *(local(mirror, name, f"https://example.org/wiki/{name}") for name in names),
        PlannedDocument("plain text", (FileName("plain text.pdf"),), "text", None, None, "A paragraph.\n"),
        twice,
        remote(site.url("/wiki/Page"), "Page"),
        remote(site.url("/paper"), "paper"),
        remote(site.url("/nowhere"), "nowhere"),
        remote("file:///etc/passwd", "passwd"),
        remote("http://127.0.0.1:1/", "local"),
        remote("http://xn--a/", "punycode"),
        PlannedDocument("odd", (FileName("odd.pdf"),), "file", None, Path("/a\0b.html")),  # no file system takes it
    ]


class Built:
    """A corpus folder, its rows by file name, and the policy it was built with."""

    def __init__(self, folder: Path, rows: list[CorpusDocument]) -> None:
        self.folder = folder
        self.rows = rows
        self.by_name = {row.file_name.removesuffix(".pdf"): row for row in rows}

    def text(self, name: str) -> str:
        return "\f".join(read_texts(self.folder / f"{name}.pdf"))

    def shows(self, name: str, colour: tuple[int, int, int]) -> bool:
        return shows((self.folder / f"{name}.pdf").read_bytes(), colour)


@pytest.fixture(scope="module")
def policy(site) -> EgressPolicy:
    return site.policy(attempts=1)


@pytest.fixture(scope="module")
def built(tmp_path_factory, planned, policy, own_temp) -> Built:
    folder = tmp_path_factory.mktemp("corpus") / "bench"
    rows = build_corpus(planned, folder, [], policy)
    return Built(folder, rows)


def test_build_returns_rows_in_the_order_of_the_plan_and_leaves_nothing_else_behind(built, planned, own_temp):
    assert [row.file_name for row in built.rows] == [name.name for d in planned for name in d.names]
    assert sorted(os.listdir(built.folder)) == sorted(r.file_name for r in built.rows if r.origin != "missing")
    assert os.listdir(built.folder.parent) == ["bench"]
    assert tempfile.gettempdir() == str(own_temp)
    assert browser_processes(own_temp) == []
    assert os.listdir(own_temp) == []


def test_build_draws_pictures_beside_a_page_and_reads_nothing_outside_its_folder(built):
    row = built.by_name["picture.html"]

    assert built.shows("picture.html", RED)
    assert (row.origin, row.images_expected, row.images_drawn) == ("rendered", 2, 1)
    assert [resource.split(" ")[1] for resource in row.resources] == ["img/none.png", "img/red.png"]
    assert row.resources[0] == "- img/none.png"
    assert not built.shows("climbs.html", BLUE)
    assert built.by_name["climbs.html"].images_drawn == 0


@pytest.mark.fault(9)
def test_build_keeps_a_local_page_where_it_is(built, sandbox):
    assert built.text("leaves.html") == "STAYS"
    assert built.by_name["leaves.html"].flags == ("navigation_blocked",)


def test_build_keeps_a_pdf_byte_for_byte(built, mirror):
    row = built.by_name["ready.pdf"]

    assert (row.origin, row.pages, row.renderer) == ("kept", 2, None)
    assert (built.folder / "ready.pdf.pdf").read_bytes() == (mirror / "ready.pdf").read_bytes()
    assert (built.by_name["paper"].origin, built.text("paper")) == ("kept", "publisher")


def test_build_puts_a_document_under_each_of_its_names(built, sandbox):
    first, second = built.by_name["A"], built.by_name["A#x"]

    assert first.pdf_sha256 == second.pdf_sha256
    assert (first.flags, second.flags) == ((), ("collision",))
    assert (built.folder / "A.pdf").read_bytes() == (built.folder / "A#x.pdf").read_bytes()


def test_build_prints_a_fetched_page_with_its_pictures(built, site, sandbox):
    row = built.by_name["Page"]

    assert (row.origin, row.final_url) == ("rendered", site.url("/wiki/Page_(moved)"))
    assert built.shows("Page", RED)


MISSING = {
    "broken.pdf": "pdf_damaged",
    "absent.html": "file_missing",
    "nowhere": "http_404",
    "passwd": "scheme",
    "local": "egress_blocked",
    "punycode": "bad_url",
    "odd": "internal_error",
}


@pytest.mark.parametrize(("name", "code"), MISSING.items())
def test_build_names_why_a_document_is_missing(built, name, code):
    row = built.by_name[name]

    assert (row.origin, row.error_code, row.pages, row.pdf_sha256) == ("missing", code, 0, None)
    assert row.error
    assert not (built.folder / row.file_name).exists()


def test_build_ends_at_an_error_of_the_machine(tmp_path, own_temp):
    planned = [PlannedDocument("odd", (FileName("odd.pdf"),), "file", None, Path("/proc/self/mem"))]  # EIO when read

    with pytest.raises(OSError, match="Input/output error"):
        build_corpus(planned, tmp_path / "c", [], EgressPolicy())


@pytest.fixture
def no_browser(monkeypatch):
    """Starting a driver fails the test."""

    def start():
        raise AssertionError("a browser was started")

    monkeypatch.setattr("rag_eval_pipeline.corpus.rendering.browser.async_playwright", start)


@pytest.mark.usefixtures("no_browser")
def test_build_of_an_unchanged_corpus_starts_no_browser_and_requests_nothing(built, planned, policy, site):
    wanted = [d for d in planned if built.by_name[d.names[0].name[:-4]].origin != "missing"]
    before = {entry.name: (entry.stat().st_mtime_ns, entry.inode()) for entry in os.scandir(built.folder)}
    asked = len(site.asked)
    reported = []

    def report(done: int, total: int) -> None:
        reported.append((done, total))

    rows = build_corpus(wanted, built.folder, built.rows, policy, progress=report)

    assert rows == [r for r in built.rows if r.origin != "missing"]
    assert {entry.name: (entry.stat().st_mtime_ns, entry.inode()) for entry in os.scandir(built.folder)} == before
    assert len(site.asked) == asked
    assert reported == [(len(wanted), len(wanted))]


def test_build_renders_a_changed_picture_or_an_altered_file_again_and_no_renamed_one(
    built, tmp_path, own_temp, policy, mirror
):
    folder, corpus = tmp_path / "mirror", tmp_path / "c"
    shutil.copytree(mirror, folder)
    shutil.copytree(built.folder, corpus)
    (folder / "img" / "red.png").write_bytes(png(*BLUE))
    (corpus / "folded.html.pdf").write_bytes(b"altered")
    names = ("picture.html", "folded.html", "ready.pdf")
    planned = [local(folder, name, f"https://example.org/wiki/{name}") for name in names]
    planned[2] = replace(planned[2], names=(FileName("new.pdf"), FileName("newer.pdf")))
    made = []

    again = Built(corpus, build_corpus(planned, corpus, built.rows, policy, keep=made.extend))

    assert sorted(row.file_name for row in made) == ["folded.html.pdf", "picture.html.pdf"]
    assert sorted(os.listdir(corpus)) == ["folded.html.pdf", "new.pdf", "newer.pdf", "picture.html.pdf"]
    assert again.shows("picture.html", BLUE)
    assert again.by_name["folded.html"].pdf_sha256 == built.by_name["folded.html"].pdf_sha256
    assert "FOLDED" in again.text("folded.html")


def browser_processes(home: Path) -> list[psutil.Process]:
    """Running processes of browsers whose home lies in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME", "").startswith(f"{home}/"):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.fault(71)
def test_build_that_is_interrupted_leaves_no_process_and_no_file_behind(tmp_path, own_temp):
    planned = [
        PlannedDocument(f"d{n}", (FileName(f"d{n}.pdf"),), "html", None, None, f"<p>document {n}</p>") for n in range(4)
    ]

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_corpus(planned, tmp_path / "c", [], EgressPolicy(), progress=stop)

    assert os.listdir(tmp_path) == ["c"]
    assert browser_processes(own_temp) == []
    assert os.listdir(own_temp) == []


@pytest.fixture
def browser_without_sandbox(own_temp, monkeypatch):
    """A browser that says what Chromium says where user namespaces are refused."""
    script = own_temp / "browser"
    script.write_text(
        f"""#!/bin/sh
case "$*" in *--no-sandbox* | --version) exec {find_browser()} "$@" ;; esac
echo "[FATAL:zygote_host_impl_linux.cc] No usable sandbox!" >&2
exit 1
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv(EXECUTABLE_VARIABLE, str(script))
    yield
    script.unlink()


@pytest.mark.usefixtures("browser_without_sandbox")
def test_build_without_a_sandbox_prints_local_pages_and_urls_only_where_it_is_allowed(tmp_path, site, mirror):
    site.answers["/open"] = (200, {}, b"<p>Open")
    page = remote(site.url("/open"), "open")

    rows = build_corpus(
        [local(mirror, "folded.html"), page, remote(site.url("/paper"), "paper")], tmp_path / "c", [], site.policy()
    )
    rows += build_corpus([page], tmp_path / "d", [], site.policy(allow_no_sandbox=True))

    assert [(row.origin, row.flags, row.error_code) for row in rows] == [
        ("rendered", ("no_sandbox",), None),
        ("missing", (), "no_sandbox"),
        ("kept", (), None),
        ("rendered", ("no_sandbox",), None),
    ]
