"""Evret exports keep every id and text exactly, in JSON and in CSV, and hold documents when asked for."""

import csv
import json

from rag_eval_pipeline.corpus.text.pages import document_text, pages_by_document, read_pages
from rag_eval_pipeline.exporting.exports import export
from rag_eval_pipeline.exporting.source import ExportOptions
from rag_eval_pipeline.formats.evret import read_evret_csv

RAILWAY = "skarn-railway"


def test_both_files_hold_the_questions_and_no_cell_is_altered(awkward, tmp_path):
    export(awkward, "awkward", "evret", tmp_path / "out")

    queries = json.loads((tmp_path / "out" / "awkward.json").read_text())["queries"]
    with open(tmp_path / "out" / "awkward.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [query["query_text"] for query in queries] == [row["query_text"] for row in rows]
    assert rows[1]["query_text"] == "=cmd|' /C calc'!A0"  # for a spreadsheet it is a formula; for Evret, the question
    assert [query.get("relevant_doc_ids", []) for query in queries][:2] == [
        ["a b.pdf", "a%20b.pdf"], ['say "hi" 100%.pdf'],
    ]  # fmt: skip


def test_the_table_reads_as_the_json_does(awkward, tmp_path):
    export(awkward, "awkward", "evret", tmp_path / "out")

    rows = json.loads((tmp_path / "out" / "awkward.json").read_text())["queries"]
    table = read_evret_csv(tmp_path / "out" / "awkward.csv").dataset
    assert [(q.query_id, q.query_text, list(q.relevant_documents)) for q in table.queries] == [
        (row["query_id"], row["query_text"], row.get("relevant_doc_ids", [])) for row in rows
    ]


def test_documents_are_the_corpus_when_they_are_asked_for(workspace, tmp_path):
    plain = export(workspace, RAILWAY, "evret", tmp_path / "plain")
    report = export(workspace, RAILWAY, "evret", tmp_path / "out", options=ExportOptions(documents=True))

    pages = pages_by_document(read_pages(workspace.benchmark(RAILWAY).pages))
    documents = json.loads((tmp_path / "out" / f"{RAILWAY}.json").read_text())["documents"]
    assert {document["doc_id"]: document["text"] for document in documents} == {
        name: document_text(own) for name, own in pages.items()
    }
    assert report.counts == plain.counts | {"documents": len(pages)}
    assert not json.loads((tmp_path / "plain" / f"{RAILWAY}.json").read_text()).get("documents")
