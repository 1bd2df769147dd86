"""A document has one identity and one body, and is found by whatever a question calls it."""

import pytest

from rag_eval_pipeline.conversion.document_index import DocumentIndex
from rag_eval_pipeline.conversion.mapping import MappedRow
from rag_eval_pipeline.conversion.questions import NamedContext, RowError
from rag_eval_pipeline.sources.source_files import SourceFiles
from tests.conversion.conftest import HEAD

BAD_DOCUMENTS = {
    "two bodies": ({"name": "d", "text": "x", "html": "y"}, "bad_document"),
    "a name without body": ({"name": "d"}, "bad_document"),
    "an empty name": ({"name": "", "text": "x"}, "bad_document"),
    "a bad URL": ({"url": "file:///etc/passwd"}, "bad_url"),
    "a file outside": ({"url": "https://x.org/a", "file": "../secret"}, "path_outside"),
    "a name that another document has": ({"name": "good", "url": "https://x.org"}, "duplicate_document"),
    "another body for a known document": ({"name": "good", "text": "y"}, "duplicate_document"),
}


def document_index(paths, *rows):
    made = DocumentIndex()
    for row in rows:
        made.add_row(SourceFiles(paths), MappedRow(row, True, None, None))
    return made


@pytest.mark.parametrize(("row", "code"), BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS)
def test_bad_rows(benchmark, row, code):
    with pytest.raises(RowError) as caught:
        document_index(benchmark(HEAD), {"name": "good", "text": "x"}, row)
    assert caught.value.code == code


def test_same_document_twice_is_one_with_both_its_names(benchmark):
    made = document_index(
        benchmark(HEAD, {"h.html": "<p>"}),
        {"url": "https://x.org/Harbour#Pilotage", "file": "h.html"},
        {"url": "https://x.org/Harbour#Moorings", "file": "h.html"},
    )

    documents, names = made.planned(None, strict=False)

    assert [[name.name for name in document.names] for document in documents] == [
        ["Harbour#Pilotage.pdf", "Harbour#Moorings.pdf"]
    ]
    assert names["x.org/Harbour", "https://x.org/Harbour#Moorings"] == "Harbour#Moorings.pdf"


FOUND = {
    "a URL under another scheme and encoding": (NamedContext(url="http://X.org/caf%c3%a9#top"), "x.org/café"),
    "a file by its basename": (NamedContext(file="a.pdf"), "A name"),
    "a file without its ending": (NamedContext(file="a"), "A name"),
    "a document by its name": (NamedContext(document="A name"), "A name"),
    "a document by the name of its file": (NamedContext(document="a.pdf"), "A name"),
    "a page by its name": (NamedContext(document="The café"), "x.org/café"),
}


@pytest.mark.parametrize(("context", "key"), FOUND.values(), ids=FOUND)
def test_finding(benchmark, context, key):
    paths = benchmark(HEAD, {"docs/a.pdf": b"%PDF-"})
    page = {"url": "https://x.org/café", "name": "The café", "html": "<p>"}
    made = document_index(paths, page, {"name": "A name", "file": "docs/a.pdf"})

    assert made.resolve(context)[1].key == key


def test_offsets_count_in_the_source_of_a_markdown_body(benchmark):
    made = document_index(benchmark(HEAD), {"name": "notes", "markdown": "# Notes\n\n**Bold** text"})

    assert made.resolve(NamedContext(document="notes", start=9, end=17))[0].text == "**Bold**"
    assert made.planned(None, strict=False)[0][0].content == "# Notes\n\n**Bold** text"
