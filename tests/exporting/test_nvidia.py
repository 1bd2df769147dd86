"""NVIDIA's evaluation root is what `evaluate_rag.py` takes, and its results are honest about what failed."""

import dataclasses
import hashlib
import json
import os

import pytest

from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scores_file import QueryScores, write_scores
from rag_eval_pipeline.exporting import nvidia
from rag_eval_pipeline.exporting.exports import export
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.nvidia import read_nvidia
from rag_eval_pipeline.exporting.source import ExportOptions, load_source
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage, Usage

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


def test_the_root_holds_every_document_byte_for_byte_and_the_questions_as_converted(workspace, tmp_path):
    export(workspace, RAILWAY, "nvidia", tmp_path / "out")

    paths = workspace.benchmark(RAILWAY)
    manifest = {d.file_name: d.pdf_sha256 for d in read_manifest(paths.documents)}
    corpus = tmp_path / "out" / "corpus"
    assert {name: hashlib.sha256((corpus / name).read_bytes()).hexdigest() for name in os.listdir(corpus)} == manifest
    assert (tmp_path / "out" / "train.json").read_bytes() == paths.train_json.read_bytes()
    assert sorted(os.listdir(tmp_path / "out")) == ["corpus", "train.json"]
    assert validate(tmp_path / "out" / "train.json") == []


def test_names_are_raw_and_those_that_the_upload_changes_are_told(awkward, tmp_path):
    report = export(awkward, "awkward", "nvidia", tmp_path / "out")

    assert sorted(os.listdir(tmp_path / "out" / "corpus")) == [
        "a b.pdf", "a%20b.pdf", "caf%C3%A9.pdf#A.pdf", "caf%C3%A9.pdf#B.pdf", "it's #1.pdf", 'say "hi" 100%.pdf',
    ]  # fmt: skip
    assert report.notes == ("""'say "hi" 100%.pdf' is uploaded as 'say %22hi%22 100%.pdf': answers will name it so""",)


NOTES = {
    #                               name                said
    "a PDF":                       ("a.pdf",            None),
    "a PDF in capitals":           ("A.PDF",            None),
    "dots alone before it":        ("..pdf",            "no extension"),
    "an initial":                  ("Smith_v._Jones",   "no extension"),
    "no extension":                ("Report_2023",      "no extension"),
    "a page":                      ("a.html",           "is no PDF"),
    "a line break":                ("a\nb.pdf",         "uploaded as 'a%0Ab.pdf'"),
    "signs that pass unchanged":   ("a%20b#c'd;é.pdf",  None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "said"), NOTES.values(), ids=NOTES)
def test_what_the_ingestor_makes_of_a_name_is_told(name, said):
    notes = list(nvidia._notes([name]))

    assert (notes == []) if said is None else (len(notes) == 1 and said in notes[0])


def test_a_corpus_beyond_what_the_driver_lists_is_told():
    assert list(nvidia._notes([f"{number}.pdf" for number in range(1000)])) == []
    [note] = nvidia._notes([f"{number}.pdf" for number in range(1001)])
    assert note.startswith("1001 documents: evaluate_rag.py sees 1000")


def test_rows_stand_in_the_datasets_order_and_a_failed_one_is_null_and_not_empty(awkward, tmp_path, answer_by_hand):
    answer = RagAnswer("1", "ok", 'It is "x".', False, PASSAGES, (), 1.0)
    abstained = RagAnswer("2", "ok", "No answer.", True, (), (), 1.0)
    evaluation = answer_by_hand(awkward, "awkward", [abstained, answer])
    report = export(awkward, "awkward", "nvidia", tmp_path / "label 1", evaluation=evaluation)

    found = results(tmp_path / "label 1")
    keys = ["id", "question", "answer", "generated_answer", "contexts", "generated_contexts", "retrieved_docs", "usage"]
    assert [list(row) for row in found["data"]] == [keys] * 4
    assert [row["id"] for row in found["data"]] == [0, 1, 2, 3]
    assert [row["generated_answer"] for row in found["data"]] == [None, 'It is "x".', "No answer.", None]
    assert found["data"][1] == {
        "id": 1,
        "question": "=cmd|' /C calc'!A0",
        "answer": "@SUM",
        "generated_answer": 'It is "x".',
        "contexts": ['gold "text"'],
        "generated_contexts": ["first", "second"],
        "retrieved_docs": ["a b.pdf_3", "it's #1.pdf"],
        "usage": None,
    }
    assert report.counts["answers"] == 2
    assert report.lost["answer.status"] == 2
    assert "2 of 4 questions got no answer; theirs is absent, not empty" in report.notes


def test_what_no_judge_has_scored_is_null(awkward, tmp_path, answer_by_hand):
    evaluation = answer_by_hand(awkward, "awkward", [RagAnswer("1", "ok", "x", False, (), (), 1.0)])
    export(awkward, "awkward", "nvidia", tmp_path / "out", evaluation=evaluation)

    found = results(tmp_path / "out")
    measures = ("nv_accuracy", "nv_context_relevance", "nv_response_groundedness")
    assert found["summary"] == {f"{measure}_mean": None for measure in measures}
    assert found["results"] == {measure: [None] * 4 for measure in measures}
    assert found["metrics"] == {
        "ingestion_metrics_list": [],
        "evaluation_metrics": dict.fromkeys(measures),
        "token_usage": {
            "total_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0, "sample_count": 0,
            "mean_prompt_tokens": None, "mean_completion_tokens": None,
        },
    }  # fmt: skip


def test_a_judges_scores_and_their_mean_stand_where_there_are_any(awkward, tmp_path, answer_by_hand):
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


def test_tokens_are_summed_over_the_answers_that_state_them(awkward, tmp_path, answer_by_hand):
    given = [
        RagAnswer("0", "ok", "x", False, (), (), 1.0, Usage(total_tokens=30)),
        RagAnswer("1", "ok", "x", False, (), (), 1.0),
        RagAnswer("2", "ok", "x", False, (), (), 1.0, Usage(total_tokens=12)),
    ]
    export(
        awkward, "awkward", "nvidia", tmp_path / "out", evaluation=answer_by_hand(awkward, "awkward", given)
    )  # fmt: skip

    found = results(tmp_path / "out")
    usage = found["summary"]["token_usage"]
    assert (usage["total_tokens"], usage["sample_count"]) == (42, 2)
    assert found["metrics"]["token_usage"] == found["results"]["token_usage"] == usage
    per_sample = [row and row["total_tokens"] for row in found["results"]["token_usage_per_sample"]]
    assert per_sample == [30, None, 12, None]


def test_a_context_without_its_document_is_refused(awkward, tmp_path):
    source = load_source(awkward, "awkward", evaluation=None, options=ExportOptions(), label="out")
    short = dataclasses.replace(source, documents=source.documents[1:])
    gone = source.documents[0].file_name

    with pytest.raises(InputError) as error:
        nvidia.write_nvidia(short, tmp_path)

    assert error.value.code == "unknown_document"
    assert repr(gone) in str(error.value)


def test_reading_a_root_refuses_a_context_without_its_file(awkward, tmp_path):
    export(awkward, "awkward", "nvidia", tmp_path / "out")
    (tmp_path / "out" / "corpus" / "a b.pdf").unlink()

    with pytest.raises(InputError) as error:
        read_nvidia(tmp_path / "out", Identity("back"))

    assert (error.value.code, error.value.row) == ("unknown_document", 1)
