"""A metric of one's own has scores, a mean with an interval and a row; one that fails costs nobody else anything."""

import sys

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.passes import evaluate
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scores_file import read_scores
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.validation import validate

OWN = """
import math
import numpy as np
from rag_eval_pipeline.metrics.question_metric import QuestionMetric
from rag_eval_pipeline.metrics.registry import Metric, Range
from rag_eval_pipeline.metrics.retrieval import Family

def metric(name, score, *needs, room="answers", **more):
    return QuestionMetric(Metric(name, "Of a test.", "here", needs, ("question",), room=room, **more), score)

def bad(question):
    if question.query_id == "3":
        raise KeyError("no such\\nkey")
    return {"4": math.nan, "5": 1.5, "6": "much"}.get(question.query_id, 0.25)

WORDS = metric("words", lambda q: float(len(q.text.split())), "answer", direction="neither", range=Range(0.0, math.inf))
GOLD_FIRST = metric("gold_first", lambda q: float(q.passages[0].document in q.relevant_documents), "relevant",
                    room="retrieval")
SPANS = metric("spans", lambda q: min(1, len(q.citations) / len(q.gold_citations)), "gold_spans", room="citations")
TWICE = metric("twice", lambda q: q.scores["f1"] / 2)
JUDGED = metric("judged_too", lambda q: q.scores["judged_correct"], "judge", room="claims")
JUDGED_OR_NOT = metric("judged_or_not", lambda q: 1.0, room="claims")
BAD = metric("bad", bad)
NONE = metric("none", lambda q: None)
SECOND = metric("words", lambda q: 2.0, version="2", direction="neither", range=Range(0.0, math.inf))
TAKEN = metric("f1", lambda q: 1.0)
CUT_OFF = metric("ndcg@7", lambda q: 1.0)
COLUMN = metric("outcome", lambda q: 1.0)
NOWHERE = metric("nowhere", lambda q: 1.0, room="kitchen")
HALF = Family(Metric("half@k", "Half a point for a hit in the top k.", "here", ("ranking", "relevant"), ("document",)),
              lambda standings, parameters: np.where(standings.within(parameters.k) > 0, 0.5, 0.0), takes="cutoff")
NO_METRIC = 3
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_question_metrics.py").write_text(OWN)
    (tmp_path / "broken_metrics.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_question_metrics", None)


def settings(workspace, **settings):
    defaults = yaml.safe_load(workspace.defaults_config.read_text())
    workspace.defaults_config.write_text(yaml.safe_dump(defaults | settings))


def metrics(*names):
    return [f"own_question_metrics:{name}" for name in names]


def load(workspace):
    return load_pair(workspace, "skarn-railway", "embedded")


def evaluated(workspace):
    _, published = evaluate(workspace, load(workspace))
    return published, EvaluationResults.read(published.path)


def test_own_metrics_stand_in_scores_and_results_beside_the_others(workspace):
    settings(workspace, own_metrics=metrics("WORDS", "GOLD_FIRST", "SPANS", "TWICE", "JUDGED", "NONE"))

    published, results = evaluated(workspace)

    assert validate(published.path) == published.faults == []
    evaluation = load_evaluation(workspace, results.evaluation_id)
    for kind, name in {
        "retrieval_scores": "gold_first", "citation_scores": "spans", "answer_scores": "words",
        "judge_scores": "judged_too",
    }.items():  # fmt: skip
        assert any(name in row.scores for row in read_scores(evaluation.scores(kind)))
    words = results.further_metrics["words"]
    stated = [row.individual_metrics["words"] for row in results.query_results]
    assert words.value == sum(stated) / 40
    assert words.confidence_interval[0] < words.value < words.confidence_interval[1]
    # Eight of forty are impossible: they have words, no gold documents and no gold spans.
    assert (words.n_scored, results.further_metrics["gold_first"].n_scored) == (40, 32)
    assert results.further_metrics["spans"].n_scored == results.further_metrics["char_f1"].n_scored
    assert results.further_metrics["twice"].value == pytest.approx(results.answer_quality_metrics.f1.value / 2)
    assert results.judge_metrics["judged_too"].value == results.judge_metrics["judged_correct"].value
    nothing = results.further_metrics["none"]
    assert (nothing.value, nothing.n_skipped, nothing.reason) == (None, 40, "nothing_to_score")


def test_what_an_own_metric_says_of_itself_stands_in_the_results(workspace):
    settings(workspace, own_metrics=metrics("WORDS"))

    _, results = evaluated(workspace)

    assert results.own_metrics["words"].model_dump() == {
        "definition": "own_question_metrics:WORDS", "meaning": "Of a test.", "source": "here", "direction": "neither",
        "low": 0.0, "high": None, "levels": ("question",), "room": "answers", "version": "1",
    }  # fmt: skip


def test_a_metric_that_fails_names_itself_and_the_question_and_loses_nothing_else(workspace):
    settings(workspace, own_metrics=metrics("BAD", "WORDS"))

    published, results = evaluated(workspace)

    bad = results.further_metrics["bad"]
    assert (bad.value, bad.n_scored, bad.n_failed, bad.coverage) == (0.25, 36, 4, 0.9)
    assert results.further_metrics["words"].n_scored == results.answer_quality_metrics.f1.n_scored == 40
    assert [(fault.metric, fault.query_id) for fault in results.metric_faults] == [("bad", str(n)) for n in range(3, 7)]
    assert published.faults == [
        "metric bad, question 3: expected a score, found \"KeyError: 'no such\\\\nkey'\" [metric_raised].",
        "metric bad, question 4: expected a number from 0 to 1, or None, found nan [bad_metric_score].",
        "metric bad, question 5: expected a number from 0 to 1, or None, found 1.5 [bad_metric_score].",
        "metric bad, question 6: expected a number from 0 to 1, or None, found 'much' [bad_metric_score].",
    ]
    assert [row.individual_metrics["bad"] for row in results.query_results[2:7]] == [0.25, None, None, None, None]


def test_a_metric_that_needs_the_judge_is_skipped_without_one(workspace):
    settings(workspace, own_metrics=metrics("JUDGED", "JUDGED_OR_NOT"), judge={"kind": "none"})

    _, results = evaluated(workspace)

    assert (results.judge_metrics["judged_too"].n_skipped, results.judge_metrics["judged_or_not"].n_scored) == (40, 40)


def test_a_question_without_an_answer_is_a_failure_of_the_metrics_that_it_belongs_to(workspace):
    settings(workspace, own_metrics=metrics("WORDS", "GOLD_FIRST"))
    file = yaml.safe_load(workspace.system_file("embedded").read_text())
    recorded = workspace.system_file("embedded").parent / "recorded.jsonl"
    recorded.write_text("".join(f'{{"query_id": "{n}", "answer": "x y"}}\n' for n in range(1, 40)))
    workspace.system_file("embedded").write_text(
        yaml.safe_dump(file | {"kind": "replay", "settings": {"path": "recorded.jsonl"}})
    )

    _, results = evaluated(workspace)

    assert (results.further_metrics["words"].n_scored, results.further_metrics["words"].n_failed) == (39, 1)
    assert results.metric_faults[0].metric == "gold_first"  # a recording has no passages: the metric's own fault
    assert results.query_results[0].individual_metrics["words"] is None


def test_a_family_of_retrieval_measures_stands_among_the_measures(workspace):
    settings(workspace, measures=["hit@3", "own_question_metrics:HALF@3"])

    _, results = evaluated(workspace)

    assert list(results.retrieval_metrics) == list(results.page_retrieval_metrics) == ["hit@3", "half@3"]
    assert results.retrieval_metrics["half@3"].value == results.retrieval_metrics["hit@3"].value / 2


def test_the_fingerprint_moves_with_an_own_metric_and_its_version(workspace):
    prints = []
    for own in ([], metrics("WORDS"), metrics("SECOND"), metrics("WORDS", "TWICE")):
        settings(workspace, own_metrics=own)
        prints.append(load(workspace).fingerprints.metrics)

    assert len(set(prints)) == 4


BAD = {
    "no such entry point":               ("politeness",                     "unknown_metric"),
    "no such module":                    ("no_such_module:WORDS",           "bad_metric"),
    "a module that fails":               ("broken_metrics:WORDS",           "bad_metric"),
    "no such name":                      ("own_question_metrics:NOTHING",   "bad_metric"),
    "no metric":                         ("own_question_metrics:NO_METRIC", "bad_metric"),
    "a family belongs to the measures":  ("own_question_metrics:HALF",      "bad_metric"),
    "a room that there is not":          ("own_question_metrics:NOWHERE",   "bad_metric"),
    "a built-in name":                   ("own_question_metrics:TAKEN",     "duplicate_metric"),
    "a built-in measure at a cutoff":    ("own_question_metrics:CUT_OFF",   "duplicate_metric"),
    "a column of the scores":            ("own_question_metrics:COLUMN",    "duplicate_metric"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "code"), BAD.values(), ids=BAD)
def test_what_cannot_be_taken_up_is_found_before_anything_is_asked(name, code, workspace):
    settings(workspace, own_metrics=[name])

    with pytest.raises(InputError) as error:
        load(workspace)

    assert error.value.code == code


def test_a_metric_stands_once(workspace):
    settings(workspace, own_metrics=metrics("WORDS", "SECOND"))

    with pytest.raises(InputError) as error:
        load(workspace)

    assert error.value.code == "duplicate_metric"


def test_an_entry_point_is_taken_up_by_its_name_or_the_metrics(workspace, tmp_path):
    information = tmp_path / "own_question_metrics-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: own-question-metrics\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[rag_eval_pipeline.metrics]\nlength = own_question_metrics:WORDS\n")

    for name in ("length", "words"):
        settings(workspace, own_metrics=[name])
        assert load(workspace).settings.own_metrics == (name,)


def test_an_evaluation_stays_readable_when_its_metric_is_gone(workspace, tmp_path):
    settings(workspace, own_metrics=metrics("WORDS"), measures=["hit@1", "own_question_metrics:HALF@3"])
    published, _ = evaluated(workspace)
    sys.modules.pop("own_question_metrics")
    (tmp_path / "own_question_metrics.py").unlink()

    assert load_evaluation(workspace, published.evaluation_id).record.settings.own_metrics == tuple(metrics("WORDS"))
    assert EvaluationResults.read(published.path).own_metrics["words"].source == "here"
