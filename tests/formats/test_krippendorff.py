"""Alpha equals the published examples, and says why where there is none."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.formats.krippendorff import Unit, krippendorff_alpha

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", C: four observers, twelve units, missing data.
OBSERVERS = [
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
]
PUBLISHED = [
    Unit(tuple(int(value) for value in column if value != "."))
    for column in zip(*(row.split() for row in OBSERVERS), strict=True)
]


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_the_published_example(level, expected):
    alpha = krippendorff_alpha(PUBLISHED, level)

    assert round(alpha.value, 3) == expected
    # The last unit has one value and takes no part: 11 units with 40 values.
    assert (alpha.n_units, alpha.n_values, alpha.reason) == (11, 40, None)


def test_two_observers_worked_out():
    # Units (a,a) (a,a) (b,b) (a,b): n = 8, a 5 times, b 3 times.
    # Observed, ordered pairs that differ: 2 in one unit, over m - 1 = 1:          2
    # Expected: (64 - 25 - 9) / 7 = 30 / 7.         1 - 2 / (30 / 7) = 16 / 30
    units = [Unit((0, 0)), Unit((0, 0)), Unit((1, 1)), Unit((0, 1))]

    assert krippendorff_alpha(units, "nominal").value == float(Fraction(16, 30))


def test_a_weight_is_as_many_equal_units():
    once = [Unit((1, 0)), *[Unit((1, 1))] * 3, *[Unit((0, 0))] * 1000]
    weighted = [Unit((1, 0)), Unit((1, 1), 3), Unit((0, 0), 1000)]

    assert krippendorff_alpha(weighted, "nominal") == krippendorff_alpha(once, "nominal")


NOTHING = {
    "no units":                      ([],                             "nothing_to_compare"),
    "one value a unit":              ([Unit((1,)), Unit((2,))],       "nothing_to_compare"),
    "nothing but one value":         ([Unit((0.1, 0.1, 0.1))] * 3,    "no_variation"),
    "one value where any two meet":  ([Unit((1, 1)), Unit((2,))],     "no_variation"),
}  # fmt: skip


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize(("units", "reason"), NOTHING.values(), ids=NOTHING)
def test_no_alpha_has_a_reason(units, reason, level):
    alpha = krippendorff_alpha(units, level)

    assert (alpha.value, alpha.reason) == (None, reason)


def test_perfect_agreement_is_one_and_systematic_disagreement_below_zero():
    assert krippendorff_alpha([Unit((1, 1)), Unit((2, 2))], "interval").value == 1.0
    # n = 4, two of each: observed 2 + 2, expected (16 - 4 - 4) / 3 = 8 / 3; 1 - 4 / (8 / 3) = -1 / 2
    assert krippendorff_alpha([Unit((1, 2)), Unit((2, 1))], "nominal").value == -0.5


def pairwise_alpha(units, differ):
    """The definition, over all pairs."""
    values = [value for unit in units for value in unit.values]
    observed = sum(
        Fraction(differ(a, b), len(unit.values) - 1)
        for unit in units
        for i, a in enumerate(unit.values)
        for j, b in enumerate(unit.values)
        if i != j
    )
    expected = sum(
        Fraction(differ(a, b), len(values) - 1) for i, a in enumerate(values) for j, b in enumerate(values) if i != j
    )
    return float(1 - observed / expected)


@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=4), min_size=1, max_size=8))
def test_the_quick_sums_equal_the_definition(groups):
    units = [Unit(tuple(group)) for group in groups]
    counts = {value: sum(group.count(value) for group in groups) for group in groups for value in group}
    if len(counts) < 2:
        return

    def ranks_between(a, b):
        low, high = min(a, b), max(a, b)
        between = sum(counts.get(value, 0) for value in range(low, high + 1))
        return (between - Fraction(counts[a] + counts[b], 2)) ** 2 if a != b else 0

    assert krippendorff_alpha(units, "nominal").value == pairwise_alpha(units, lambda a, b: int(a != b))
    assert krippendorff_alpha(units, "interval").value == pairwise_alpha(units, lambda a, b: (a - b) ** 2)
    assert krippendorff_alpha(units, "ordinal").value == pairwise_alpha(units, ranks_between)
