"""An evaluation is found by its id or its system's name, and is taken only for the dataset that it answers."""

import pytest

from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.stamp import current_stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.responses_file import read_responses, write_responses
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scores_file import QueryScores, write_scores
from rag_eval_pipeline.exporting.answers import find_answers
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.systems.answer import RagAnswer

OK = RagAnswer("0", "ok", "here", False, (), (), 1.0)


@pytest.fixture
def evaluation(awkward, answer_by_hand):
    return load_evaluation(awkward, answer_by_hand(awkward, "awkward", [OK]))


def find(workspace, name):
    paths = workspace.benchmark("awkward")
    stamp = current_stamp(paths, source_digest(paths))
    dataset = EvaluationDataset.read(workspace.eval_json(stamp.dataset_id, stamp.dataset_version))
    return find_answers(workspace, name, stamp, dataset), dataset


def test_an_id_and_a_systems_name_mean_the_same_newest_evaluation(awkward, evaluation):
    by_id, _ = find(awkward, evaluation.record.evaluation_id)
    by_system, _ = find(awkward, "embedded")

    assert by_id == by_system
    assert by_id.system == "embedded"


def test_a_failed_question_has_no_answer(awkward, evaluation):
    answers, dataset = find(awkward, "embedded")

    assert [answers.of(query) for query in dataset.queries] == [OK, None, None, None]
    assert answers.failed == 3
    assert list(answers.notes()) == ["3 of 4 questions got no answer; theirs is absent, not empty"]


@pytest.mark.parametrize("name", ["eval_run_20200101_001", "unheard-of", "../runs", ""])
def test_a_name_that_means_nothing_is_told_the_systems(name, awkward, evaluation):
    with pytest.raises(InputError) as error:
        find(awkward, name)

    assert error.value.code == "no_evaluation"
    assert "Systems evaluated on it: embedded." in str(error.value)


CHANGES = {
    #                                          fields of the record                         code
    "answers are still missing":              (lambda r: {"state": "open"},                "not_answered"),
    "it is of another benchmark":             (lambda r: {"benchmark": "other"},           "other_benchmark"),
    "the dataset was converted anew":         (lambda r: stale(r, "dataset"),              "stale_evaluation"),
    "the corpus was converted anew":          (lambda r: stale(r, "corpus"),               "stale_evaluation"),
}  # fmt: skip


def stale(record, name):
    return {"fingerprints": record.fingerprints.model_copy(update={name: "0" * 64})}


@pytest.mark.parametrize(("change", "code"), CHANGES.values(), ids=CHANGES)
def test_answers_to_something_else_are_refused(change, code, awkward, evaluation):
    evaluation.save(**change(evaluation.record))

    with pytest.raises(InputError) as error:
        find(awkward, evaluation.record.evaluation_id)

    assert error.value.code == code


def test_answers_in_another_order_are_refused(awkward, evaluation):
    write_responses(evaluation.responses, read_responses(evaluation.responses)[::-1])

    with pytest.raises(InputError) as error:
        find(awkward, "embedded")

    assert error.value.code == "foreign_answers"


def test_questions_beyond_a_systems_limit_were_not_asked_and_did_not_fail(awkward, evaluation):
    write_responses(evaluation.responses, read_responses(evaluation.responses)[:2])
    evaluation.save(limit=2)

    answers, dataset = find(awkward, "embedded")

    assert list(answers.given) == ["0", "1"]
    assert answers.failed == 1
    assert answers.of(dataset.queries[3]) is None


def test_only_scores_that_were_made_for_the_evaluation_are_taken(awkward, evaluation):
    rows = [QueryScores("0", "scored", None, {"f1": 1.0})]
    write_scores(evaluation.scores("answer_scores"), rows, ["f1"], evaluation_id=evaluation.record.evaluation_id)
    write_scores(evaluation.scores("citation_scores"), rows, ["f1"], evaluation_id="eval_run_20200101_001")
    evaluation.scores("retrieval_scores").write_bytes(b"torn")

    answers, _ = find(awkward, "embedded")

    assert answers.scores == {"0": {"f1": 1.0}}
    write_scores(evaluation.scores("answer_scores"), rows, ["f1"], evaluation_id="eval_run_20200101_001")
    assert find(awkward, "embedded")[0].scores == {}
