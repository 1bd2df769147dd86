"""Samples and the eval log have the fields that Inspect 0.3.285 reads, and no empty target that any answer contains."""

import json

from rag_eval_pipeline.exports import export
from rag_eval_pipeline.exports.inspect_ai import UNANSWERABLE
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage, Usage

PASSAGES = (RetrievedPassage("it's #1.pdf", 1, "second", 0.5, 2), RetrievedPassage("a b.pdf", 3, "first", 0.9, 1))


def samples_of(folder):
    return [json.loads(line) for line in (folder / "dataset.jsonl").read_text().split("\n") if line]


def test_inspect_samples_have_every_accepted_answer_as_target(awkward, tmp_path):
    report = export(awkward, "awkward", "inspect", tmp_path / "out")

    samples = samples_of(tmp_path / "out")
    assert [sample["id"] for sample in samples] == ["0", "1", "2", "3"]
    assert [sample["target"] for sample in samples] == [["here, there"], ["@SUM", "-1", "+1"], UNANSWERABLE, ["one"]]
    assert samples[1].keys() == {"id", "input", "target", "metadata"}
    assert samples[1]["metadata"]["relevant_documents"] == ['say "hi" 100%.pdf']
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dataset.jsonl"]
    [note] = report.notes
    assert note.startswith("1 of 4 questions are unanswerable: their target is 'The documents do not answer")


def test_inspect_log_has_answers_and_errors(awkward, tmp_path, answer_by_hand):
    usage = Usage(total_tokens=7, prompt_tokens=5, completion_tokens=2)
    answer = RagAnswer("1", "ok", "It is @SUM [a b.pdf:3:0-5].", False, PASSAGES, (), 1500.0, usage)
    evaluation = answer_by_hand(awkward, "awkward", [answer, RagAnswer("2", "ok", "none", True, (), (), 1.0)])
    report = export(awkward, "awkward", "inspect", tmp_path / "out", evaluation=evaluation)

    log = json.loads((tmp_path / "out" / "answers.json").read_text())
    failed, given, refused, _ = log["samples"]
    assert (log["version"], log["status"], log["eval"]["model"]) == (2, "success", "none/embedded")
    assert (log["eval"]["created"], log["eval"]["dataset"]["samples"]) == ("2026-11-21T02:00:00+00:00", 4)
    assert given["target"] == ["@SUM", "-1", "+1"]
    assert given["output"] == {
        "model": "embedded",
        "choices": [{"message": {"role": "assistant", "content": "It is @SUM."}, "stop_reason": "stop"}],
        "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
    }
    assert [message["role"] for message in given["messages"]] == ["user", "assistant"]
    assert given["total_time"] == 1.5
    assert given["metadata"]["rag_eval"]["answer"] == "It is @SUM [a b.pdf:3:0-5]."
    assert [passage["text"] for passage in given["metadata"]["rag_eval"]["contexts"]] == ["first", "second"]
    assert refused["metadata"]["rag_eval"]["abstained"] is True
    assert failed["error"] == {"message": "connection refused", "traceback": "", "traceback_ansi": ""}
    assert failed["output"]["choices"] == []
    assert report.counts == {"questions": 4, "answers": 2}
    assert not [name for name in report.lost if name.startswith("answer.")]
