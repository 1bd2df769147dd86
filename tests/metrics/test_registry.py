"""Every metric has one key, one label, one meaning and one direction; installed custom metrics join the list."""

import sys

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics import registry
from rag_eval_pipeline.metrics.answers import score_answer
from rag_eval_pipeline.metrics.custom import find_metric
from rag_eval_pipeline.metrics.registry import QUESTION_METRICS, built_in_metrics, metric_label, metrics
from rag_eval_pipeline.metrics.retrieval.engine import score_rankings
from rag_eval_pipeline.metrics.span_matching import score_spans
from rag_eval_pipeline.metrics.spans import Citation, Span, find_tokens

CODE = """
from rag_eval_pipeline.metrics.custom import MetricInfo
from rag_eval_pipeline.metrics.retrieval.families import Family
import numpy as np

def half(rankings, parameters):
    return np.where(rankings.n_found_at(parameters.k) > 0, 0.5, 0.0)

HALF = Family(
    MetricInfo("half@k", "Half a point for a hit in the top k.", "here", ("ranking", "relevant"), ("document",)),
    half, takes="cutoff",
)
COPY = Family(MetricInfo("ndcg@k", "Another ndcg.", "here", ("ranking",), ("document",)), half, takes="cutoff")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "team_measures.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("team_measures", None)


def install(folder, line):
    information = folder / "team_measures-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: team-measures\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[rag_eval_pipeline.metrics]\n{line}\n")


def test_rows_are_complete_and_keys_unique():
    rows = metrics()

    for row in rows:
        assert row.meaning.endswith("."), row
        assert all((row.source, row.needs, row.levels, row.label)), row
        assert row.range.low < row.range.high
        assert ("top k" in row.meaning) == row.name.endswith("@k") == row.label.endswith("@k")
    assert len({row.label for row in rows}) == len(rows)


def test_scores_of_questions_have_a_row_and_are_in_its_range():
    gold, cited = [[Citation("a.pdf", None, Span(0, 10))]], [[Citation("a.pdf", None, Span(5, 30))]]
    (scores,) = score_spans(gold, cited, texts={"a.pdf": find_tokens("word " * 20)}).rows()
    scores |= score_answer("the duke", ["duke Rollo"])._asdict()
    rows = {row.name: row for row in QUESTION_METRICS}

    assert len(scores) == 18
    for name, score in scores.items():
        assert rows[name].range.low <= score <= rows[name].range.high


LABELS = {
    "ndcg@10": "nDCG@10",
    "page/ndcg@10": "nDCG@10 by page",
    "tolerance_jaccard": "Citation overlap",
    "hallucination_vs_citations": "Hallucination rate, cited",
    "abstention/f1": "Abstention F1",
    "of_our_team@5": "Of our team@5",
    "rbp(p=0.5)@10": "rbp(p=0.5)@10",
    "<img src=x>": "<img src=x>",
}


def test_labels_are_made_from_keys():
    assert {key: metric_label(key) for key in LABELS} == LABELS


def test_custom_family_is_a_measure_by_its_import_path(package):
    assert score_rankings([(["a"], {"a": 1})], ["team_measures:HALF@3"]) == [{"half@3": 0.5}]


def test_installed_metrics_join_by_entry_point(package):
    install(package, "half = team_measures:HALF")

    assert [row.name for row in metrics()][len(built_in_metrics()) :] == ["half@k"]
    with pytest.raises(InputError, match=r"unknown_metric.*Entry points: half\."):
        find_metric("whole")


def test_installed_metric_with_a_taken_name_costs_only_itself(package):
    install(package, "copy = team_measures:COPY")
    registry.metrics_by_key.cache_clear()

    with pytest.raises(InputError, match="duplicate_metric"):
        metrics()
    assert metric_label("ndcg@5") == "nDCG@5"
    registry.metrics_by_key.cache_clear()
