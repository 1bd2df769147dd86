"""BEIR exports hold the text of the corpus, each document once, and judge documents or pages."""

from rag_eval_pipeline.corpus.text.pages import document_text, pages_by_document, read_pages
from rag_eval_pipeline.exporting.exports import export
from rag_eval_pipeline.exporting.source import ExportOptions
from rag_eval_pipeline.formats.beir import read_beir

RAILWAY = "skarn-railway"


def pages_of(workspace):
    return pages_by_document(read_pages(workspace.benchmark(RAILWAY).pages))


def test_a_document_is_the_text_that_citations_are_offsets_into(workspace, tmp_path):
    export(workspace, RAILWAY, "beir", tmp_path / "out")

    beir = read_beir(tmp_path / "out")
    expected = {name: document_text(pages) for name, pages in pages_of(workspace).items()}
    assert {name: document.text for name, document in beir.corpus.items()} == expected
    cited = [citation for query in beir.queries.values() for citation in query.metadata.get("citations", [])]
    assert cited
    for citation in cited:
        assert len(beir.corpus[citation["file_name"]].text) >= citation["end_char"]
    assert all(name in beir.corpus for judged in beir.qrels.values() for name in judged)


def test_at_page_level_pages_are_documents_and_those_with_gold_texts_are_relevant(workspace, tmp_path):
    report = export(workspace, RAILWAY, "beir", tmp_path / "out", options=ExportOptions(level="page"))

    beir = read_beir(tmp_path / "out")
    expected = {f"{name}#page={page.page}": page.text for name, pages in pages_of(workspace).items() for page in pages}
    assert {name: document.text for name, document in beir.corpus.items()} == expected
    for query_id, judged in beir.qrels.items():
        citations = beir.queries[query_id].metadata["citations"]
        assert set(judged) == {f"{c['file_name']}#page={c['page_number']}" for c in citations}
    assert "relevant_documents" not in report.lost


def test_a_document_with_two_names_stands_once_and_is_judged_by_that_name(awkward, tmp_path):
    report = export(awkward, "awkward", "beir", tmp_path / "out")

    beir = read_beir(tmp_path / "out")
    both = {"caf%C3%A9.pdf#A.pdf", "caf%C3%A9.pdf#B.pdf"}
    assert len(both & beir.corpus.keys()) == 1
    assert beir.qrels["3"] == {name: 1 for name in both & beir.corpus.keys()}
    assert report.counts == {"questions": 4, "documents": 5, "judgements": 4}
    assert report.notes == ("1 of 4 questions have no relevant document: BEIR's own loader leaves them out",)
