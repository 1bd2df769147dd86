"""Means over questions: who counts, who failed, who was left out, and which of them are worth one together."""

import pytest

from rag_eval_pipeline.evaluation.means import MeanGroup, Means, named, question_clusters
from rag_eval_pipeline.evaluation.storage import QueryScores, read_scores, write_scores
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.metrics.intervals import clustered_wilson_interval, summarise, wilson_interval


def query(query_id, *documents):
    return EvaluationQuery(query_id=query_id, query_text="Why?", relevant_documents=documents)


def test_questions_about_the_same_documents_are_one_cluster_and_others_stand_alone():
    queries = [query("0", "a.pdf"), query("1", "b.pdf", "a.pdf"), query("2", "a.pdf", "b.pdf"), query("3"), query("4")]

    clusters = question_clusters(queries)

    assert clusters["1"] == clusters["2"]
    assert len({clusters[name] for name in "01234"}) == 4  # a, a and b, and two of their own
    assert clusters["3"] != clusters["4"]


# Six questions about three documents; the last two got no answer, the fourth has no such measure.
ROWS = [
    QueryScores("0", "scored", None, {"hit": 1.0, "gain": 0.9}),
    QueryScores("1", "scored", None, {"hit": 1.0, "gain": 0.8}),
    QueryScores("2", "scored", None, {"hit": 0.0, "gain": 0.3}),
    QueryScores("3", "skipped", "impossible"),
    QueryScores("4", "failed", "timeout"),
    QueryScores("5", "failed", "error", {}, {"own": "error"}),
]
CLUSTERS = {"0": "a", "1": "a", "2": "b", "3": "b", "4": "c", "5": "c"}


@pytest.fixture
def means():
    rows = [ROWS[0], ROWS[1], QueryScores("2", "scored", None, ROWS[2].scores, {"own": "broken"}), *ROWS[3:]]
    groups = {
        "all": MeanGroup(rows, named(["hit", "gain", "none"]), level="document"),
        "renamed": MeanGroup(rows[:2], {"hit@1": "hit"}, left_out=4),
        "own": MeanGroup(
            [QueryScores(r.query_id, r.outcome, r.reason, {**r.scores, **({"own": 0.5} if r.scores else {})}, r.faults)
             for r in rows[:2]] + rows[2:],
            named(["own"]),
            own=frozenset({"own"}),
        ),
    }  # fmt: skip
    return Means(groups, CLUSTERS, seed=7)


def test_every_question_is_scored_failed_or_skipped(means):
    metric = means.one("all", "hit")

    assert (metric.value, metric.n_scored, metric.n_failed, metric.n_skipped) == (2 / 3, 3, 2, 1)
    assert (metric.coverage, metric.level) == (3 / 5, "document")


def test_questions_that_are_left_out_are_skipped(means):
    metric = means.one("renamed", "hit@1")

    assert (metric.value, metric.n_scored, metric.n_skipped) == (1.0, 2, 4)


def test_an_own_metric_fails_where_it_says_so_and_not_with_every_answer(means):
    metric = means.one("own", "own")

    # Two scores, two faults; the question that timed out is none of its own.
    assert (metric.n_scored, metric.n_failed, metric.n_skipped) == (2, 2, 2)


def test_a_measure_that_no_question_has_has_a_reason(means):
    assert (means.one("all", "none").value, means.one("all", "none").reason) == (None, "all_failed")


def test_questions_of_one_document_count_once_in_the_interval(means):
    shared, graded = means.one("all", "hit"), means.one("all", "gain")

    import numpy as np

    expected, _ = clustered_wilson_interval(np.array([1.0, 1.0, 0.0]), ["a", "a", "b"])
    assert shared.confidence_interval == expected != wilson_interval(2, 3)
    assert shared.n_clusters == graded.n_clusters == 2
    alone = summarise([0.9, 0.8, 0.3], clusters=["a", "a", "b"], seed=7)
    assert graded.confidence_interval == pytest.approx(alone.confidence_interval, abs=1e-12)
    assert "2 clusters" in graded.method


def test_means_of_a_group_keep_the_order_in_which_they_are_asked_for(means):
    assert list(means.all_of("all")) == ["hit", "gain", "none"]


def test_faults_are_kept_beside_the_scores(tmp_path):
    rows = [*ROWS[:2], QueryScores("2", "scored", None, {"hit": 0.0}, {"own": "metric own, question 2: …"}), *ROWS[3:]]

    write_scores(tmp_path / "s.parquet", rows, ["hit", "gain"], evaluation_id="e")
    write_scores(tmp_path / "plain.parquet", ROWS[:3], ["hit", "gain"], evaluation_id="e")

    assert read_scores(tmp_path / "s.parquet") == rows
    assert read_scores(tmp_path / "plain.parquet") == ROWS[:3]
