"""Rows for ragas have its keys and types; unknown values have no key."""

import json

from rag_eval_pipeline.exports import export
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage

# Fields of ragas.SingleTurnSample 0.4 that the rows use, and whether each is a list.
SAMPLE = {
    "user_input": False, "reference": False, "response": False, "reference_contexts": True,
    "reference_context_ids": True, "retrieved_contexts": True, "retrieved_context_ids": True,
}  # fmt: skip
PASSAGES = (RetrievedPassage("it's #1.pdf", 1, "second", 0.5, 2), RetrievedPassage("a b.pdf", 3, "first", 0.9, 1))


def rows_of(folder):
    return [json.loads(line) for line in (folder / "dataset.jsonl").read_text().split("\n") if line]


def test_ragas_rows_are_samples_with_our_id(workspace, tmp_path):
    export(workspace, "skarn-railway", "ragas", tmp_path / "out")

    rows = rows_of(tmp_path / "out")
    assert len(rows) == 40
    for row in rows:
        assert set(row) <= {"query_id", *SAMPLE}
        assert all(isinstance(row[name], list if is_list else str) for name, is_list in SAMPLE.items() if name in row)
    assert sum("reference" not in row for row in rows) == 8  # the impossible ones
    assert all(row["reference_contexts"] for row in rows if "reference" in row)


def test_ragas_answers_have_their_passages_in_rank_order(awkward, tmp_path, answer_by_hand):
    answer = RagAnswer("1", "ok", "x [a b.pdf:3:0-5]", False, PASSAGES, (), 1.0)
    evaluation = answer_by_hand(awkward, "awkward", [answer, RagAnswer("2", "ok", "none", True, (), (), 1.0)])
    report = export(awkward, "awkward", "ragas", tmp_path / "out", evaluation=evaluation)

    failed, given, empty, _ = rows_of(tmp_path / "out")
    assert given == {
        "query_id": "1",
        "user_input": "=cmd|' /C calc'!A0",
        "reference_context_ids": ['say "hi" 100%.pdf'],
        "reference": "@SUM",
        "reference_contexts": ['gold "text"'],
        "retrieved_contexts": ["first", "second"],
        "retrieved_context_ids": ["a b.pdf", "it's #1.pdf"],
        "response": "x",
    }
    assert set(failed) == {"query_id", "user_input", "reference_context_ids", "reference"}
    assert (empty["retrieved_contexts"], empty["response"]) == ([], "none")
    assert report.counts == {"questions": 4, "answers": 2}
    assert report.lost == {
        **{name: 1 for name in report.lost if name.startswith("dataset.")},
        "answer.status": 2, "answer.abstained": 1, "answer.contexts.score": 2,
    }  # fmt: skip


def test_ragas_document_with_two_names_has_one_id(awkward, tmp_path, answer_by_hand):
    found = (
        RetrievedPassage("caf%C3%A9.pdf#A.pdf", 1, "a", 1.0, 1),
        RetrievedPassage("caf%C3%A9.pdf#B.pdf", 1, "b", 0.5, 2),
    )
    evaluation = answer_by_hand(awkward, "awkward", [RagAnswer("3", "ok", "x", False, found, (), 1.0)])
    export(awkward, "awkward", "ragas", tmp_path / "out", evaluation=evaluation)

    row = rows_of(tmp_path / "out")[3]
    assert set(row["retrieved_context_ids"]) == set(row["reference_context_ids"])
    assert len(row["reference_context_ids"]) == 1
