"""TREC exports: what trec_eval makes of them is what our own scores say, and no id is split."""

import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.passes import evaluate
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scores_file import PAGE, read_scores
from rag_eval_pipeline.exporting.exports import export
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.source import ExportOptions
from rag_eval_pipeline.exporting.trec import read_trec
from rag_eval_pipeline.formats.trec import check_qrels, check_run, check_topics, read_qrels, read_run
from rag_eval_pipeline.metrics.retrieval import rank_by_score, score_run
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage

RAILWAY = "skarn-railway"


def passage(document, score, rank, page=1):
    return RetrievedPassage(document, page, "text", score, rank)


def answered(query_id, *passages):
    return RagAnswer(query_id, "ok", "x", False, passages, (), 1.0)


@pytest.mark.parametrize("level", ["document", "page"])
def test_the_run_scores_as_the_evaluation_did(level, workspace, tmp_path):
    evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
    options = ExportOptions(level=level)
    report = export(workspace, RAILWAY, "trec", tmp_path / "out", evaluation="embedded", options=options)

    qrels, run = read_qrels(tmp_path / "out" / "qrels.txt"), read_run(tmp_path / "out" / "run.txt")
    measures = ["hit@1", "ndcg@5", "mrr", "map@5"]
    theirs = score_run(qrels, {query: rank_by_score(scored) for query, scored in run.items()}, measures).scores
    prefix = PAGE if level == "page" else ""
    evaluation = load_evaluation(workspace, report.evaluation_id)
    ours = {
        row.query_id: {name: row.scores[prefix + name] for name in measures}
        for row in read_scores(evaluation.scores("retrieval_scores"))
        if prefix + measures[0] in row.scores
    }
    assert len(theirs) >= 30
    assert theirs == ours
    assert report.counts["retrieved"] == sum(map(len, run.values()))


def test_ids_with_white_space_are_encoded_and_listed(awkward, tmp_path, answer_by_hand):
    evaluation = answer_by_hand(awkward, "awkward", [answered("0", passage("it's #1.pdf", 2.5, 1))])
    export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert files["topics.tsv"] == (
        "0\tWhere? There =1\n1\t=cmd|' /C calc'!A0\n2\tNothing?\n3\tOne page, two names?\n"
    )  # fmt: skip
    # The two names of question 3 are one document, known by its first name in the corpus.
    first = files["qrels.txt"].splitlines()[3].split()[2]
    assert first in ("caf%C3%A9.pdf#A.pdf", "caf%C3%A9.pdf#B.pdf")
    assert files["qrels.txt"] == (f'0 0 a%20b.pdf 1\n0 0 a%2520b.pdf 1\n1 0 say%20"hi"%20100%.pdf 1\n3 0 {first} 1\n')
    assert files["run.txt"] == "0 Q0 it's%20#1.pdf 1 2.5 embedded\n"
    assert [json.loads(line) for line in files["names.jsonl"].split("\n") if line] == [
        {"document": "a b.pdf", "trec": "a%20b.pdf"},
        {"document": "a%20b.pdf", "trec": "a%2520b.pdf"},
        {"document": 'say "hi" 100%.pdf', "trec": 'say%20"hi"%20100%.pdf'},
        {"document": "it's #1.pdf", "trec": "it's%20#1.pdf"},
        {"query": "0", "text": "Where?\n\tThere\u2028=1"},
        {"query": "3", "relevant_documents": ["caf%C3%A9.pdf#B.pdf", "caf%C3%A9.pdf#A.pdf"]},
    ]
    assert check_topics(tmp_path / "out" / "topics.tsv") == []
    assert check_qrels(tmp_path / "out" / "qrels.txt") == []
    assert check_run(tmp_path / "out" / "run.txt") == []


SCORES = {
    #                                             scores               what stands in the run
    "falling, as they are":                       ([3.5, 2.0, -1.0],  [3.5, 2.0, -1.0]),
    "a tie, which trec_eval would turn":          ([3.5, 3.5, 1.0],   [3.0, 2.0, 1.0]),
    "rising: the system's order is its ranks":    ([0.1, 0.2, 0.3],   [3.0, 2.0, 1.0]),
    "a difference that 32 bits do not hold":      ([1 + 1e-9, 1, 0],  [3.0, 2.0, 1.0]),
    "scores that are not given":                  ([None, None, None], [3.0, 2.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), SCORES.values(), ids=SCORES)
def test_scores_stand_as_they_are_or_are_made_of_ranks(given, expected, awkward, tmp_path, answer_by_hand):
    names = ["it's #1.pdf", "a b.pdf", "a%20b.pdf"]
    passages = [passage(name, score, rank) for rank, (name, score) in enumerate(zip(names, given, strict=True), 1)]
    evaluation = answer_by_hand(awkward, "awkward", [answered("0", *passages[::-1])])
    report = export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    found = read_run(tmp_path / "out" / "run.txt")["0"]
    assert found == list(zip(["it's%20#1.pdf", "a%20b.pdf", "a%2520b.pdf"], expected, strict=True))
    assert rank_by_score(found) == [document for document, _ in found]
    replaced = given != expected
    assert report.lost.get("answer.contexts.score", 0) == (sum(s is not None for s in given) if replaced else 0)
    assert any("do not fall strictly" in note for note in report.notes) == replaced


def test_a_document_stands_once_at_its_best_passage(awkward, tmp_path, answer_by_hand):
    passages = (
        passage("a b.pdf", 9.0, 1), passage("it's #1.pdf", 8.0, 2), passage("a b.pdf", 7.0, 3),
        passage("caf%C3%A9.pdf#A.pdf", 6.0, 4), passage("caf%C3%A9.pdf#B.pdf", 5.0, 5),
    )  # fmt: skip
    evaluation = answer_by_hand(awkward, "awkward", [answered("3", *passages)])
    export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    [(relevant, _)] = read_qrels(tmp_path / "out" / "qrels.txt")["3"].items()
    run = read_run(tmp_path / "out" / "run.txt")["3"]
    assert run == [("a%20b.pdf", 9.0), ("it's%20#1.pdf", 8.0), (relevant, 6.0)]


def test_questions_that_failed_or_retrieved_nothing_have_no_line_and_are_counted(awkward, tmp_path, answer_by_hand):
    evaluation = answer_by_hand(awkward, "awkward", [answered("0", passage("a b.pdf", 1.0, 1)), answered("1")])
    report = export(awkward, "awkward", "trec", tmp_path / "out", evaluation=evaluation)

    assert list(read_run(tmp_path / "out" / "run.txt")) == ["0"]
    assert {n: c for n, c in report.lost.items() if n.startswith("answer.")} == {
        "answer.without_retrieval": 1, "answer.status": 2, "answer.text": 2,
    }  # fmt: skip
    assert "2 of 4 questions got no answer; theirs is absent, not empty" in report.notes


def test_at_page_level_the_datasets_own_documents_still_come_back(workspace, tmp_path):
    report = export(workspace, RAILWAY, "trec", tmp_path / "out", options=ExportOptions(level="page"))

    assert all("#page=" in name for judged in read_qrels(tmp_path / "out" / "qrels.txt").values() for name in judged)
    assert "relevant_documents" not in report.lost


def test_others_files_are_read_with_their_ids_as_they_are(tmp_path):
    (tmp_path / "topics.tsv").write_text("q1\tone\nq2\ttwo\n")
    (tmp_path / "qrels.txt").write_text("q1 0 a%20b 1\nq1 0 c 0\n")

    first, second = read_trec(tmp_path, Identity("theirs")).queries
    assert (first.query_text, first.relevant_documents, second.relevant_documents) == ("one", ("a%20b",), ())


def test_a_judgement_without_its_topic_is_refused(tmp_path):
    (tmp_path / "topics.tsv").write_text("q1\tone\n")
    (tmp_path / "qrels.txt").write_text("q2 0 a 1\n")

    with pytest.raises(InputError) as error:
        read_trec(tmp_path, Identity("theirs"))

    assert error.value.code == "unknown_query"
