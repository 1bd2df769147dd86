"""Sentences call a metric as people do; a name that nobody shortened is read as words."""

import pytest

from rag_eval_pipeline.metrics.registry import metrics
from rag_eval_pipeline.metrics.titles import PAGE_LEVEL, TITLES, title_of

NAMES = {
    "exact_match": "EM",
    "f1": "F1",
    "hit@1": "Hit@1",
    "ndcg@10": "nDCG@10",
    "mrr": "MRR",
    "page/ndcg@10": "nDCG@10 by page",
    "page/mrr": "MRR by page",
    "tolerance_jaccard": "Citation overlap",
    "Failure rate": "Failure rate",
    "span_recall": "span recall",
    "of_our_own@5": "of our own@5",
}


@pytest.mark.parametrize(("name", "title"), NAMES.items())
def test_the_short_name(name, title):
    assert title_of(name) == title


def test_every_short_name_is_of_a_metric_that_there_is():
    families = {row.name.partition("@")[0] for row in metrics()}

    assert set(TITLES) <= families


def test_pages_are_marked_as_in_the_files_of_scores():
    from rag_eval_pipeline.evaluation.scores_file import PAGE

    assert PAGE_LEVEL == PAGE
