"""Real pages through a real browser: what a reader would see is in the PDF, and what is out of bounds is not."""

import os
import tempfile
from pathlib import Path

import psutil
import pypdfium2
import pytest

from corpus.making import png, simple_pdf
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.manifest import write_manifest
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE, find_browser
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from tests.web.site import serve

pytestmark = pytest.mark.browser

RED, GREEN, BLUE = (200, 0, 0), (0, 160, 0), (0, 0, 220)

PAGES = {
    "picture.html": '<p>Picture</p><img src="img/red.png" width=64><img src="img/none.png" width=64>',
    "lazy.html": '<p>Lazy</p><div style="height:6000px"></div><img loading=lazy src="img/red.png" width=64>',
    "observed.html": (
        '<p>Observed</p><div style="height:6000px"></div><img id=i data-src="img/green.png" width=64><script>'
        "new IntersectionObserver((e,o)=>{if(e.some(x=>x.isIntersecting)){i.src=i.dataset.src;o.disconnect()}})"
        ".observe(i)</script>"
    ),
    "table.html": "<table border=1>" + "".join(f"<tr><td>row {n}<td>{n * n}</tr>" for n in range(120)) + "</table>",
    "fixed.html": (
        '<div style="position:fixed;top:0">HEADER</div>'
        + "".join(f"<p>paragraph {n}</p>" for n in range(120))
    ),
    "folded.html": "<details><summary>More</summary><p>FOLDED</p></details>",
    "scroller.html": (
        '<div style="height:200px;overflow:auto">' + "".join(f"<p>line {n}</p>" for n in range(90)) + "</div>"
    ),
    "hidden.html": (
        "<style>@media print{main{display:none}}</style><main>" + "The article itself. " * 40 + "</main><p>Ad</p>"
    ),
    "late.html": (
        "<p id=p></p><script>setTimeout(()=>{p.textContent='LATE '.repeat(80)},600)</script>"
    ),
    "talks.html": "<p>Talks</p><script>alert(1);confirm(1);print();window.open('about:blank')</script>",
    "leaves.html": '<meta http-equiv="refresh" content="0;url=http://10.0.0.1/"><p>STAYS</p>',
    "remote.html": '<p>Remote</p><img src="https://dead.invalid/a.png"><link rel=stylesheet href="//dead.invalid/a">',
    "climbs.html": '<p>Climbs</p><img src="..%2fsecret.png"><img src="link.png"><img src="/secret.png">',
}  # fmt: skip


@pytest.fixture(scope="module")
def site():
    yield from serve()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory, site) -> Path:
    """A folder of saved pages with their pictures, and a picture outside it."""
    folder = tmp_path_factory.mktemp("mirror")
    (folder / "img").mkdir()
    (folder / "img" / "red.png").write_bytes(png(*RED))
    (folder / "img" / "green.png").write_bytes(png(*GREEN))
    (folder.parent / "secret.png").write_bytes(png(*BLUE))
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    for name, content in PAGES.items():
        (folder / name).write_text(f"<!doctype html><title>{name}</title>{content}")
    # 34 kinds of sub-resource can reach a local service; these stand for those that a proxy alone does not stop.
    canary = site.url("/canary")
    (folder / "prying.html").write_text(
        f"<p>Prying</p><img src={canary}><iframe src={canary}></iframe><object data={canary}></object>"
        f"<script src={canary}></script><script>fetch('{canary}',{{mode:'no-cors'}});"
        f"new WebSocket('{canary.replace('http', 'ws')}');navigator.sendBeacon('{canary}')</script>"
    )
    (folder / "notes.txt").write_text("# Notes\n\n  indented <b> & 深 🚀\n")
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
    names = [*PAGES, "prying.html", "notes.txt", "ready.pdf", "broken.pdf", "absent.html"]
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
    ]


class Built:
    """A corpus folder, its rows by file name, and the policy it was built with."""

    def __init__(self, folder: Path, rows: list[CorpusDocument]) -> None:
        self.folder = folder
        self.rows = rows
        self.by_name = {row.file_name.removesuffix(".pdf"): row for row in rows}

    def text(self, name: str) -> str:
        return "\f".join(read_texts(self.folder / f"{name}.pdf"))

    def colours(self, name: str) -> set[tuple[int, int, int]]:
        """Colours of the pixels of all pages, drawn small."""
        found = set()
        document = pypdfium2.PdfDocument(self.folder / f"{name}.pdf")
        for page in document:
            bitmap = page.render(scale=0.5, rev_byteorder=True)
            data, channels = bytes(bitmap.buffer), bitmap.n_channels
            for line in range(bitmap.height):
                start = line * bitmap.stride
                row = data[start : start + bitmap.width * channels]
                found |= set(zip(row[::channels], row[1::channels], row[2::channels], strict=True))
        return found


@pytest.fixture(scope="module")
def policy(site) -> EgressPolicy:
    return site.policy(attempts=1)


@pytest.fixture(scope="module")
def built(tmp_path_factory, planned, policy, own_temp) -> Built:
    folder = tmp_path_factory.mktemp("corpus") / "bench"
    rows = build_corpus(planned, folder, [], policy)
    return Built(folder, rows)


def test_rows_are_in_the_order_of_the_plan_and_of_each_documents_names(built, planned):
    assert [row.file_name for row in built.rows] == [name.name for d in planned for name in d.names]


def test_a_picture_beside_the_page_is_drawn(built):
    row = built.by_name["picture.html"]

    assert RED in built.colours("picture.html")
    assert (row.origin, row.images_expected, row.images_drawn) == ("rendered", 2, 1)
    assert [resource.split(" ")[1] for resource in row.resources] == ["img/none.png", "img/red.png"]
    assert row.resources[0] == "- img/none.png"


@pytest.mark.parametrize(("name", "colour"), [("lazy.html", RED), ("observed.html", GREEN)])
def test_a_picture_that_waits_to_be_seen_is_drawn(built, name, colour):
    assert colour in built.colours(name)
    assert built.by_name[name].images_drawn == 1


def test_every_row_of_a_long_table_is_printed(built):
    assert all(f"row {n}" in built.text("table.html") for n in range(120))
    assert built.by_name["table.html"].pages > 1


def test_a_fixed_header_is_printed_once(built):
    assert built.by_name["fixed.html"].pages > 1
    assert built.text("fixed.html").count("HEADER") == 1


def test_what_is_folded_scrolled_or_late_is_printed(built):
    assert "FOLDED" in built.text("folded.html")
    assert "line 89" in built.text("scroller.html")
    assert "LATE" in built.text("late.html")


def test_an_article_that_the_print_style_hides_is_printed(built, sandbox):
    assert "The article itself." in built.text("hidden.html")
    assert built.by_name["hidden.html"].flags == ("print_css_hides_content",)


def test_nothing_waits_for_a_person(built):
    assert built.text("talks.html") == "Talks"


def test_a_local_page_cannot_lead_elsewhere(built, sandbox):
    assert built.text("leaves.html") == "STAYS"
    assert built.by_name["leaves.html"].flags == ("navigation_blocked",)


def test_dead_hosts_do_not_keep_a_page_from_printing(built):
    assert built.text("remote.html").startswith("Remote")
    assert built.by_name["remote.html"].images_drawn == 0


def test_nothing_outside_the_bodys_folder_is_read(built):
    assert BLUE not in built.colours("climbs.html")
    assert built.by_name["climbs.html"].images_drawn == 0


def test_a_page_cannot_reach_a_service_that_only_other_documents_may_come_from(tmp_path, mirror, own_temp, site):
    before = len(site.asked)

    [row] = build_corpus([local(mirror, "prying.html", "https://example.org/")], tmp_path / "c", [], EgressPolicy())

    assert row.origin == "rendered"
    assert "not here" not in Built(tmp_path / "c", [row]).text("prying.html")
    assert len(site.asked) == before


def test_text_is_printed_as_it_stands(built):
    assert built.text("notes.txt") == "# Notes\n indented <b> & 深 🚀"
    assert built.text("plain text") == "A paragraph."


def test_a_ready_pdf_is_kept_byte_for_byte(built, mirror):
    row = built.by_name["ready.pdf"]

    assert (row.origin, row.pages, row.renderer) == ("kept", 2, None)
    assert (built.folder / "ready.pdf.pdf").read_bytes() == (mirror / "ready.pdf").read_bytes()
    assert built.by_name["paper"].origin == "kept"
    assert built.text("paper") == "publisher"


def test_a_document_stands_under_each_of_its_names(built, sandbox):
    first, second = built.by_name["A"], built.by_name["A#x"]

    assert first.pdf_sha256 == second.pdf_sha256
    assert (first.flags, second.flags) == ((), ("collision",))
    assert (built.folder / "A.pdf").read_bytes() == (built.folder / "A#x.pdf").read_bytes()


def test_a_fetched_page_is_printed_with_its_pictures(built, site, sandbox):
    row = built.by_name["Page"]

    assert (row.origin, row.final_url) == ("rendered", site.url("/wiki/Page_(moved)"))
    assert RED in built.colours("Page")


MISSING = {
    "broken.pdf": "pdf_damaged",
    "absent.html": "file_missing",
    "nowhere": "http_404",
    "passwd": "scheme",
    "local": "egress_blocked",
}


@pytest.mark.parametrize(("name", "code"), MISSING.items())
def test_a_document_that_cannot_be_had_says_why_and_stops_no_other(built, name, code):
    row = built.by_name[name]

    assert (row.origin, row.error_code, row.pages, row.pdf_sha256) == ("missing", code, 0, None)
    assert row.error
    assert not (built.folder / row.file_name).exists()


def test_whatever_goes_wrong_with_one_document_is_its_row_and_is_logged(tmp_path, own_temp, caplog):
    planned = [
        PlannedDocument("odd", (FileName("odd.pdf"),), "file", None, Path("/a\0b.html")),  # no file system takes it
        PlannedDocument("plain", (FileName("plain.pdf"),), "text", None, None, "A paragraph.\n"),
    ]

    odd, plain = build_corpus(planned, tmp_path / "c", [], EgressPolicy())

    assert (odd.origin, odd.error_code, plain.origin) == ("missing", "internal_error", "rendered")
    assert "ValueError" in odd.error
    [record] = [record for record in caplog.records if record.exc_info]
    assert "odd" in record.message


def test_an_error_of_the_machine_ends_the_build_instead_of_losing_the_document(tmp_path, own_temp):
    planned = [PlannedDocument("odd", (FileName("odd.pdf"),), "file", None, Path("/proc/self/mem"))]  # EIO when read

    with pytest.raises(OSError, match="Input/output error"):
        build_corpus(planned, tmp_path / "c", [], EgressPolicy())


def test_the_folder_holds_the_documents_and_nothing_else(built):
    assert sorted(os.listdir(built.folder)) == sorted(r.file_name for r in built.rows if r.origin != "missing")
    assert os.listdir(built.folder.parent) == ["bench"]


def test_the_same_bytes_give_the_same_files(built, planned, policy, tmp_path, own_temp):
    again = build_corpus(planned, tmp_path / "c", [], policy)

    write_manifest(tmp_path / "one", built.rows)
    write_manifest(tmp_path / "two", again)
    assert [r.file_name for r in again if r.pdf_sha256 != built.by_name[r.file_name[:-4]].pdf_sha256] == []
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.fixture
def no_browser(monkeypatch):
    """Starting a driver fails the test."""

    def start():
        raise AssertionError("a browser was started")

    monkeypatch.setattr("rag_eval_pipeline.corpus.rendering.browser.async_playwright", start)


@pytest.mark.usefixtures("no_browser")
def test_an_unchanged_corpus_starts_no_browser_and_asks_no_server_for_what_it_has(built, planned, policy, site):
    wanted = [d for d in planned if built.by_name[d.names[0].name[:-4]].origin != "missing"]
    before = {entry.name: (entry.stat().st_mtime_ns, entry.inode()) for entry in os.scandir(built.folder)}
    asked = len(site.asked)
    told = []

    rows = build_corpus(
        wanted, built.folder, built.rows, policy, progress=lambda done, total: told.append((done, total))
    )

    assert rows == [r for r in built.rows if r.origin != "missing"]
    assert {entry.name: (entry.stat().st_mtime_ns, entry.inode()) for entry in os.scandir(built.folder)} == before
    assert len(site.asked) == asked
    assert told == [(len(wanted), len(wanted))]


@pytest.mark.usefixtures("no_browser")
def test_a_new_name_of_an_unchanged_document_needs_no_browser(built, tmp_path, policy, mirror):
    document = local(mirror, "folded.html", "https://example.org/wiki/folded.html")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "folded.html.pdf").write_bytes((built.folder / "folded.html.pdf").read_bytes())
    renamed = PlannedDocument(
        document.key, (FileName("new.pdf"), FileName("newer.pdf")), "file", document.url, document.path
    )

    rows = build_corpus([renamed], tmp_path / "c", built.rows, policy)

    assert [row.file_name for row in rows] == ["new.pdf", "newer.pdf"]
    assert sorted(os.listdir(tmp_path / "c")) == ["new.pdf", "newer.pdf"]


def test_a_changed_picture_or_an_altered_file_is_rendered_again(built, tmp_path, own_temp, policy, mirror):
    folder = tmp_path / "mirror"
    (folder / "img").mkdir(parents=True)
    (folder / "img" / "red.png").write_bytes(png(*RED))
    for name in ("picture.html", "folded.html"):
        (folder / name).write_bytes((mirror / name).read_bytes())
    planned = [local(folder, "picture.html", "https://h/p"), local(folder, "folded.html", "https://h/f")]
    rows = build_corpus(planned, tmp_path / "c", [], policy)

    (folder / "img" / "red.png").write_bytes(png(*BLUE))
    (tmp_path / "c" / "folded.html.pdf").write_bytes(b"altered")
    again = Built(tmp_path / "c", build_corpus(planned, tmp_path / "c", rows, policy))

    assert BLUE in again.colours("picture.html")
    assert again.by_name["folded.html"].pdf_sha256 == rows[1].pdf_sha256
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


def test_a_killed_browser_is_replaced_and_no_document_is_lost(tmp_path, own_temp):
    planned = [
        PlannedDocument(f"d{n}", (FileName(f"d{n}.pdf"),), "html", None, None, f"<p>document {n}</p>")
        for n in range(12)
    ]
    killed = []

    def kill(done: int, total: int) -> None:
        if done == 3:
            for process in browser_processes(own_temp):
                process.kill()
                killed.append(process.pid)

    rows = build_corpus(planned, tmp_path / "c", [], EgressPolicy(), progress=kill)

    assert killed
    assert [(row.file_name, row.origin) for row in rows] == [(f"d{n}.pdf", "rendered") for n in range(12)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_in_the_middle_leaves_no_process_and_no_file_behind(tmp_path, own_temp, error):
    planned = [
        PlannedDocument(f"d{n}", (FileName(f"d{n}.pdf"),), "html", None, None, f"<p>document {n}</p>") for n in range(8)
    ]

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise error

    with pytest.raises(error):
        build_corpus(planned, tmp_path / "c", [], EgressPolicy(), progress=stop)

    assert os.listdir(tmp_path) == ["c"]
    assert browser_processes(own_temp) == []
    assert os.listdir(own_temp) == []


def test_builds_leave_no_process_and_no_temp_file(built, own_temp):
    assert tempfile.gettempdir() == str(own_temp)
    assert browser_processes(own_temp) == []
    assert os.listdir(own_temp) == []


def test_a_hung_script_is_switched_off(tmp_path, own_temp, sandbox):
    planned = [
        PlannedDocument("hung", (FileName("hung.pdf"),), "html", None, None, "<p>SEEN</p><script>for(;;){}</script>"),
        PlannedDocument("well", (FileName("well.pdf"),), "html", None, None, "<p>well</p>"),
    ]

    rows = build_corpus(planned, tmp_path / "c", [], EgressPolicy(EgressConfig(page_load_limit_s=1.0)))

    assert [(row.origin, row.flags) for row in rows] == [("rendered", ("js_off",)), ("rendered", ())]
    assert read_texts(tmp_path / "c" / "hung.pdf") == ["SEEN"]
    assert browser_processes(own_temp) == []


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
def test_without_a_sandbox_local_pages_are_printed_and_say_so_and_urls_are_refused(tmp_path, site, mirror):
    site.answers["/open"] = (200, {}, b"<p>Open")
    planned = [local(mirror, "folded.html"), remote(site.url("/open"), "open"), remote(site.url("/paper"), "paper")]

    rows = build_corpus(planned, tmp_path / "c", [], site.policy())

    assert [(row.origin, row.flags, row.error_code) for row in rows] == [
        ("rendered", ("no_sandbox",), None),
        ("missing", (), "no_sandbox"),
        ("kept", (), None),
    ]


@pytest.mark.usefixtures("browser_without_sandbox")
def test_without_a_sandbox_urls_are_printed_where_the_operator_allows_it(tmp_path, site):
    site.answers["/open"] = (200, {}, b"<p>Open")

    [row] = build_corpus([remote(site.url("/open"), "open")], tmp_path / "c", [], site.policy(allow_no_sandbox=True))

    assert (row.origin, row.flags) == ("rendered", ("no_sandbox",))
