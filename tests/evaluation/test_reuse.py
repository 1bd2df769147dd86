"""What is not done again: answers of a deterministic system, and evaluations of what has not changed."""

import dataclasses
import hashlib
import json
from datetime import UTC, datetime

import pytest
import yaml

from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.registry import is_evaluated, read_registry
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.storage import read_responses
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.systems.config import KINDS

OBSERVATORY = "cairnmoor-observatory"  # 16 questions
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


def pair_of(workspace):
    return load_pair(workspace, OBSERVATORY, "embedded")


def change_yaml(path, **changes):
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def change_system(workspace, **changes):
    change_yaml(workspace.system_file("embedded"), **changes)


def change_defaults(workspace, **changes):
    change_yaml(workspace.defaults_config, **changes)


def stamp_with(workspace, **changes):
    path = workspace.benchmark(OBSERVATORY).stamp
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_dataset(workspace):
    """Writes the dataset otherwise, as another conversion might."""
    pair = pair_of(workspace)
    path = workspace.eval_json(pair.dataset.dataset_id, pair.dataset.version)
    path.write_text(path.read_text() + "\n")
    stamp_with(workspace, dataset_fingerprint=hashlib.sha256(path.read_bytes()).hexdigest())


def rewrite_journal(evaluation, records):
    """Leaves the evaluation unfinished, with these answers."""
    evaluation.journal.unlink()
    with JournalWriter(evaluation.journal) as journal:
        journal.extend(records)
    evaluation.save(state="open")


def test_failed_answers_are_asked_anew_and_the_others_are_taken_over(workspace):
    evaluation = load_evaluation(workspace, ask(workspace, pair_of(workspace), now=NIGHT).evaluation_id)
    refused = {
        name: RagAnswer(name, "error", None, False, (), (), 5.0, error="connection refused") for name in ("0", "7")
    }
    rewrite_journal(evaluation, [refused.get(r["query_id"], r) for r in read_journal(evaluation.journal)])
    first, published = evaluate(workspace, pair_of(workspace))
    assert (first.report.failed, published.evaluation_id) == (2, evaluation.record.evaluation_id)

    report = ask(workspace, pair_of(workspace), now=NIGHT)

    assert report.evaluation_id != first.evaluation_id
    assert (report.asked, report.reused, report.failed) == (2, 14, 0)
    answers = read_responses(load_evaluation(workspace, report.evaluation_id).responses)
    assert {answer.query_id for answer in answers if answer.reused_from is None} == {"0", "7"}
    assert {answer.reused_from for answer in answers} == {None, first.evaluation_id}


OTHER_FINGERPRINTS = {
    "another system": lambda workspace: change_system(workspace, version="2"),
    "other answers may come": lambda workspace: change_system(workspace, settings={"k": 3}),
}


@pytest.mark.parametrize("change", OTHER_FINGERPRINTS.values(), ids=OTHER_FINGERPRINTS)
def test_an_unfinished_evaluation_under_other_fingerprints_gives_nothing(change, workspace):
    evaluation = load_evaluation(workspace, ask(workspace, pair_of(workspace), now=NIGHT).evaluation_id)
    rewrite_journal(evaluation, list(read_journal(evaluation.journal))[:10])
    change(workspace)

    report = ask(workspace, pair_of(workspace), now=NIGHT)

    assert report.evaluation_id != evaluation.record.evaluation_id
    assert (report.asked, report.reused, report.resumed) == (16, 0, 0)


OTHER_ANSWERS = {
    "another system": lambda w: change_system(w, version="2"),
    "another corpus": lambda w: stamp_with(w, corpus_fingerprint="0" * 64),
    "another dataset": change_dataset,
}


@pytest.mark.parametrize("change", OTHER_ANSWERS.values(), ids=OTHER_ANSWERS)
def test_answers_of_a_finished_evaluation_are_not_taken_over_when_others_may_come(change, workspace):
    evaluate(workspace, pair_of(workspace))
    change(workspace)

    report = ask(workspace, pair_of(workspace), now=NIGHT)

    assert (report.asked, report.reused) == (16, 0)


def test_answers_taken_over_again_name_the_evaluation_that_measured_them(workspace):
    first, second, third = (evaluate(workspace, pair_of(workspace))[0].report for _ in range(3))

    sources = {
        report.evaluation_id: {
            answer.reused_from for answer in read_responses(load_evaluation(workspace, report.evaluation_id).responses)
        }
        for report in (first, second, third)
    }

    assert sources == {
        first.evaluation_id: {None},
        second.evaluation_id: {first.evaluation_id},
        third.evaluation_id: {first.evaluation_id},
    }


@pytest.mark.parametrize(("deterministic", "asked"), [(False, 16), (True, 0)])
def test_only_a_deterministic_system_is_spared(deterministic, asked, workspace):
    change_system(workspace, deterministic=deterministic)

    reports = [evaluate(workspace, pair_of(workspace))[0].report for _ in range(3)]

    assert [(report.asked, report.reused) for report in reports] == [(16, 0), *[(asked, 16 - asked)] * 2]


MEASURES = ["hit@1", "mrr"]
CHANGES = {
    #                                      change, is evaluated still
    "nothing":                             (lambda w: None, True),
    "how many questions are in flight":    (lambda w: change_defaults(w, concurrency=2), True),
    "the same for the system":             (lambda w: change_system(w, evaluation={"concurrency": 2}), True),
    "the corpus":                          (lambda w: stamp_with(w, corpus_fingerprint="0" * 64), False),
    "the dataset":                         (lambda w: stamp_with(w, dataset_fingerprint="0" * 64), False),
    "the system's version":                (lambda w: change_system(w, version="2"), False),
    "the system's settings":               (lambda w: change_system(w, settings={"k": 3}), False),
    "how many questions are asked":        (lambda w: change_system(w, limit=3), False),
    "the citations' tolerance":            (lambda w: change_defaults(w, tolerance_chars=3), False),
    "the measures":                        (lambda w: change_defaults(w, measures=MEASURES), False),
    "the measures, for this system":       (lambda w: change_system(w, evaluation={"measures": MEASURES}), False),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_pair_is_evaluated_until_something_that_moves_a_score_changes(change, expected, workspace):
    evaluate(workspace, pair_of(workspace))
    change(workspace)

    assert is_evaluated(workspace, read_registry(workspace), OBSERVATORY, "embedded") is expected


def test_new_code_of_the_system_is_another_system(workspace, monkeypatch):
    evaluate(workspace, pair_of(workspace))
    monkeypatch.setitem(KINDS, "embedded", dataclasses.replace(KINDS["embedded"], version="embedded/other"))

    assert not is_evaluated(workspace, read_registry(workspace), OBSERVATORY, "embedded")


def test_answers_without_results_are_no_evaluation(workspace):
    assert not is_evaluated(workspace, read_registry(workspace), OBSERVATORY, "embedded")

    ask(workspace, pair_of(workspace), now=NIGHT)

    assert not is_evaluated(workspace, read_registry(workspace), OBSERVATORY, "embedded")
