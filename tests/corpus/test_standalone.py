"""The renderer alone adds to a folder and takes nothing from it; a manifest tells documents of one name apart."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.naming import folded
from rag_eval_pipeline.corpus.standalone import is_url, plan_documents, render_documents
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.egress import EgressPolicy

PDF = {"Content-Type": "application/pdf"}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "pdfs"


@pytest.fixture
def pages(site):
    """A site of publishers' PDFs, for which no browser is needed; each says its own path."""
    for path in ("/one", "/two", "/other/one", "/three"):
        site.answers[path] = (200, PDF, simple_pdf(path))
    return site


def render(pages, out, *paths, **options):
    return render_documents([pages.url(path) for path in paths], out, pages.policy(), **options)


def files(out):
    return sorted(path.name for path in out.iterdir())


def test_a_second_rendering_keeps_what_the_first_left_and_what_was_there_before(pages, out):
    (out / "folder").mkdir(parents=True)
    (out / "thesis.txt").write_text("mine")

    render(pages, out, "/one")
    render(pages, out, "/two")

    assert files(out) == ["folder", "one.pdf", "thesis.txt", "two.pdf"]
    assert (out / "one.pdf").read_bytes() == simple_pdf("/one")


def test_a_name_that_is_taken_is_refused_before_anything_is_asked_for(pages, out):
    render(pages, out, "/one")
    pages.asked.clear()

    with pytest.raises(InputError) as error:
        render(pages, out, "/two", "/other/one")

    assert error.value.code == "file_exists"
    assert "--overwrite" in str(error.value)
    assert pages.asked == []
    assert files(out) == ["one.pdf"]


def test_a_link_that_leads_nowhere_takes_a_name_too(pages, out):
    out.mkdir()
    (out / "one.pdf").symlink_to("/nowhere")

    with pytest.raises(InputError, match="file_exists"):
        render(pages, out, "/one")


def test_overwriting_replaces_the_files_that_are_rendered_and_no_other(pages, out):
    render(pages, out, "/one", "/two")
    pages.answers["/one"] = (200, PDF, simple_pdf("anew"))

    render(pages, out, "/one", overwrite=True)

    assert (out / "one.pdf").read_bytes() == simple_pdf("anew")
    assert (out / "two.pdf").read_bytes() == simple_pdf("/two")


def test_with_a_manifest_nothing_is_asked_for_twice_and_names_are_told_apart(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"
    render(pages, out, "/one", "/two", manifest=manifest)
    pages.asked.clear()

    rows = render(pages, out, "/other/one", "/one", "/three", manifest=manifest)

    assert sorted(pages.asked) == ["/other/one", "/three"]
    assert rows[1].file_name == "one.pdf"
    assert rows[0].file_name.startswith("one~")
    assert (out / "one.pdf").read_bytes() == simple_pdf("/one")
    assert (out / rows[0].file_name).read_bytes() == simple_pdf("/other/one")
    remembered = {row.file_name: row.url for row in read_manifest(manifest)}
    assert remembered == {"two.pdf": pages.url("/two"), **{row.file_name: row.url for row in rows}}


def test_a_file_that_was_removed_or_altered_is_made_anew(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"
    render(pages, out, "/one", "/two", "/three", manifest=manifest)
    (out / "one.pdf").unlink()
    (out / "two.pdf").write_bytes(b"scribble")
    pages.asked.clear()

    render(pages, out, "/one", "/two", "/three", manifest=manifest)

    assert sorted(pages.asked) == ["/one", "/two"]
    assert (out / "two.pdf").read_bytes() == simple_pdf("/two")


def test_a_page_that_cannot_be_had_costs_neither_the_others_nor_its_older_file(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"
    render(pages, out, "/one", manifest=manifest)
    pages.answers["/one"] = (404, {}, b"gone")

    rows = render(pages, out, "/one", "/absent", "/two", manifest=manifest, overwrite=True)

    assert [row.error_code for row in rows] == ["http_404", "http_404", None]
    assert files(out) == ["one.pdf", "two.pdf"]
    known = {row.file_name: row.origin for row in read_manifest(manifest)}
    assert known == {"one.pdf": "kept", "absent.pdf": "missing", "two.pdf": "kept"}


def test_fragments_are_names_of_one_document(pages, out):
    rows = render(pages, out, "/one", "/one#a", "/one")

    assert [row.file_name for row in rows] == ["one.pdf", "one#a.pdf"]
    assert pages.asked == ["/one"]
    assert files(out) == ["one#a.pdf", "one.pdf"]


def test_a_new_name_of_a_known_document_asks_for_nothing(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"
    render(pages, out, "/one", manifest=manifest)
    pages.asked.clear()

    render(pages, out, "/one#a", manifest=manifest)

    assert pages.asked == []
    assert (out / "one#a.pdf").read_bytes() == (out / "one.pdf").read_bytes() == simple_pdf("/one")


def test_what_was_made_before_an_interruption_is_there_and_remembered(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"

    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render(pages, out, "/one", "/two", "/other/one", "/three", manifest=manifest, progress=interrupt)

    remembered = sorted(row.file_name for row in read_manifest(manifest))
    assert len(remembered) >= 2
    assert files(out) == remembered  # and no temp folder


def test_local_files_have_their_basename_and_one_name_each(tmp_path, out, monkeypatch):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "paper.pdf").write_bytes(simple_pdf(folder))
    monkeypatch.chdir(tmp_path)

    rows = render_documents(["a/paper.pdf", "./a/paper.pdf", "b/paper.pdf"], out, EgressPolicy())

    assert [row.key for row in rows] == ["a/paper.pdf", "b/paper.pdf"]
    assert rows[0].file_name == "paper.pdf"
    assert "collision" in rows[1].flags
    assert [(out / row.file_name).read_bytes() for row in rows] == [simple_pdf("a"), simple_pdf("b")]


@pytest.mark.browser
def test_html_text_and_markdown_are_printed(tmp_path, out, pages, own_temp):
    sources = {"page.html": "<h1>Gannets</h1>", "notes.txt": "plain notes", "notes.md": "# Notes"}
    for name, content in sources.items():
        (tmp_path / name).write_text(content)

    rows = render_documents([str(tmp_path / name) for name in sources], out, pages.policy())

    assert [row.file_name for row in rows] == ["page.html.pdf", "notes.txt.pdf", "notes.md.pdf"]
    assert [(row.origin, row.pages) for row in rows] == [("rendered", 1)] * 3
    assert all((out / row.file_name).read_bytes().startswith(b"%PDF-") for row in rows)
    assert os.listdir(own_temp) == []


SOURCES = st.one_of(
    st.text(max_size=40).map(lambda tail: f"https://h.example/{tail}"),
    st.text(alphabet="ab./%#~é", min_size=1, max_size=20),
)


@given(st.lists(SOURCES, max_size=8))
def test_each_name_is_one_path_component_and_no_two_are_equal(sources):
    names = [name.name for document in plan_documents(sources) for name in document.names]

    assert len({folded(name) for name in names}) == len(names)
    assert not any("/" in name or "\0" in name for name in names)
    assert {True for source in sources if is_url(source)} <= {d.body == "url" for d in plan_documents(sources)}
