"""Every measure has a name for people; what the registry says of it stands beside it, and a stranger keeps its name."""

import pytest

from rag_eval_pipeline.metrics.metric_info import label_from_key
from rag_eval_pipeline.metrics.registry import metric_label, metrics
from rag_eval_pipeline.report.metrics import CATEGORY_HEADINGS, custom_metric_view, metric_view
from rag_eval_pipeline.report.runs import CustomMetric
from rag_eval_pipeline.reporting.leaderboard import COLUMNS

LABELS = {
    "a measure with its cutoff": ("ndcg@10", "nDCG@10"),
    "words of a name": ("span_precision", "Span precision"),
    "the field's spelling inside": ("char_f1", "Char F1"),
    "a family of one scorer": ("ragchecker/claim_recall", "RAGChecker claim recall"),
    "a cutoff with a fraction": ("hit@0.5", "Hit@0.5"),
    "markup is no name and stays": ("<img src=x>", "<img src=x>"),
    "a sentence stays": ("Failure rate", "Failure rate"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("name", "label"), LABELS.values(), ids=LABELS)
def test_a_name_becomes_words(name, label):
    assert label_from_key(name) == label


def test_a_cutoff_is_said_in_its_meaning():
    assert "top 10" in metric_view("ndcg@10").meaning
    assert "top k" not in metric_view("recall@5").meaning


def test_which_way_is_better_comes_from_the_registry():
    assert metric_view("ndcg@10").way == "higher is better"
    assert metric_view("hallucination_vs_citations").way == "lower is better"
    assert metric_view("claims").way == ""


def test_a_measure_that_nobody_has_heard_of_keeps_its_name_and_no_way():
    figure = metric_view("politeness")

    assert (figure.label, figure.meaning, figure.way, figure.category) == ("Politeness", "", "", "other")


def test_a_metric_of_ones_own_is_what_the_results_say_of_it():
    row = CustomMetric("Words of thanks.", "us", "lower", 0.0, None, "answers")

    figure = custom_metric_view("thanks", row)

    assert (figure.label, figure.meaning, figure.way, figure.category, figure.unit) == (
        "Thanks", "Words of thanks.", "lower is better", "answers", "number",
    )  # fmt: skip
    assert custom_metric_view("thanks", CustomMetric(category="<b>")).category == "other"


def test_every_measure_of_the_registry_and_the_leaderboard_has_a_label_and_a_meaning():
    for name in (*COLUMNS, *(row.name.replace("@k", "@5") for row in metrics())):
        figure = metric_view(name)
        assert figure.label, name
        assert figure.meaning.endswith("."), name
        assert figure.category in CATEGORY_HEADINGS, name


def test_a_level_stands_behind_the_name():
    assert metric_label("page/ndcg@10") == "nDCG@10 by page"
