"""Segments: drops of some questions that the whole does not show, on nights of 400 questions in eight sections."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.run_labels import PairedRuns, label_test, pair_runs
from rag_eval_pipeline.metrics.segments import find_segments, segment_changes

N, LEVEL = 400, 1e-5
SECTION = [f"s{place % 8}" for place in range(N)]
LANGUAGE = ["en" if place % 5 else "de" for place in range(N)]


def night(drops: dict[str, int], *, reference_runs: int = 5, runs: int = 2, churn: int = 0) -> PairedRuns:
    """Three of four questions are right, one of 20 now and then; the first stable ones of sections fall (or rise)."""
    rng = np.random.default_rng(7)
    right, wavers = rng.random(N) < 0.75, rng.random(N) < 0.05
    scores = (right ^ (wavers & (rng.random((reference_runs + runs, N)) < 0.5))).astype(float)
    for section, drop in drops.items():
        own = [n for n in range(N) if SECTION[n] == section and not wavers[n] and right[n] == (drop > 0)]
        scores[reference_runs:, own[: abs(drop)]] = float(drop < 0)
        scores[reference_runs:, [n for n in range(N) if SECTION[n] == section and not right[n]][:churn]] = 1.0
    return pair_runs(scores[:reference_runs], scores[reference_runs:])


def members(**columns):
    return {
        (name, value): [place for place in range(N) if values[place] == value]
        for name, values in columns.items()
        for value in dict.fromkeys(values)
    }


COLUMNS = members(section=SECTION, language=LANGUAGE, number=[f"{place % 300}" for place in range(N)])
NIGHTS = {
    # drops of sections, churn -> segments that fell or rose, with the questions that did
    "quiet":                        ({}, 0, []),
    "one section of eight":         ({"s3": 8}, 0, [("section", "s3", 8, 0)]),
    "one rose":                     ({"s3": -8}, 0, [("section", "s3", 0, 8)]),
    "two sections":                 ({"s3": 12, "s6": 9}, 0, [("section", "s3", 12, 0), ("section", "s6", 9, 0)]),
    "all of them fell":             ({f"s{n}": 12 for n in range(8)}, 0, []),
    "other answers, half each way": ({"s3": 9}, 9, []),
}  # fmt: skip


@pytest.mark.parametrize(("drops", "churn", "expected"), NIGHTS.values(), ids=NIGHTS)
def test_segments_that_fell_or_rose(drops, churn, expected):
    paired = night(drops, churn=churn)
    found = segment_changes({"exact_match": paired}, find_segments(COLUMNS, N), LEVEL)

    assert [(one.column, one.value, one.fell, one.rose) for one in found] == expected
    for one in found:
        assert (one.n, one.n_others) == (50, 350)
        assert one.p_corrected <= one.level == LEVEL / 2


def test_whole_does_not_show_what_a_segment_does():
    paired = night({"s3": 8})
    [found] = segment_changes({"exact_match": paired}, find_segments(COLUMNS, N), LEVEL)

    assert label_test(paired).low > LEVEL
    assert found.estimate == pytest.approx(-8 / 50, abs=0.02)
    assert -0.02 < found.others_interval.low < found.others_estimate < found.others_interval.high < 0.02


def test_columns_with_too_many_values_or_too_few_questions_are_none():
    rare = members(rare=["a"] * (N - 9) + ["b"] * 9, twice=SECTION)

    assert {column for column, _ in find_segments(COLUMNS | rare, N)} == {"section", "language"}


def test_documents_within_the_segment_are_its_units():
    paired = night({"s3": 8})
    one_document = paired._replace(units=np.array([0 if one == "s3" else 1 + n for n, one in enumerate(SECTION)]))

    assert segment_changes({"exact_match": one_document}, find_segments(COLUMNS, N), LEVEL) == []


@given(st.permutations(range(N)))
def test_order_of_questions_plays_no_part(order):
    paired, places = night({"s3": 12, "s6": -9}), np.argsort(order)
    moved = PairedRuns(paired.reference[:, order], paired.current[:, order], paired.units[list(order)])
    shuffled = {name: [int(places[n]) for n in COLUMNS[name]] for name in sorted(COLUMNS, reverse=True)}
    found = segment_changes({"exact_match": moved}, find_segments(shuffled, N), LEVEL)
    expected = segment_changes({"exact_match": paired}, find_segments(COLUMNS, N), LEVEL)

    assert [(one.value, one.fell, one.rose, pytest.approx(one.p_corrected)) for one in found] == [
        (one.value, one.fell, one.rose, one.p_corrected) for one in expected
    ]
