"""A run's page shows every figure that its results have, each once, in its room and with its doubts."""

from datetime import UTC, datetime

import msgspec

from rag_eval_pipeline.report.metrics import metric_groups
from rag_eval_pipeline.report.runs import CustomMetric, RunFile
from rag_eval_pipeline.reporting.comparison import NOT_CALIBRATED
from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.reporting.leaderboard import Trust

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
    return {group.heading: [row.figure.name for row in group.rows] for group in groups}


def test_figures_stand_in_their_rooms_in_the_order_of_reading():
    assert names(metric_groups(made_header(), RunFile(), NOBODY)) == {
        "Retrieval, by document": ["hit@1"],
        "Retrieval, by page": ["page/hit@1"],
        "Answers": ["f1"],
        "Abstaining": ["abstention_recall"],
        "Citations": ["citation_jaccard"],
        "The judge": ["judged_correct"],
    }


def test_the_level_to_look_at_first_comes_first():
    groups = metric_groups(made_header(retrieval_level="page"), RunFile(), NOBODY)

    assert [group.heading for group in groups][:2] == ["Retrieval, by page", "Retrieval, by document"]


def test_further_and_own_metrics_and_strangers_are_shown_once_each():
    further = {"rouge_l": HALF, "f1": HALF, "thanks": HALF, "unheard_of": HALF}
    file = RunFile(
        further_metrics=further, own_metrics={"thanks": CustomMetric("Words of thanks.", category="answers")}
    )

    found = names(metric_groups(made_header(), file, NOBODY))

    assert found["Answers"] == ["f1", "rouge_l", "thanks"]
    assert found["Further measures"] == ["unheard_of"]


def test_all_figures_of_a_judge_nobody_vouches_for_are_in_doubt_and_no_others():
    groups = metric_groups(made_header(), RunFile(further_metrics={"faithfulness": HALF}), NOBODY)

    doubts = {row.figure.name: row.doubt for group in groups for row in group.rows if row.doubt}
    assert doubts == {"judged_correct": NOT_CALIBRATED, "faithfulness": NOT_CALIBRATED}
    assert {group.heading: group.doubt for group in groups if group.doubt} == {"The judge": NOT_CALIBRATED}


def test_a_part_that_is_no_figure_is_left_out():
    odd = {"f1": {"value": "much"}, "em": 7, "abstention": {"recall": None}}

    assert "Answers" not in names(metric_groups(made_header(answer_quality_metrics=odd), RunFile(), NOBODY))


def test_custom_metric_has_the_category_that_its_results_file_states():
    stated = b'{"meaning": "Words of thanks.", "room": "answers"}'

    assert msgspec.json.decode(stated, type=CustomMetric).category == "answers"
