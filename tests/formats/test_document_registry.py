"""A name means one document, or it is said that it means none or several."""

import pytest

from rag_eval_pipeline.formats.dataset import SourceDocument
from rag_eval_pipeline.formats.dataset_checks import DocumentRegistry, RegisteredDocument, without_extension

STEMS = {
    "report.pdf": "report",
    "report.PDF": "report",
    "a.pdf.txt": "a.pdf",
    "project.pdf_notes.md": "project.pdf_notes",  # not taken out of the middle
    "Smith_v._Jones": "Smith_v._Jones",
    "report": "report",
    "v1.2": "v1.2",
    ".pdf": ".pdf",
    "": "",
}


@pytest.mark.parametrize(("name", "stem"), STEMS.items())
def test_only_a_known_extension_at_the_end_is_optional(name, stem):
    assert without_extension(name) == stem


GUIDE = SourceDocument(document_id="doc_001", content="", title="The Guide", file_path="docs/tool.pdf")
NOTES = SourceDocument(document_id="notes", content="")
MEANINGS = {
    "doc_001": "doc_001",
    "doc_001.pdf": "doc_001",
    "tool.pdf": "doc_001",
    "tool": "doc_001",
    "tool.md": "doc_001",  # the extension is optional, whichever it is
    "docs/tool.pdf": "doc_001",
    "The Guide": "doc_001",
    "notes.txt": "notes",
    "Tool.pdf": None,
    "the guide": None,
    "tool.exe": None,
    "other/tool.pdf": None,
    "": None,
}


@pytest.mark.parametrize(("name", "document_id"), MEANINGS.items())
def test_what_a_name_means(name, document_id):
    found = DocumentRegistry.from_documents([GUIDE, NOTES]).resolve(name)

    assert (None if found is None else found.document_id) == document_id


def test_a_surer_name_wins_and_equally_sure_ones_are_ambiguous():
    registry = DocumentRegistry(
        [
            RegisteredDocument("a.pdf", "a.pdf"),
            RegisteredDocument("a.txt", "a.txt"),
            RegisteredDocument("b", "c", title="a.pdf"),
        ]
    )

    assert registry.resolve("a.pdf").document_id == "a.pdf"
    assert registry.resolve("a") is None
    assert [document.document_id for document in registry.candidates("a")] == ["a.pdf", "a.txt"]


def test_files_of_a_folder_go_by_their_names_and_paths(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("A%20b#c.pdf", "sub/x.pdf", ".hidden.pdf"):
        (tmp_path / name).touch()
    registry = DocumentRegistry.from_folder(tmp_path)

    assert [document.document_id for document in registry.documents] == ["A%20b#c.pdf", "x.pdf"]
    assert registry.resolve("A%20b#c").document_id == "A%20b#c.pdf"
    assert registry.resolve("sub/x.pdf").document_id == "x.pdf"
    assert registry.resolve("A b#c.pdf") is None
