"""A custom metric has scores, a mean with an interval and a row; one that fails costs only its own score."""

import sys

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.score_tables import read_scores
from rag_eval_pipeline.formats.results import EvaluationResults
from tests.evaluation.conftest import change_defaults, change_yaml
from tests.validation import validate

OWN = """
import math
import numpy as np
from rag_eval_pipeline.metrics.custom import MetricInfo, QuestionMetric, Range
from rag_eval_pipeline.metrics.retrieval.families import Family

def metric(name, score, *needs, category="answers", **more):
    return QuestionMetric(MetricInfo(name, "Of a test.", "here", needs, ("question",), category=category, **more), score)

def bad(question):
    if question.query_id == "3":
        raise KeyError("no such\\nkey")
    return {"4": math.nan, "5": 1.5, "6": "much"}.get(question.query_id, 0.25)

WORDS = metric("words", lambda q: float(len(q.text.split())), "answer", direction="neither", range=Range(0.0, math.inf))
GOLD_FIRST = metric("gold_first", lambda q: float(q.passages[0].document in q.relevant_documents), "relevant",
                    category="retrieval")
SPANS = metric("spans", lambda q: min(1, len(q.citations) / len(q.gold_citations)), "gold_spans", category="citations")
TWICE = metric("twice", lambda q: q.scores["f1"] / 2)
JUDGED = metric("judged_too", lambda q: q.scores["judged_correct"], "judge", category="claims")
BAD = metric("bad", bad)
NONE = metric("none", lambda q: None)
SECOND = metric("words", lambda q: 2.0, version="2", direction="neither", range=Range(0.0, math.inf))
TAKEN = metric("f1", lambda q: 1.0)
COLUMN = metric("status", lambda q: 1.0)
PAGE = metric("page/hit@1", lambda q: 1.0)
RATING = metric("quality", lambda q: 0.25, category="claims")
DIMENSION = metric("quality/clarity", lambda q: 0.25, category="claims")
EVALUATOR = metric("evaluator/length", lambda q: 0.25, category="claims")
NOWHERE = metric("nowhere", lambda q: 1.0, category="kitchen")
HALF = Family(MetricInfo("half@k", "Half a point for a hit in the top k.", "here", ("ranking", "relevant"), ("document",)),
              lambda rankings, parameters: np.where(rankings.n_found_at(parameters.k) > 0, 0.5, 0.0), takes="cutoff")
OTHER_HIT = Family(MetricInfo("hit@k", "Nothing is found.", "here", ("ranking", "relevant"), ("document",)),
                   lambda rankings, parameters: np.zeros(len(rankings)), takes="cutoff")
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "custom_question_metrics.py").write_text(OWN)
    (tmp_path / "broken_metrics.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("custom_question_metrics", None)


def metrics(*names):
    return [f"custom_question_metrics:{name}" for name in names]


def load(workspace):
    return load_pair(workspace, "skarn-railway", "embedded")


def evaluated(workspace):
    _, published = evaluate(workspace, load(workspace))
    return published, EvaluationResults.read(published.path)


def test_custom_metrics_are_in_scores_and_results(workspace):
    change_defaults(workspace, custom_metrics=metrics("WORDS", "GOLD_FIRST", "SPANS", "TWICE", "JUDGED", "NONE"))

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
    assert results.custom_metrics["words"].model_dump() == {
        "definition": "custom_question_metrics:WORDS", "meaning": "Of a test.", "source": "here", "direction": "neither",
        "low": 0.0, "high": None, "levels": ("question",), "category": "answers", "version": "1",
    }  # fmt: skip


def test_custom_metric_that_fails_costs_only_its_own_score(workspace):
    change_defaults(workspace, custom_metrics=metrics("BAD", "WORDS"))

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


def test_custom_metric_fails_on_a_question_without_an_answer(workspace):
    change_defaults(workspace, custom_metrics=metrics("WORDS", "GOLD_FIRST"))
    recorded = workspace.system_file("embedded").parent / "recorded.jsonl"
    recorded.write_text("".join(f'{{"query_id": "{n}", "answer": "x y"}}\n' for n in range(1, 40)))
    change_yaml(workspace.system_file("embedded"), kind="replay", settings={"path": "recorded.jsonl"})

    _, results = evaluated(workspace)

    assert (results.further_metrics["words"].n_scored, results.further_metrics["words"].n_failed) == (39, 1)
    assert results.metric_faults[0].metric == "gold_first"  # a recording has no passages: the metric's own fault
    assert results.query_results[0].individual_metrics["words"] is None


def test_family_of_retrieval_measures_is_among_the_measures(workspace):
    change_defaults(workspace, measures=["hit@3", "custom_question_metrics:HALF@3"])

    _, results = evaluated(workspace)

    assert list(results.retrieval_metrics) == list(results.page_retrieval_metrics) == ["hit@3", "half@3"]
    assert results.retrieval_metrics["half@3"].value == results.retrieval_metrics["hit@3"].value / 2


def test_fingerprint_depends_on_custom_metrics_and_their_version(workspace):
    prints = []
    for own in ([], metrics("WORDS"), metrics("SECOND"), metrics("WORDS", "TWICE")):
        change_defaults(workspace, custom_metrics=own)
        prints.append(load(workspace).fingerprints.metrics)

    assert len(set(prints)) == 4


BAD = {
    "no such entry point":               ("politeness",                     "unknown_metric"),
    "a family belongs to the measures":  ("custom_question_metrics:HALF",      "bad_metric"),
    "an unknown category":          ("custom_question_metrics:NOWHERE",   "bad_metric"),
    "a built-in name":                   ("custom_question_metrics:TAKEN",     "duplicate_metric"),
    "a column of the answers":           ("custom_question_metrics:COLUMN",    "duplicate_metric"),
    "a measure by page":                 ("custom_question_metrics:PAGE",      "duplicate_metric"),
    "a rating":                          ("custom_question_metrics:RATING",    "duplicate_metric"),
    "a rating's dimension":              ("custom_question_metrics:DIMENSION", "duplicate_metric"),
    "an evaluator":                      ("custom_question_metrics:EVALUATOR", "duplicate_metric"),
    "a name twice":                      ("custom_question_metrics:WORDS",     "duplicate_metric"),
}  # fmt: skip


def test_custom_metric_is_refused_before_anything_is_asked(workspace):
    for what, (name, code) in BAD.items():
        twice = metrics("SECOND") if name.endswith(":WORDS") else []
        change_defaults(workspace, custom_metrics=[name, *twice])

        with pytest.raises(InputError) as error:
            load(workspace)

        assert error.value.code == code, what


def test_taken_name_is_refused_with_the_others_of_its_kind(workspace):
    for name, listed in {"COLUMN": "status, answer, abstained", "RATING": "quality, relevance, toxicity"}.items():
        change_defaults(workspace, custom_metrics=metrics(name))
        with pytest.raises(InputError, match=listed):
            load(workspace)
    change_defaults(workspace, custom_metrics=[], measures=["custom_question_metrics:OTHER_HIT@1"])
    with pytest.raises(InputError, match=r"'hit@k' is a built-in metric.*\[bad_setting\]"):
        load(workspace)


@pytest.mark.parametrize("name", ["judged_correct", "status", "words"])
def test_rating_with_a_taken_name_is_refused(name, workspace):
    rating = {"name": name, "version": "1", "prompts": ["Grade it."], "scale": {0: 0, 1: 1}, "needs": ["answer"]}
    settings = {"endpoint": {"base_url": "http://127.0.0.1:9"}, "chat": {"model": "m"}, "ratings": [rating]}
    change_defaults(workspace, custom_metrics=metrics("WORDS"), judge={"kind": "openai", "settings": settings})

    with pytest.raises(InputError, match=rf"ratings.*found '{name}' \[duplicate_metric\]"):
        load(workspace)


def test_entry_point_is_found_by_its_name(workspace, tmp_path):
    information = tmp_path / "custom_question_metrics-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: custom-question-metrics\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[rag_eval_pipeline.metrics]\nlength = custom_question_metrics:WORDS\n"
    )

    change_defaults(workspace, custom_metrics=["length"])

    assert load(workspace).settings.custom_metrics == ("length",)


def test_evaluation_stays_readable_without_its_metric(workspace, tmp_path):
    change_defaults(workspace, custom_metrics=metrics("WORDS"), measures=["hit@1", "custom_question_metrics:HALF@3"])
    published, _ = evaluated(workspace)
    sys.modules.pop("custom_question_metrics")
    (tmp_path / "custom_question_metrics.py").unlink()

    assert load_evaluation(workspace, published.evaluation_id).record.settings.custom_metrics == tuple(metrics("WORDS"))
    assert EvaluationResults.read(published.path).custom_metrics["words"].source == "here"
