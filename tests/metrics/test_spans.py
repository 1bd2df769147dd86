"""Spans count a character once, keep half-open ends apart, and never turn "nothing to cite" into a score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.spans import (
    Overlap,
    Span,
    char_f1,
    char_precision,
    char_recall,
    dice,
    jaccard,
    merge,
    overlap,
    token_overlap,
    token_precision,
    token_recall,
)


def spans(*pairs):
    return [Span(*pair) for pair in pairs]


MERGED = {
    "spans that touch become one": ([(0, 5), (5, 10)], [(0, 10)]),
    "spans with a gap stay apart": ([(0, 5), (6, 10)], [(0, 5), (6, 10)]),
    "a span inside another vanishes": ([(0, 10), (2, 3)], [(0, 10)]),
    "order and repetition do not matter": ([(6, 9), (0, 2), (6, 9), (1, 4)], [(0, 4), (6, 9)]),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("given_spans", "expected"), MERGED.values(), ids=MERGED)
def test_merge(given_spans, expected):
    assert merge(spans(*given_spans)) == spans(*expected)


CASES = {
    #                                  gold               predicted          expected
    "the same characters":            ([(0, 10)],         [(0, 10)],         1.0),
    "half of the gold":               ([(0, 10)],         [(0, 5)],          0.5),
    "touching spans share nothing":   ([(0, 5)],          [(5, 10)],         0.0),
    "a character cited twice, once":  ([(0, 10)],         [(0, 6), (4, 10)], 1.0),
    "the specification's own pair":   ([(100, 200)],      [(150, 250)],      50 / 150),
    "two spans against one":          ([(0, 4), (6, 10)], [(2, 8)],          4 / 10),
    "cited where nothing was gold":   ([],                [(0, 5)],          0.0),
    "nothing cited":                  ([(0, 5)],          [],                0.0),
    "nothing gold, nothing cited":    ([],                [],                None),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "expected"), CASES.values(), ids=CASES)
def test_jaccard(gold, predicted, expected):
    assert jaccard(spans(*gold), spans(*predicted)) == expected


RATIOS = {
    #                                gold       predicted            precision  recall   F1 = dice
    "half right, all of it":        ([(0, 10)], [(0, 20)],           10 / 20,   10 / 10, 20 / 30),
    "all right, a third of it":     ([(0, 30)], [(0, 5), (20, 25)],  10 / 10,   10 / 30, 20 / 40),
    "nothing shared":               ([(0, 10)], [(10, 20)],          0.0,       0.0,     0.0),
    "nothing cited":                ([(0, 10)], [],                  0.0,       0.0,     0.0),
    "cited where nothing was gold": ([],        [(0, 10)],           0.0,       0.0,     0.0),
    "nothing gold, nothing cited":  ([],        [],                  None,      None,    None),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "precision", "recall", "f1"), RATIOS.values(), ids=RATIOS)
def test_character_ratios(gold, predicted, precision, recall, f1):
    gold, predicted = spans(*gold), spans(*predicted)

    assert char_precision(gold, predicted) == precision
    assert char_recall(gold, predicted) == recall
    assert char_f1(gold, predicted) == f1
    assert dice(gold, predicted) == f1


TEXT = "Ada Lovelace wrote notes, in 1843."
#       0   4        13    19     26 29


TOKENS = {
    "a token belongs to a span that holds part of it": ([(0, 12)], [(2, 6)], Overlap(2, 2, 2)),
    "two spans in one token count it once":            ([(0, 3)], [(0, 1), (2, 3)], Overlap(1, 1, 1)),
    "the token after the end is not cited":            ([(0, 12)], [(0, 4)], Overlap(1, 2, 1)),
    "punctuation and spaces are no tokens":            ([(13, 24)], [(24, 26)], Overlap(0, 2, 0)),
    "spans past the end of the text hold none":        ([(29, 33)], [(90, 99)], Overlap(0, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "expected"), TOKENS.values(), ids=TOKENS)
def test_token_overlap(gold, predicted, expected):
    assert token_overlap(spans(*gold), spans(*predicted), TEXT) == expected


def test_token_ratios():
    # gold: Ada Lovelace wrote; predicted: Lovelace wrote notes in. Shared: two.
    gold, predicted = spans((0, 18)), spans((4, 28))

    assert token_precision(gold, predicted, TEXT) == 2 / 4
    assert token_recall(gold, predicted, TEXT) == 2 / 3


def test_tokens_of_other_scripts_count():
    assert token_overlap(spans((0, 6)), spans((7, 10)), "Москва это город") == Overlap(0, 1, 1)


BAD_SPANS = {"no characters": (5, 5), "end before start": (5, 4), "negative start": (-1, 4)}


@pytest.mark.parametrize("pair", BAD_SPANS.values(), ids=BAD_SPANS)
def test_a_span_holds_at_least_one_character(pair):
    with pytest.raises(ValueError, match="0 <= start < end"):
        jaccard([], spans(pair))


some_span = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda pair: Span(pair[0], sum(pair)))
some_spans = st.lists(some_span, max_size=6)


@given(some_spans, some_spans)
def test_interval_arithmetic_equals_sets_of_characters(gold, predicted):
    left = {i for span in gold for i in range(*span)}
    right = {i for span in predicted for i in range(*span)}

    assert overlap(gold, predicted) == Overlap(len(left & right), len(left), len(right))


@given(some_spans, some_spans)
def test_jaccard_and_dice_are_symmetric_and_precision_mirrors_recall(gold, predicted):
    assert jaccard(gold, predicted) == jaccard(predicted, gold)
    assert dice(gold, predicted) == dice(predicted, gold)
    assert char_precision(gold, predicted) == char_recall(predicted, gold)


@given(st.lists(some_span, min_size=1, max_size=6))
def test_spans_match_themselves_perfectly(gold):
    assert jaccard(gold, gold) == dice(gold, gold) == 1.0


@given(some_spans)
def test_merging_twice_changes_nothing(given_spans):
    assert merge(merge(given_spans)) == merge(given_spans)


@given(some_spans, some_spans)
def test_tokens_counted_by_number_equal_tokens_counted_by_character(gold, predicted):
    text = "ab c  def, ghij kl. m nopq " * 4
    starts = {}
    for i, character in enumerate(text):
        if character.isalnum():
            starts[i] = starts.get(i - 1, i)
    left = {starts[i] for span in gold for i in range(*span) if i in starts}
    right = {starts[i] for span in predicted for i in range(*span) if i in starts}

    assert token_overlap(gold, predicted, text) == Overlap(len(left & right), len(left), len(right))
