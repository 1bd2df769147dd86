"""NVIDIA's evaluation root is what `evaluate_rag.py` reads, and its results show which questions failed."""

import hashlib
import json
import os

from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.score_tables import QueryScores, write_scores
from rag_eval_pipeline.exports import export
from rag_eval_pipeline.exports.nvidia import name_notes
from rag_eval_pipeline.exports.source import ExportOptions
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage, Usage
from tests.validation import validate

RAILWAY = "skarn-railway"
PASSAGES = (
    RetrievedPassage("it's #1.pdf", None, "second", 0.5, 2),
    RetrievedPassage("a b.pdf", 3, "first", 0.9, 1),
)


def results(folder):
    label = folder.name
    return {
        name: json.loads((folder / "results" / label / f"rag_{label}_evaluation_{name}.json").read_text())
        for name in ("data", "summary", "results", "metrics")
    }


def test_nvidia_root_holds_documents_and_questions_byte_for_byte(workspace, tmp_path):
    export(workspace, RAILWAY, "nvidia", tmp_path / "out")

    paths = workspace.benchmark(RAILWAY)
    manifest = {d.file_name: d.pdf_sha256 for d in read_manifest(paths.documents)}
    corpus = tmp_path / "out" / "corpus"
    assert {name: hashlib.sha256((corpus / name).read_bytes()).hexdigest() for name in os.listdir(corpus)} == manifest
    assert (tmp_path / "out" / "train.json").read_bytes() == paths.train_json.read_bytes()
    assert sorted(os.listdir(tmp_path / "out")) == ["corpus", "train.json"]
    assert validate(tmp_path / "out" / "train.json") == []


def test_nvidia_keeps_names_and_notes_those_that_the_upload_changes(awkward, tmp_path):
    report = export(awkward, "awkward", "nvidia", tmp_path / "out")

    assert sorted(os.listdir(tmp_path / "out" / "corpus")) == [
        "a b.pdf", "a%20b.pdf", "caf%C3%A9.pdf#A.pdf", "caf%C3%A9.pdf#B.pdf", "it's #1.pdf", 'say "hi" 100%.pdf',
    ]  # fmt: skip
    assert report.notes == (
        """'say "hi" 100%.pdf' is uploaded as 'say %22hi%22 100%.pdf': answers will use that name""",
        "1 of 4 questions have no answer in the corpus; evaluate_rag.py compares a refusal with the answer "
        '"" and scores it as wrong; --answerable-only leaves them out',
    )


def test_nvidia_notes_a_corpus_beyond_what_the_driver_lists():
    assert list(name_notes([f"{number}.pdf" for number in range(1000)])) == []
    [note] = name_notes([f"{number}.pdf" for number in range(1001)])
    assert note.startswith("evaluate_rag.py sees only 1000 of 1001")


def test_nvidia_rows_are_in_the_datasets_order_with_null_for_what_failed(awkward, tmp_path, answer_by_hand):
    given = [
        RagAnswer(
            "2", "ok", "No answer.", True, (), (), 1.0, Usage(total_tokens=12, prompt_tokens=6, completion_tokens=6)
        ),
        RagAnswer("1", "ok", 'It is "x".', False, PASSAGES, (), 1.0),
        RagAnswer("0", "ok", "x", False, (), (), 1.0, Usage(total_tokens=30, prompt_tokens=10, completion_tokens=20)),
    ]
    evaluation = answer_by_hand(awkward, "awkward", given)
    report = export(awkward, "awkward", "nvidia", tmp_path / "label 1", evaluation=evaluation)

    found = results(tmp_path / "label 1")
    keys = ["id", "question", "answer", "generated_answer", "contexts", "generated_contexts", "retrieved_docs", "usage"]
    assert [list(row) for row in found["data"]] == [keys] * 4
    assert [row["id"] for row in found["data"]] == [0, 1, 2, 3]
    assert [row["generated_answer"] for row in found["data"]] == ["x", 'It is "x".', "No answer.", None]
    assert found["data"][1] == {
        "id": 1, "question": "=cmd|' /C calc'!A0", "answer": "@SUM", "generated_answer": 'It is "x".',
        "contexts": ['gold "text"'], "generated_contexts": ["first", "second"],
        "retrieved_docs": ["a b.pdf_3", "it's #1.pdf"], "usage": None,
    }  # fmt: skip
    assert report.counts["answers"] == 3
    assert report.lost["answer.status"] == 1
    assert "1 of 4 questions got no answer; their answers are absent, not empty" in report.notes

    metrics = ("nv_accuracy", "nv_context_relevance", "nv_response_groundedness")
    usage = found["summary"].pop("token_usage")
    assert usage == {
        "total_tokens": 42, "prompt_tokens": 16, "completion_tokens": 26, "sample_count": 2,
        "mean_prompt_tokens": 8.0, "mean_completion_tokens": 13.0,
    }  # fmt: skip
    assert found["summary"] == {f"{metric}_mean": None for metric in metrics}  # no judge
    per_sample = [
        {"total_tokens": 30, "prompt_tokens": 10, "completion_tokens": 20}, None,
        {"total_tokens": 12, "prompt_tokens": 6, "completion_tokens": 6}, None,
    ]  # fmt: skip
    assert found["results"] == {
        **{metric: [None] * 4 for metric in metrics}, "token_usage": usage, "token_usage_per_sample": per_sample,
    }  # fmt: skip
    assert found["metrics"] == {
        "ingestion_metrics_list": [], "evaluation_metrics": dict.fromkeys(metrics), "token_usage": usage,
    }  # fmt: skip


def test_nvidia_without_impossible_questions(awkward, tmp_path, answer_by_hand):
    given = [RagAnswer(number, "ok", "x", number == "2", (), (), 1.0) for number in ("0", "1", "2")]
    evaluation = answer_by_hand(awkward, "awkward", given)
    options = ExportOptions(answerable_only=True)
    report = export(awkward, "awkward", "nvidia", tmp_path / "out", evaluation=evaluation, options=options)

    assert [row["id"] for row in json.loads((tmp_path / "out" / "train.json").read_text())] == [0, 1, 3]
    assert [row["id"] for row in results(tmp_path / "out")["data"]] == [0, 1, 3]
    assert (report.counts["questions"], report.counts["answers"], "queries" in report.lost) == (3, 2, False)
    assert not [note for note in report.notes if "--answerable-only" in note]
    assert "1 of 3 questions got no answer; their answers are absent, not empty" in report.notes


def test_nvidia_means_skip_failed_questions(awkward, tmp_path, answer_by_hand):
    evaluation = load_evaluation(awkward, answer_by_hand(awkward, "awkward", []))
    rows = [
        QueryScores("0", "failed", "error"),
        QueryScores("1", "scored", None, {"nv_accuracy": 0.5}),
        QueryScores("2", "scored", None, {"nv_accuracy": 1.0}),
        QueryScores("3", "failed", "error"),
    ]
    evaluation_id = evaluation.record.evaluation_id
    write_scores(evaluation.scores("answer_scores"), rows, ["nv_accuracy"], evaluation_id=evaluation_id)
    export(awkward, "awkward", "nvidia", tmp_path / "out", evaluation=evaluation_id)

    found = results(tmp_path / "out")
    assert found["results"]["nv_accuracy"] == [None, 0.5, 1.0, None]
    assert found["summary"]["nv_accuracy_mean"] == 0.75  # (0.5 + 1.0) / 2: a failure is no zero
    assert found["metrics"]["evaluation_metrics"]["nv_accuracy"] == 0.75
    usage = found["metrics"]["token_usage"]  # no answer reports any
    assert (usage["total_tokens"], usage["sample_count"], usage["mean_prompt_tokens"]) == (0, 0, None)
