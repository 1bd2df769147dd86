"""Rescoring gives old answers today's scores under new ids; the system is not asked, and the old results stay."""

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.monitoring.comparison import compare_named
from rag_eval_pipeline.monitoring.history import history_rows, read_history
from rag_eval_pipeline.monitoring.rescoring import rescore
from tests.validation import validate

OBSERVATORY = "cairnmoor-observatory"


def set_measures(workspace, *measures):
    values = yaml.safe_load(workspace.defaults_config.read_text()) | {"measures": list(measures)}
    workspace.defaults_config.write_text(yaml.safe_dump(values))


def pair(workspace):
    return load_pair(workspace, OBSERVATORY, "embedded")


def newest(workspace, system="embedded"):
    return newest_evaluation(workspace, OBSERVATORY, system).record.evaluation_id


def refused(workspace, *ids):
    with pytest.raises(InputError) as caught:
        rescore(workspace, pair(workspace), ids)
    return caught.value.code


def test_rescore_scores_old_answers_with_a_new_measure(evaluated):
    workspace = evaluated
    old = newest(workspace)
    before = workspace.results_file(old).read_bytes()
    was = EvaluationResults.read(workspace.results_file(old))
    assert refused(workspace) == "nothing_to_rescore"
    set_measures(workspace, "hit@1", "recall@3")

    [new] = rescore(workspace, pair(workspace))

    assert (new.evaluation_id != old, validate(workspace.results_file(new.evaluation_id))) == (True, [])
    assert set(new.retrieval_metrics) == {"hit@1", "recall@3"}
    assert new.performance_metrics.reused_from == old
    opened = [load_evaluation(workspace, name).record.opened_at for name in (old, new.evaluation_id)]
    assert (opened[0], was.timestamp) == (opened[1], new.timestamp)
    assert workspace.results_file(old).read_bytes() == before
    stored = EvaluationResults.read(workspace.results_file(new.evaluation_id))
    assert [row.generated_answer for row in stored.query_results] == [row.generated_answer for row in was.query_results]
    rows, damaged = history_rows(workspace, OBSERVATORY, "embedded")
    assert ([row["evaluation_id"] for row in rows], damaged) == ([old, new.evaluation_id], [])
    with pytest.raises(InputError, match="different_metrics"):
        compare_named(workspace, old, new.evaluation_id)
    # Once for each change.
    assert refused(workspace) == "nothing_to_rescore"
    set_measures(workspace, "hit@3")
    [third] = rescore(workspace, pair(workspace))
    assert third.performance_metrics.reused_from == old


def test_rescore_goes_from_the_oldest_and_leaves_the_newest_the_newest(evaluated):
    workspace = evaluated
    old = [newest(workspace), evaluate(workspace, pair(workspace))[1].evaluation_id]
    set_measures(workspace, "hit@1")

    [_] = rescore(workspace, pair(workspace), old[:1])
    assert newest_evaluation(workspace, OBSERVATORY, "embedded").record.evaluation_id == old[1]
    assert read_history(workspace).newest()[0].evaluation_id == old[1]

    new = [published.evaluation_id for published in rescore(workspace, pair(workspace), old[::-1])]
    opened = [load_evaluation(workspace, name).record.opened_at for name in (*old, *new)]
    assert opened[:2] == opened[2:]


def test_rescore_keeps_the_version_of_the_system_that_answered(evaluated):
    workspace = evaluated
    was = load_evaluation(workspace, newest(workspace)).record
    file = workspace.system_file("embedded")
    file.write_text(file.read_text().replace('version: "1"', 'version: "2"'))
    set_measures(workspace, "hit@1")

    [new] = rescore(workspace, pair(workspace))

    today = pair(workspace).fingerprints
    assert (new.system_version, new.fingerprints.system) == ("1", was.fingerprints.system)
    assert (new.fingerprints.metrics, new.fingerprints.judge) == (today.metrics, today.judge)


def test_rescore_takes_as_many_questions_as_were_asked_but_no_others_and_no_other_pair(evaluated):
    workspace = evaluated
    file = workspace.system_file("embedded")
    whole = file.read_text()
    file.write_text(whole + "limit: 3\n")
    name = evaluate(workspace, pair(workspace))[1].evaluation_id
    file.write_text(whole)
    [new] = rescore(workspace, pair(workspace), [name])
    assert new.summary.total_queries == 3

    assert refused(workspace, newest(workspace, "embedded-weak")) == "other_pair"
    prints = load_evaluation(workspace, name).record.fingerprints
    load_evaluation(workspace, name).save(fingerprints=prints.model_copy(update={"dataset": "0123456789"}))
    assert refused(workspace, name) == "other_dataset"
    load_evaluation(workspace, name).save(state="scored")
    assert refused(workspace, name) == "not_published"


CODE = """
import pathlib

LOG = pathlib.Path(__file__).parent / "opened.txt"
LOG.open("a").write("opened\\n")

def answer(query):
    LOG.open("a").write(query.query_id + "\\n")
    return "It is 4."
"""


def test_rescore_does_not_open_the_system(evaluated):
    workspace = evaluated
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


@pytest.mark.fault(68)
def test_rescore_restores_damaged_results_from_the_answers(evaluated):
    workspace = evaluated
    name = newest(workspace)
    path = workspace.results_file(name)
    whole = EvaluationResults.read(path)
    path.write_bytes(path.read_bytes()[:1000])

    [again] = rescore(workspace, pair(workspace), [name])

    assert again.answer_quality_metrics == whole.answer_quality_metrics
    stored = EvaluationResults.read(workspace.results_file(again.evaluation_id))
    scores = [[row.individual_metrics for row in one.query_results] for one in (stored, whole)]
    assert scores[0] == scores[1]
    [damaged] = read_history(workspace).damaged  # it is named until somebody removes it
    assert name in damaged
