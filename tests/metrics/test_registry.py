"""Every metric is a row with all that a reader asks of it; own metrics join the list."""

import dataclasses
import math
import sys

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.registry import Metric, Range, definitions, metric_table, metrics
from rag_eval_pipeline.metrics.retrieval import Family, parse_measure, score_query

OWN = """
from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval import Family
import numpy as np

def half(standings, parameters):
    return np.where(standings.within(parameters.k) > 0, 0.5, 0.0)

HALF = Family(Metric("half@k", "Half a point for a hit in the top k.", "here", ("ranking", "relevant"), ("document",)),
              half, takes="cutoff")
COPY = Family(Metric("ndcg@k", "Another ndcg.", "here", ("ranking",), ("document",)), half, takes="cutoff")
NOT_ONE = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_measures.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_measures"
    sys.modules.pop("own_measures", None)


def test_every_row_is_complete():
    for row in metrics():
        assert row.meaning.endswith(".")
        assert row.source
        assert row.needs
        assert row.levels
        assert row.range.low < row.range.high
        assert ("top k" in row.meaning) == row.name.endswith("@k")


def test_a_row_is_data_that_nobody_changes():
    with pytest.raises(dataclasses.FrozenInstanceError):
        metrics()[0].name = "other"


def test_scores_lie_in_the_range_of_their_row():
    ranking, grades = ["a", "b", "x", "c"], {"a": 2, "b": 0, "c": 1, "d": 3, "e": -1}

    for definition in definitions():
        row = definition.metric
        if isinstance(definition, Family) and definition.printed != "text" and definition.summary != "geometric":
            name = row.name.replace("@k", "@3") if definition.takes != "fraction" else f"{row.name}_0.50"
            (score,) = score_query(ranking, grades, [name]).values()
            assert row.range.low <= score <= row.range.high, name


def test_the_table_has_a_line_a_metric():
    table = metric_table(
        [Metric("a@k", "Of the top k.", "here", ("ranking",), ("document",), range=Range(0.0, math.inf))]
    )

    assert table.splitlines()[2] == "| `a@k` | Of the top k. | 0 to inf | higher | document | here |"


def test_an_own_measure_joins_by_its_import_path(own):
    assert [row.name for row in metrics([f"{own}:HALF"])][-1] == "half@k"
    assert parse_measure(f"{own}:HALF@3").meaning == "Half a point for a hit in the top 3."
    assert score_query(["a"], {"a": 1}, [f"{own}:HALF@3"]) == {"half@3": 0.5}


def test_an_installed_package_joins_by_its_entry_point(own, tmp_path):
    information = tmp_path / "own_measures-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: own-measures\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[rag_eval_pipeline.metrics]\nhalf = {own}:HALF\n")

    assert [row.name for row in metrics()][-1] == "half@k"


def test_a_name_that_is_taken_is_refused(own):
    with pytest.raises(InputError) as error:
        definitions([f"{own}:COPY"])

    assert error.value.code == "duplicate_metric"


BAD = {
    "no path": "half",
    "no such module": "no_such_module:HALF",
    "no such name": "own_measures:NONE",
    "no metric": "own_measures:NOT_ONE",
}


@pytest.mark.parametrize("path", BAD.values(), ids=BAD)
def test_what_is_no_metric_is_refused(own, path):
    with pytest.raises(InputError) as error:
        metrics([path])

    assert error.value.code == "bad_metric"
