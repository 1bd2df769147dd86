"""Evret, BEIR and TREC: ids and texts are exact, each document occurs once, and trec_eval scores a run as we do."""

import csv
import json

import pytest

from rag_eval_pipeline.corpus.text.pages import document_text, pages_by_document, read_pages
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.score_tables import PAGE, read_scores
from rag_eval_pipeline.exports import ExportOptions, export
from rag_eval_pipeline.formats.beir import read_beir
from rag_eval_pipeline.formats.dataset import read_evret_dataset
from rag_eval_pipeline.formats.trec import read_qrels, read_run
from rag_eval_pipeline.metrics.retrieval.engine import score_rankings
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage
from tests.conftest import ranked

RAILWAY = "skarn-railway"
BOTH = {"caf%C3%A9.pdf#A.pdf", "caf%C3%A9.pdf#B.pdf"}  # two names of one document


def pages_of(workspace):
    return pages_by_document(read_pages(workspace.benchmark(RAILWAY).pages))


def passage(document, score, rank, page=1):
    return RetrievedPassage(document, page, "text", score, rank)


def answered(query_id, *passages):
    return RagAnswer(query_id, "ok", "x", False, passages, (), 1.0)


@pytest.mark.fault(41)
def test_evret_changes_no_cell_and_both_files_agree(awkward, tmp_path):
    export(awkward, "awkward", "evret", tmp_path / "out")

    queries = json.loads((tmp_path / "out" / "awkward.json").read_text())["queries"]
    with open(tmp_path / "out" / "awkward.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # Evret 0.0.3 reads only the second of these columns, earlier releases only the first.
    assert all(row["relevant_doc_ids"] == row["expected_doc_ids"] for row in rows)
    assert json.loads(rows[1]["expected_doc_ids"]) == ['say "hi" 100%.pdf']
    assert rows[1]["query_text"] == "=cmd|' /C calc'!A0"  # a formula for a spreadsheet, the question for Evret
    assert queries[1]["relevant_doc_ids"] == ['say "hi" 100%.pdf']
    table = read_evret_dataset(tmp_path / "out" / "awkward.csv").dataset
    assert [(q.query_id, q.query_text, list(q.relevant_documents)) for q in table.queries] == [
        (query["query_id"], query["query_text"], query.get("relevant_doc_ids", [])) for query in queries
    ]


def test_evret_holds_documents_when_requested(workspace, tmp_path):
    plain = export(workspace, RAILWAY, "evret", tmp_path / "plain")
    report = export(workspace, RAILWAY, "evret", tmp_path / "out", options=ExportOptions(documents=True))

    texts = {name: document_text(pages) for name, pages in pages_of(workspace).items()}
    documents = json.loads((tmp_path / "out" / f"{RAILWAY}.json").read_text())["documents"]
    assert {document["doc_id"]: document["text"] for document in documents} == texts
    assert report.counts == plain.counts | {"documents": len(texts)}
    assert not json.loads((tmp_path / "plain" / f"{RAILWAY}.json").read_text()).get("documents")


def test_beir_documents_are_the_texts_that_citations_are_offsets_into(workspace, tmp_path):
    export(workspace, RAILWAY, "beir", tmp_path / "out")

    beir = read_beir(tmp_path / "out")
    texts = {name: document_text(pages) for name, pages in pages_of(workspace).items()}
    assert {name: document.text for name, document in beir.corpus.items()} == texts
    cited = [citation for query in beir.queries.values() for citation in query.metadata.get("citations", [])]
    assert cited
    assert all(len(texts[citation["file_name"]]) >= citation["end_char"] for citation in cited)
    assert all(name in beir.corpus for judged in beir.qrels.values() for name in judged)


def test_beir_files_are_read_by_the_json_and_csv_of_beirs_loader(awkward, tmp_path):
    export(awkward, "awkward", "beir", tmp_path / "out")

    # As GenericDataLoader 2.2 reads them: text mode, lines of the file, and tabs quoted as by csv.
    with open(tmp_path / "out" / "corpus.jsonl", encoding="utf8") as file:
        corpus = {record["_id"]: record["title"] + record["text"] for record in map(json.loads, file)}
    with open(tmp_path / "out" / "queries.jsonl", encoding="utf8") as file:
        queries = {record["_id"]: record["text"] for record in map(json.loads, file)}
    with open(tmp_path / "out" / "qrels" / "test.tsv", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter="\t")
    qrels = [(query, document, int(grade)) for query, document, grade in rows]

    assert header == ["query-id", "corpus-id", "score"]
    assert queries == {
        "0": "Where?\n\tThere\u2028=1",
        "1": "=cmd|' /C calc'!A0",
        "2": "Nothing?",
        "3": "One page, two names?",
    }
    assert {query for query, _, _ in qrels} == {"0", "1", "3"}
    assert {document for _, document, _ in qrels} <= corpus.keys()


def test_beir_pages_are_documents_at_page_level(workspace, tmp_path):
    report = export(workspace, RAILWAY, "beir", tmp_path / "out", options=ExportOptions(level="page"))

    beir = read_beir(tmp_path / "out")
    pages = {f"{name}#page={page.page}": page.text for name, own in pages_of(workspace).items() for page in own}
    assert {name: document.text for name, document in beir.corpus.items()} == pages
    for query_id, judged in beir.qrels.items():
        citations = beir.queries[query_id].metadata["citations"]
        assert set(judged) == {f"{c['file_name']}#page={c['page_number']}" for c in citations}
    assert "relevant_documents" not in report.lost


def test_beir_document_with_two_names_occurs_once(awkward, tmp_path):
    report = export(awkward, "awkward", "beir", tmp_path / "out")

    beir = read_beir(tmp_path / "out")
    [name] = BOTH & beir.corpus.keys()
    assert beir.qrels["3"] == {name: 1}
    assert report.counts == {"questions": 4, "documents": 5, "judgements": 4}
    assert report.notes == ("1 of 4 questions have no relevant document; BEIR's own loader skips them",)


@pytest.mark.parametrize("level", ["document", "page"])
def test_trec_run_scores_as_the_evaluation_did(level, workspace, tmp_path):
    evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
    options = ExportOptions(level=level)
    report = export(workspace, RAILWAY, "trec", tmp_path / "out", evaluation="embedded", options=options)

    qrels, run = read_qrels(tmp_path / "out" / "qrels.txt"), read_run(tmp_path / "out" / "run.txt")
    metrics = ["hit@1", "ndcg@5", "mrr", "map@5"]
    judged = [query for query in qrels if query in run]
    scores = score_rankings([(ranked(dict(run[query])), qrels[query]) for query in judged], metrics)
    theirs = {query: row for query, row in zip(judged, scores, strict=True) if row is not None}
    prefix = PAGE if level == "page" else ""
    evaluation = load_evaluation(workspace, report.evaluation_id)
    ours = {
        row.query_id: {name: row.scores[prefix + name] for name in metrics}
        for row in read_scores(evaluation.scores("retrieval_scores"))
        if prefix + metrics[0] in row.scores
    }
    assert len(theirs) >= 30
    assert theirs == ours
    assert report.counts["retrieved"] == sum(map(len, run.values()))
    assert "relevant_documents" not in report.lost


def test_trec_encodes_ids_with_white_space_and_lists_them(awkward, tmp_path, answer_by_hand):
    evaluation = answer_by_hand(awkward, "awkward", [answered("0", passage("it's #1.pdf", 2.5, 1))])
    export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert files["topics.tsv"] == (
        "0\tWhere? There =1\n1\t=cmd|' /C calc'!A0\n2\tNothing?\n3\tOne page, two names?\n"
    )  # fmt: skip
    first = files["qrels.txt"].splitlines()[3].split()[2]
    assert first in BOTH
    assert files["qrels.txt"] == f'0 0 a%20b.pdf 2\n0 0 a%2520b.pdf 1\n1 0 say%20"hi"%20100%.pdf 1\n3 0 {first} 1\n'
    assert files["run.txt"] == "0 Q0 it's%20#1.pdf 1 2.5 embedded\n"
    assert [json.loads(line) for line in files["names.jsonl"].split("\n") if line] == [
        {"document": "a b.pdf", "trec": "a%20b.pdf"},
        {"document": "a%20b.pdf", "trec": "a%2520b.pdf"},
        {"document": 'say "hi" 100%.pdf', "trec": 'say%20"hi"%20100%.pdf'},
        {"document": "it's #1.pdf", "trec": "it's%20#1.pdf"},
        {"query": "0", "text": "Where?\n\tThere\u2028=1"},
        {"query": "3", "relevant_documents": ["caf%C3%A9.pdf#B.pdf", "caf%C3%A9.pdf#A.pdf"]},
    ]


SCORES = {
    #                        scores               in the run
    "decreasing":           ([3.5, 2.0, -1.0],   [3.5, 2.0, -1.0]),
    "tied":                 ([3.5, 3.5, 1.0],    [3.0, 2.0, 1.0]),
    "equal in 32 bits":     ([1 + 1e-9, 1, 0],   [3.0, 2.0, 1.0]),
    "none":                 ([None, None, None], [3.0, 2.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), SCORES.values(), ids=SCORES)
def test_trec_run_keeps_the_systems_order(given, expected, awkward, tmp_path, answer_by_hand):
    names = ["it's #1.pdf", "a b.pdf", "a%20b.pdf"]
    passages = [passage(name, score, rank) for rank, (name, score) in enumerate(zip(names, given, strict=True), 1)]
    evaluation = answer_by_hand(awkward, "awkward", [answered("0", *passages[::-1])])
    report = export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    found = read_run(tmp_path / "out" / "run.txt")["0"]
    assert found == list(zip(["it's%20#1.pdf", "a%20b.pdf", "a%2520b.pdf"], expected, strict=True))
    is_replaced = given != expected
    assert report.lost.get("answer.contexts.score", 0) == (sum(s is not None for s in given) if is_replaced else 0)
    assert any("not strictly decreasing" in note for note in report.notes) == is_replaced


def test_trec_document_occurs_once_and_questions_without_a_line_are_counted(awkward, tmp_path, answer_by_hand):
    passages = (
        passage("a b.pdf", 9.0, 1), passage("it's #1.pdf", 8.0, 2), passage("a b.pdf", 7.0, 3),
        passage("caf%C3%A9.pdf#A.pdf", 6.0, 4), passage("caf%C3%A9.pdf#B.pdf", 5.0, 5),
    )  # fmt: skip
    evaluation = answer_by_hand(awkward, "awkward", [answered("3", *passages), answered("1")])
    report = export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    [(relevant, _)] = read_qrels(tmp_path / "out" / "qrels.txt")["3"].items()
    run = read_run(tmp_path / "out" / "run.txt")
    assert run == {"3": [("a%20b.pdf", 9.0), ("it's%20#1.pdf", 8.0), (relevant, 6.0)]}
    assert {n: c for n, c in report.lost.items() if n.startswith("answer.")} == {
        "answer.without_retrieval": 1, "answer.status": 2, "answer.text": 2,
    }  # fmt: skip
    assert "2 of 4 questions got no answer; their answers are absent, not empty" in report.notes
