"""Metrics as pages show them: labels and meanings of the registry, groups of a run, doubts of its judge."""

from datetime import UTC, datetime

import msgspec
import pytest

from rag_eval_pipeline.metrics.metric_info import label_from_key
from rag_eval_pipeline.metrics.registry import metrics
from rag_eval_pipeline.monitoring.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import COLUMNS, Trust
from rag_eval_pipeline.monitoring.verdict_records import NOT_CALIBRATED
from rag_eval_pipeline.site.metric_labels import CATEGORY_HEADINGS, custom_metric_view, metric_groups, metric_view
from rag_eval_pipeline.site.run_data import CustomMetric, RunFile

LABELS = {
    "a measure with its cutoff": ("ndcg@10", "nDCG@10"),
    "words of a name": ("span_precision", "Span precision"),
    "the field's spelling inside": ("char_f1", "Char F1"),
    "a part of a metric": ("quality/clarity", "Quality clarity"),
    "a cutoff with a fraction": ("hit@0.5", "Hit@0.5"),
    "markup is no name and stays": ("<img src=x>", "<img src=x>"),
    "a sentence stays": ("Failure rate", "Failure rate"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("name", "label"), LABELS.values(), ids=LABELS)
def test_label_from_key(name, label):
    assert label_from_key(name) == label


def test_metric_view_has_the_cutoff_in_its_meaning():
    assert "top 10" in metric_view("ndcg@10").meaning
    assert "top k" not in metric_view("recall@5").meaning


def test_metric_view_has_the_direction_and_of_an_unknown_metric_its_name():
    assert [metric_view(name).way for name in ("ndcg@10", "hallucination_vs_citations", "claims")] == [
        "higher is better", "lower is better", "",
    ]  # fmt: skip
    view = metric_view("politeness")
    assert (view.label, view.meaning, view.way, view.category) == ("Politeness", "", "", "other")


def test_custom_metric_view_is_what_the_results_state():
    stated = b'{"meaning": "Words of thanks.", "direction": "lower", "low": 0.0, "category": "answers"}'

    view = custom_metric_view("thanks", msgspec.json.decode(stated, type=CustomMetric))

    assert (view.label, view.meaning, view.way, view.category, view.unit) == (
        "Thanks", "Words of thanks.", "lower is better", "answers", "number",
    )  # fmt: skip
    assert custom_metric_view("thanks", CustomMetric(category="<b>")).category == "other"


def test_metric_view_of_every_registered_metric_has_a_label_and_a_meaning():
    for name in (*COLUMNS, *(row.name.replace("@k", "@5") for row in metrics())):
        figure = metric_view(name)
        assert figure.label, name
        assert figure.meaning.endswith("."), name
        assert figure.category in CATEGORY_HEADINGS, name


HALF, NOBODY = MetricHeader(0.5, (0.4, 0.6), 10), Trust(())


def made_header(**parts):
    whole = {
        "evaluation_id": "e", "timestamp": datetime(2026, 10, 1, tzinfo=UTC), "benchmark": "b", "system": "s",
        "system_version": "1", "dataset_version": "1", "fingerprints": {"judge": "j"}, "summary": {},
        "retrieval_level": "document", "retrieval_metrics": {"hit@1": HALF}, "page_retrieval_metrics": {"hit@1": HALF},
        "citation_metrics": {"span_accuracy": {"mean_tolerance_jaccard": 0.5, "reason": None, "perfect_matches": 3}},
        "answer_quality_metrics": {"f1": {"value": 0.5}, "abstention": {"recall": {"value": 0.25}, "answerable_answered": 3}},
        "performance_metrics": {}, "judge_metrics": {"judged_correct": HALF},
    }  # fmt: skip
    return ResultsHeader(**(whole | parts))


def names(groups):
    return {group.heading: [row.view.name for row in group.rows] for group in groups}


def test_metric_groups_are_in_order():
    assert names(metric_groups(made_header(), RunFile(), NOBODY)) == {
        "Retrieval, by document": ["hit@1"],
        "Retrieval, by page": ["page/hit@1"],
        "Answers": ["f1"],
        "Abstaining": ["abstention_recall"],
        "Citations": ["citation_jaccard"],
        "The judge": ["judged_correct"],
    }
    groups = metric_groups(made_header(retrieval_level="page"), RunFile(), NOBODY)
    assert [group.heading for group in groups][:2] == ["Retrieval, by page", "Retrieval, by document"]


def test_metric_groups_have_further_custom_and_unknown_metrics_once():
    further = {"exact_match": HALF, "f1": HALF, "thanks": HALF, "unheard_of": HALF}
    file = RunFile(
        further_metrics=further, custom_metrics={"thanks": CustomMetric("Words of thanks.", category="answers")}
    )

    found = names(metric_groups(made_header(), file, NOBODY))

    assert found["Answers"] == ["f1", "exact_match", "thanks"]
    assert found["Further measures"] == ["unheard_of"]


def test_metric_groups_doubt_all_metrics_of_an_uncalibrated_judge_and_no_others():
    groups = metric_groups(made_header(), RunFile(further_metrics={"faithfulness": HALF}), NOBODY)

    doubts = {row.view.name: row.doubt for group in groups for row in group.rows if row.doubt}
    assert doubts == {"judged_correct": NOT_CALIBRATED, "faithfulness": NOT_CALIBRATED}
    assert {group.heading: group.doubt for group in groups if group.doubt} == {"The judge": NOT_CALIBRATED}


def test_metric_groups_leave_out_what_is_no_metric():
    odd = {"f1": {"value": "much"}, "em": 7, "abstention": {"recall": None}}

    assert "Answers" not in names(metric_groups(made_header(answer_quality_metrics=odd), RunFile(), NOBODY))
