"""Charts are well formed, are named for screen readers, and mark what regressed."""

from xml.etree import ElementTree

import pytest

from rag_eval_pipeline.site.charts import (
    Change,
    Line,
    Point,
    changes_chart,
    latency_histogram,
    sparkline,
    ticks,
    trend,
)

TICKS = {
    "a share": (0.0, 1.0, [0, 0.25, 0.5, 0.75, 1]),
    "a narrow range": (0.41, 0.49, [0.4, 0.42, 0.44, 0.46, 0.48, 0.5]),
    "both sides of zero": (-0.3, 0.1, [-0.3, -0.2, -0.1, 0, 0.1]),
    "one value, zero": (0, 0, [-0.5, -0.25, 0, 0.25, 0.5]),
}


def read(chart):
    return ElementTree.fromstring(str(chart))


def classes(chart):
    return [element.get("class") for element in read(chart).iter() if element.get("class")]


@pytest.mark.parametrize(("low", "high", "axis"), TICKS.values(), ids=TICKS)
def test_ticks_are_round_numbers_that_enclose_the_values(low, high, axis):
    assert ticks(low, high) == axis


def test_trend_marks_the_night_that_regressed_and_has_a_name():
    nights = [Point(0.7, (0.6, 0.8)), Point(None), Point(0.5, (0.4, 0.6), "regressed"), Point(0.8, None, "improved")]

    chart = trend([Line("a", nights), Line("b", [Point(0.1)] * 4)], ["1", "2", "3", "4"], 'F1 of "<a>"')

    assert read(chart).get("aria-label") == 'F1 of "<a>"'
    assert classes(chart).count("regressed") == 1
    assert classes(chart).count("improved") == 1
    assert classes(chart).count("line s0") == classes(chart).count("line s1") == 1
    assert "-" not in "".join(read(chart).itertext())  # an axis of shares does not go below zero


def test_trend_that_does_not_move_has_an_axis_and_without_values_a_note():
    assert "nothing to draw" in trend([Line("a", [Point(None)])], ["1"], "F1")
    for values in ([0.0], [1.0, 1.0]):
        chart = trend([Line("a", [Point(value) for value in values])], [str(n) for n in range(len(values))], "F1")
        assert "NaN" not in chart
        assert classes(chart).count("grid") >= 2


def test_sparkline_needs_two_nights():
    assert sparkline([Point(0.5), Point(None)], "F1") == ""
    assert classes(sparkline([Point(0.5), Point(0.4, None, "regressed")], "F1")) == ["spark", "line s0", "regressed"]


def test_changes_chart_is_in_points_with_a_sign():
    texts = list(
        read(changes_chart([Change("F1", -0.031, (-0.046, -0.016), "regressed")], "c", margin=0.02)).itertext()
    )

    assert texts == ["−5", "−2.5", "0", "2.5", "5", "F1", "−3.1"]
    long = Change("Citation overlap of section tariffs", -0.257, None, "regressed")
    assert {"Citation overlap of", "section tariffs"} < {*read(changes_chart([long], "c", margin=0.02)).itertext()}


def test_latency_histogram_counts_every_question():
    chart = latency_histogram([1.0, 1.0, 10.0, 0.0], [("p50", 1.0)], "Latency")

    bars = [e for e in read(chart).iter("rect")]
    assert len(bars) == 3
    assert "p50" in list(read(chart).itertext())
    texts = list(read(latency_histogram([50.0, 1360.0, 33_000.0], [], "Latency")).itertext())
    assert texts[-3:] == ["50 ms", "1.28 s", "33.00 s"]
