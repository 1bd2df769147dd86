"""The text of a PDF page by page, with offsets that hold in the document's whole text."""

import hashlib

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_metadata
from rag_eval_pipeline.corpus.text.pages import (
    EXTRACTOR_KEY,
    Page,
    corpus_pages,
    document_text,
    extractor,
    pages_by_document,
    read_pages,
    reusable_pages,
    write_pages,
)
from rag_eval_pipeline.corpus.text.pdf import fix_dates


def row(name, sha="1"):
    return CorpusDocument(name, name, None, None, (), "kept", sha, sha, None, 2)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a#b%20c.pdf").write_bytes(simple_pdf("first page", "second page"))
    (tmp_path / "other.pdf").write_bytes(simple_pdf("alone"))
    return tmp_path


def test_pages_have_offsets_in_the_document_and_hashes_on_disk(folder):
    names = ["a#b%20c.pdf", "other.pdf"]
    shas = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    path = folder / "pages.parquet"

    pages = list(corpus_pages([row(name, sha) for name, sha in zip(names, shas, strict=True)], folder))
    write_pages(path, pages)

    own = pages_by_document(pages)[names[0]]
    assert document_text(own) == "first page\fsecond page"
    assert [(page.page, page.start) for page in own] == [(1, 0), (2, 11)]
    assert read_pages(path) == reusable_pages(path) == pages
    assert read_metadata(path) == {EXTRACTOR_KEY: extractor()}
    texts = [hashlib.sha256(text.encode()).hexdigest() for text in ("first page\fsecond page", "alone")]
    assert [(r["page"], r["pdf_sha256"], r["text_sha256"]) for r in pq.read_table(path).to_pylist()] == [
        (1, shas[0], texts[0]),
        (2, shas[0], texts[0]),
        (1, shas[1], texts[1]),
    ]


TEXTS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\f"), max_size=30), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(first=TEXTS, second=TEXTS)
def test_pages_of_any_texts_are_read_as_they_were_written(first, second, tmp_path):
    known = [
        Page(name, number, 0, text, name)
        for name, texts in (("1", first), ("2", second))
        for number, text in enumerate(texts, 1)
    ]
    pages = list(corpus_pages([row("a.pdf", "1"), row("b.pdf", "2")], tmp_path, known))
    write_pages(tmp_path / "pages.parquet", pages)

    again = pages_by_document(read_pages(tmp_path / "pages.parquet"))

    assert [document_text(own) for own in again.values()] == ["\f".join(first), "\f".join(second)]
    for own in again.values():
        assert all(document_text(own)[page.start : page.start + len(page.text)] == page.text for page in own)


def test_pages_of_known_files_are_reused_and_missing_documents_have_none(tmp_path):
    known = [Page("old name.pdf", 1, 0, "known", "1")]

    assert list(corpus_pages([row("gone.pdf", "1"), row("a.pdf", None)], tmp_path, known)) == [
        Page("gone.pdf", 1, 0, "known", "1")
    ]


def test_fix_dates_keeps_the_length():
    data = b"<</CreationDate (D:20261121011500+00'00') /ModDate(D:20261121011501+00'00')>>"

    assert fix_dates(data) == b"<</CreationDate (D:19700101000000+00'00') /ModDate(D:19700101000000+00'00')>>"
