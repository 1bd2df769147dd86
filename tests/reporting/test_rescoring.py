"""Old answers get today's scores under ids of their own; the system is not asked, and the old results stay."""

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.evaluation.runs import load_evaluation, newest_evaluation
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.reporting.comparison import compare_named
from rag_eval_pipeline.reporting.history import history_rows, read_history
from rag_eval_pipeline.reporting.rescoring import rescore

OBSERVATORY = "cairnmoor-observatory"


def set_measures(workspace, *measures):
    values = yaml.safe_load(workspace.defaults_config.read_text()) | {"measures": list(measures)}
    workspace.defaults_config.write_text(yaml.safe_dump(values))


def pair(workspace):
    return load_pair(workspace, OBSERVATORY, "embedded")


def test_a_new_measure_is_scored_on_the_answers_that_there_are(workspace):
    old = evaluate(workspace, pair(workspace))[1].evaluation_id
    before = results_path(workspace, old).read_bytes()
    set_measures(workspace, "hit@1", "recall@3")

    [new] = rescore(workspace, pair(workspace))

    assert (new.evaluation_id != old, validate(results_path(workspace, new.evaluation_id))) == (True, [])
    assert set(new.retrieval_metrics) == {"hit@1", "recall@3"}
    assert new.performance_metrics.reused_from == old
    assert load_evaluation(workspace, new.evaluation_id).record.opened_at == (
        load_evaluation(workspace, old).record.opened_at
    )
    assert results_path(workspace, old).read_bytes() == before
    was = EvaluationResults.read(results_path(workspace, old))
    assert new.timestamp == was.timestamp
    assert [row.generated_answer for row in new.query_results] == [row.generated_answer for row in was.query_results]


def test_several_are_scored_oldest_first(workspace):
    old = [evaluate(workspace, pair(workspace))[1].evaluation_id for _ in range(2)]
    set_measures(workspace, "hit@1")

    new = [published.evaluation_id for published in rescore(workspace, pair(workspace))]

    opened = [load_evaluation(workspace, name).record.opened_at for name in (*old, *new)]
    assert opened[:2] == opened[2:]


def test_the_newest_evaluation_stays_the_newest(workspace):
    first, second = (evaluate(workspace, pair(workspace))[1].evaluation_id for _ in range(2))

    [_] = rescore(workspace, pair(workspace), [first])

    assert newest_evaluation(workspace, OBSERVATORY, "embedded").record.evaluation_id == second
    assert read_history(workspace).newest()[0].evaluation_id == second


def test_what_is_scored_as_today_is_left_alone(workspace):
    evaluate(workspace, pair(workspace))

    with pytest.raises(InputError) as caught:
        rescore(workspace, pair(workspace))

    assert caught.value.code == "nothing_to_rescore"


def test_answers_of_an_earlier_version_of_the_system_stay_its_own(workspace):
    name = evaluate(workspace, pair(workspace))[1].evaluation_id
    was = load_evaluation(workspace, name).record
    file = workspace.system_file("embedded")
    file.write_text(file.read_text().replace('version: "1"', 'version: "2"'))
    set_measures(workspace, "hit@1")

    [new] = rescore(workspace, pair(workspace))

    today = pair(workspace).fingerprints
    assert (new.system_version, new.fingerprints.system) == ("1", was.fingerprints.system)
    assert (new.fingerprints.metrics, new.fingerprints.judge) == (today.metrics, today.judge)


def test_answers_to_fewer_questions_than_todays_are_refused(workspace):
    file = workspace.system_file("embedded")
    whole = file.read_text()
    file.write_text(whole + "limit: 3\n")
    name = evaluate(workspace, pair(workspace))[1].evaluation_id
    file.write_text(whole)

    with pytest.raises(InputError) as caught:
        rescore(workspace, pair(workspace), [name])

    assert caught.value.code == "other_dataset"


def test_answers_are_scored_again_once_for_each_change(workspace):
    old = evaluate(workspace, pair(workspace))[1].evaluation_id
    for measure in ("hit@1", "hit@3"):
        set_measures(workspace, measure)
        [new] = rescore(workspace, pair(workspace))
        assert new.performance_metrics.reused_from == old

    with pytest.raises(InputError) as caught:
        rescore(workspace, pair(workspace))

    assert caught.value.code == "nothing_to_rescore"


CODE = """
import pathlib

LOG = pathlib.Path(__file__).parent / "opened.txt"
LOG.open("a").write("opened\\n")

def answer(query):
    LOG.open("a").write(query.query_id + "\\n")
    return "It is 4."
"""


def test_the_system_is_not_even_opened(workspace):
    folder = workspace.config / "systems"
    (folder / "watched_system.py").write_text(CODE)
    workspace.system_file("watched").write_text(
        "kind: python\nsettings:\n  callable: watched_system:answer\n  path: [.]\nevaluation: {concurrency: 1}\n"
    )
    evaluate(workspace, load_pair(workspace, OBSERVATORY, "watched"))
    asked = (folder / "opened.txt").read_text().split()
    assert "opened" in asked
    assert len(asked) >= 17  # 16 questions
    set_measures(workspace, "hit@1")

    [new] = rescore(workspace, load_pair(workspace, OBSERVATORY, "watched"))

    assert (folder / "opened.txt").read_text().split() == asked
    assert new.summary.successful_queries == 16


def test_the_history_shows_both_and_no_comparison_mixes_them(workspace):
    old = evaluate(workspace, pair(workspace))[1].evaluation_id
    set_measures(workspace, "hit@1")
    [new] = rescore(workspace, pair(workspace))

    rows, damaged = history_rows(workspace)
    assert ([row["evaluation_id"] for row in rows], damaged) == ([old, new.evaluation_id], [])
    with pytest.raises(InputError) as caught:
        compare_named(workspace, old, new.evaluation_id)
    assert (caught.value.code, "different_metrics" in str(caught.value)) == ("not_comparable", True)


def test_results_that_were_damaged_come_back_from_the_answers(workspace):
    name = evaluate(workspace, pair(workspace))[1].evaluation_id
    path = results_path(workspace, name)
    whole = EvaluationResults.read(path)
    path.write_bytes(path.read_bytes()[:1000])

    [again] = rescore(workspace, pair(workspace), [name])

    assert again.answer_quality_metrics == whole.answer_quality_metrics
    assert [row.individual_metrics for row in again.query_results] == [
        row.individual_metrics for row in whole.query_results
    ]
    [damaged] = read_history(workspace).damaged  # it is named until somebody removes it
    assert name in damaged
