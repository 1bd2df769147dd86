"""What the corpus steps show of their work: the manifest as JSON, times apart from it, counts, lines, a picture."""

import json
import random

import pytest

from rag_eval_pipeline.conversion.convert import convert, run_step
from rag_eval_pipeline.conversion.summaries import corpus_counts, document_line, document_notes, first_pages, slowest
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.parquet_files import read_rows
from rag_eval_pipeline.workspace import Workspace
from tests.corpus.making import simple_pdf

SPEC = """
name: scratch
version: 1.0.0
source: q.jsonl
tables: {docs: {files: "docs/*.pdf"}}
questions: |
  SELECT q AS question, 'a' AS answer, [{'file': q}] AS contexts FROM source
"""
FILES = {"one.pdf": simple_pdf("gannets dive", "and rise"), "two.pdf": simple_pdf("terns"), "bad.pdf": b"no PDF"}


@pytest.fixture
def scratch(benchmark):
    """A benchmark of three questions, each with a publisher's PDF of its own; one of the PDFs is none."""
    questions = "\n".join(json.dumps({"q": name}) for name in FILES)
    return benchmark(SPEC, {"q.jsonl": questions, **{f"docs/{name}": data for name, data in FILES.items()}})


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def test_corpus_is_reported_written_as_json_and_reused(scratch, workspace):
    lines = []
    run_step(workspace, "scratch", "questions")
    report = run_step(workspace, "scratch", "corpus", log=lines.append)

    assert sorted(line.rpartition(", ")[0] for line in lines) == ["one.pdf: kept, 2 pages", "two.pdf: kept, 1 page"]
    counts = report.record.counts
    size = len(FILES["one.pdf"]) + len(FILES["two.pdf"])
    assert {name: counts[name] for name in ("files", "documents", "quarantined", "drifted", "pages", "bytes")} == {
        "files": 2, "documents": 2, "quarantined": 1, "drifted": 0, "pages": 3, "bytes": size,
    }  # fmt: skip
    assert {line["file"] for line in report.tables["slowest"]} == set(FILES)
    for step in ("corpus_text", "train_json", "evaluation_dataset", "ground_truth"):
        run_step(workspace, "scratch", step)
    [note] = report.notes
    assert (note.partition(":")[0], note.rpartition(" ")[2]) == ("bad.pdf", "[pdf_damaged]")
    written = json.loads(scratch.documents_json.read_text())
    assert (written["schema_version"], written["extractor"].partition(" ")[0]) == ("1.0", "pypdfium2")
    documents = written["documents"]
    assert [list(document) == sorted(document) for document in documents] == [True] * 3
    characters = {document["file_name"]: document.pop("characters") for document in documents}
    assert documents == [dict(row) for row in read_rows(scratch.documents)]
    assert characters == {"one.pdf": len("gannets dive") + len("and rise"), "two.pdf": len("terns"), "bad.pdf": None}

    before = scratch.documents_json.read_bytes()
    convert(workspace, "scratch")

    assert scratch.documents_json.read_bytes() == before
    (scratch.corpus / "one.pdf").unlink()
    (scratch.corpus / "two.pdf").unlink()
    (scratch.corpus / "two.pdf").symlink_to(scratch.source / "docs" / "two.pdf")
    changed = run_step(workspace, "scratch", "train_json")

    [check] = [check for check in changed.record.checks if check.name == "every_gold_document_on_disk"]
    assert (check.passed, check.blocking, check.numbers["findings"]) == (False, True, ["one.pdf", "two.pdf"])
    with pytest.raises(InputError, match="step_failed"):
        run_step(workspace, "scratch", "evaluation_dataset")
    run_step(workspace, "scratch", "questions")
    run_step(workspace, "scratch", "corpus")
    assert not scratch.documents_json.exists()  # it was that of an earlier corpus


def row(name, **facts):
    known = {"key": name, "url": None, "final_url": None, "flags": (), "origin": "kept", "body_sha256": "b"}
    return CorpusDocument(**{**known, "file_name": name, "pdf_sha256": "p", "renderer": None, "pages": 1, **facts})


NOTES = {
    "the URL is in the reason": (row("a.pdf", origin="missing", url="http://h/a", error="http://h/a: HTTP 404", error_code="http_404"), "a.pdf: http://h/a: HTTP 404 [http_404]"),
    "a file has none":          (row("a.pdf", origin="missing", error="a: no such file", error_code="file_missing"), "a.pdf: a: no such file [file_missing]"),
    "a page that has changed":  (row("a.pdf", drift="changed", drift_reason="http://h/a has changed"), "a.pdf: http://h/a has changed [changed]"),
}  # fmt: skip


@pytest.mark.parametrize(("document", "note"), NOTES.values(), ids=NOTES)
def test_note_names_file_url_reason_and_code(document, note):
    assert document_notes([row("b.pdf"), document]) == (note,)


def test_line_says_what_was_made_under_which_names():
    rows = [row(name, origin="rendered", pages=3, seconds=1.26, flags=("js_off",)) for name in ("a.pdf", "a#b.pdf")]

    assert document_line(rows, set()) == "a.pdf, a#b.pdf: rendered, 3 pages, 1.3 s, js_off"
    assert document_line(rows, {("a.pdf", "p")}) == "a.pdf, a#b.pdf: unchanged, 3 pages, 1.3 s, js_off"


def test_documents_are_counted_once_and_files_with_each_name(tmp_path):
    for name in ("a.pdf", "a#b.pdf"):
        (tmp_path / name).write_bytes(b"12345")
    gone = {"origin": "missing", "pdf_sha256": None, "pages": 0}
    built = [
        row("a.pdf", key="a", pages=2, drift="changed"),
        row("a#b.pdf", key="a", pages=2, drift="changed"),
        row("x.pdf", key="x", **gone),
        row("x#y.pdf", key="x", **gone),
    ]

    counts = corpus_counts(built, {("a.pdf", "p")}, tmp_path)

    assert {name: count for name, count in counts.items() if count} == {
        "files": 2, "documents": 1, "quarantined": 1, "drifted": 1, "kept": 2, "new_or_changed": 1, "pages": 4, "bytes": 10,
    }  # fmt: skip


def test_slowest_come_first_each_document_once():
    seconds = {"a.pdf": 1.0, "b.pdf": 3.0, "b#c.pdf": 3.0, "d.pdf": 0.0, "e.pdf": 1.0}

    lines = slowest([row(name, key=name[0], seconds=time) for name, time in seconds.items()])

    assert [(line["file"], line["seconds"]) for line in lines] == [("b.pdf", 3.0), ("a.pdf", 1.0), ("e.pdf", 1.0)]


def colourful_pdf(number):
    """A page of small rectangles in random colours, which no compression makes much smaller."""
    draw = random.Random(number)
    cells = [(x, y) for x in range(0, 595, 9) for y in range(0, 842, 9)]
    colours = (" ".join(f"{draw.random():.2f}" for _ in range(3)) for _ in cells)
    drawing = "\n".join(f"{colour} rg {x} {y} 9 9 re f" for colour, (x, y) in zip(colours, cells, strict=True))
    return simple_pdf(f") Tj ET\n{drawing}\nBT /F 12 Tf (")


def test_picture_is_drawn_when_it_is_asked_for_and_is_small(tmp_path):
    assert first_pages([row("gone.pdf", origin="missing")], tmp_path) is None
    documents = [row(f"{n}.pdf") for n in range(12)]
    draw = first_pages([*documents, row("gone.pdf", origin="missing")], tmp_path)
    for number, document in enumerate(documents):
        atomic_write(tmp_path / document.file_name, colourful_pdf(number))

    picture = draw()

    assert picture.startswith(b"\x89PNG")
    assert len(picture) <= 150_000
