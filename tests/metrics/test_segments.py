"""Segments: drops of some questions that the whole does not show, on nights of 400 questions in eight sections."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.run_labels import PairedRuns, label_test, pair_runs
from rag_eval_pipeline.metrics.segments import find_segments, segment_changes
from rag_eval_pipeline.metrics.verdict_rules import Rules
from rag_eval_pipeline.metrics.verdicts import is_sure
from rag_eval_pipeline.monitoring.verdict_records import segment_text

N = 400
RULES = Rules(level=5e-6)
SECTION = [f"s{place % 8}" for place in range(N)]
LANGUAGE = ["en" if place % 5 else "de" for place in range(N)]


def night(drops: dict[str, int], units=None) -> PairedRuns:
    """Three of four questions are right, one of 20 now and then; the first stable ones of sections fall (or rise)."""
    rng = np.random.default_rng(7)
    right, wavers = rng.random(N) < 0.75, rng.random(N) < 0.05
    scores = (right ^ (wavers & (rng.random((7, N)) < 0.5))).astype(float)
    for section, drop in drops.items():
        own = [n for n in range(N) if SECTION[n] == section and not wavers[n] and right[n] == (drop > 0)]
        scores[5:, own[: abs(drop)]] = float(drop < 0)
    return pair_runs(scores[:5], scores[5:], units)


def members(**columns):
    return {
        (name, value): [place for place in range(N) if values[place] == value]
        for name, values in columns.items()
        for value in dict.fromkeys(values)
    }


COLUMNS = members(section=SECTION, language=LANGUAGE, number=[f"{place % 300}" for place in range(N)])
ONE_DOCUMENT = np.array([0 if section == "s3" else 1 + n for n, section in enumerate(SECTION)])
NIGHTS = {  # segments: questions that fell and rose, and all
    "quiet":                (night({}), []),
    "one section of eight": (night({"s3": 8}), [("section s3", 8, 0, 50)]),
    "one rose":             (night({"s3": -8}), [("section s3", 0, 8, 50)]),
    "two sections":         (night({"s3": 12, "s6": 9}), [("section s3", 12, 0, 50), ("section s6", 9, 0, 50)]),
    "all of them":          (night({f"s{n}": 12 for n in range(8)}), []),
    "one document":         (night({"s3": 8}, ONE_DOCUMENT), []),
}  # fmt: skip


def changes(paired: PairedRuns, segments=None):
    """The segments that changed for sure, as they would be confirmed."""
    found = segment_changes({"f1": paired}, segments or find_segments(COLUMNS, N), RULES)
    return [one.evidence for one in found if is_sure(one.evidence)]


@pytest.mark.parametrize(("paired", "expected"), NIGHTS.values(), ids=NIGHTS)
def test_segments_that_fell_or_rose(paired, expected):
    found = changes(paired)

    assert [(one.segment.name, one.fell, one.rose, one.n) for one in found] == expected
    assert all(not one.adjusted_interval.low <= 0 <= one.adjusted_interval.high for one in found)


def test_segment_is_found_where_the_whole_shows_nothing():
    paired = night({"s3": 8})
    [found] = changes(paired)

    assert label_test(paired).low > RULES.level
    assert segment_text(found) == "section s3 −14.8 points (50 questions); the other 350 unchanged"


def test_columns_with_too_many_values_or_too_few_questions_are_not_tested():
    rare = members(rare=["a"] * (N - 9) + ["b"] * 9, twice=SECTION)

    assert {column for column, _ in find_segments(COLUMNS | rare, N)} == {"section", "language"}


@given(st.permutations(range(N)))
def test_order_of_questions_plays_no_part(order):
    paired, places = night({"s3": 12, "s6": -9}), np.argsort(order)
    moved = PairedRuns(paired.reference[:, order], paired.current[:, order], paired.units[list(order)])
    shuffled = {name: [int(places[n]) for n in COLUMNS[name]] for name in sorted(COLUMNS, reverse=True)}

    def facts(found):
        return [(one.key, one.fell, one.rose, pytest.approx(one.p_corrected)) for one in found]

    assert facts(changes(moved, find_segments(shuffled, N))) == facts(changes(paired))
