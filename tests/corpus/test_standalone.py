"""`render_documents` adds to a folder and removes nothing from it; a manifest keeps documents of one name apart."""

import pytest

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.standalone import render_documents
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


def test_render_adds_to_a_folder_and_refuses_a_name_that_is_taken_before_it_fetches(pages, out):
    (out / "folder").mkdir(parents=True)
    (out / "thesis.txt").write_text("mine")
    (out / "three.pdf").symlink_to("/nowhere")

    render(pages, out, "/one")
    render(pages, out, "/two")
    pages.asked.clear()
    for path in ("/other/one", "/three"):
        with pytest.raises(InputError, match="--overwrite") as error:
            render(pages, out, "/two#x", path)
        assert error.value.code == "file_exists"

    assert pages.asked == []
    assert files(out) == ["folder", "one.pdf", "thesis.txt", "three.pdf", "two.pdf"]
    assert (out / "one.pdf").read_bytes() == simple_pdf("/one")


def test_render_with_a_manifest_fetches_nothing_twice_and_keeps_names_apart(pages, out, tmp_path):
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


def test_render_keeps_an_older_file_of_a_page_that_is_gone(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"
    render(pages, out, "/one", manifest=manifest)
    pages.answers["/one"] = (404, {}, b"gone")

    rows = render(pages, out, "/one", "/absent", "/two", manifest=manifest, overwrite=True)

    assert [row.error_code for row in rows] == ["http_404", "http_404", None]
    assert files(out) == ["one.pdf", "two.pdf"]
    known = {row.file_name: row.origin for row in read_manifest(manifest)}
    assert known == {"one.pdf": "kept", "absent.pdf": "missing", "two.pdf": "kept"}


def test_render_fetches_one_document_for_all_fragments(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"

    rows = render(pages, out, "/one", "/one#a", "/one", manifest=manifest)
    render(pages, out, "/one#b", manifest=manifest)

    assert [row.file_name for row in rows] == ["one.pdf", "one#a.pdf"]
    assert pages.asked == ["/one"]
    assert files(out) == ["one#a.pdf", "one#b.pdf", "one.pdf"]
    assert {(out / name).read_bytes() for name in files(out)} == {simple_pdf("/one")}


def test_render_that_is_interrupted_keeps_and_remembers_what_it_made(pages, out, tmp_path):
    manifest = tmp_path / "manifest.parquet"

    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render(pages, out, "/one", "/two", "/other/one", "/three", manifest=manifest, progress=interrupt)

    remembered = sorted(row.file_name for row in read_manifest(manifest))
    assert len(remembered) >= 2
    assert files(out) == remembered  # and no temp folder


def test_render_names_local_files_by_their_basename(tmp_path, out, monkeypatch):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "paper.pdf").write_bytes(simple_pdf(folder))
    monkeypatch.chdir(tmp_path)

    rows = render_documents(["a/paper.pdf", "./a/paper.pdf", "b/paper.pdf"], out, EgressPolicy())

    assert [row.key for row in rows] == ["a/paper.pdf", "b/paper.pdf"]
    assert rows[0].file_name == "paper.pdf"
    assert "collision" in rows[1].flags
    assert [(out / row.file_name).read_bytes() for row in rows] == [simple_pdf("a"), simple_pdf("b")]
