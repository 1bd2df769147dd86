"""Columns of many answers score as sets of characters and a search of all matchings do, answer by answer."""

from itertools import permutations, starmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.span_matching import (
    EXACT_WEIGHT,
    PAIRS_AT_ONCE,
    SPAN_MEASURES,
    score_columns,
    score_spans,
)
from rag_eval_pipeline.metrics.spans import (
    Citation,
    Overlap,
    Span,
    SpanColumns,
    find_tokens,
    overlap,
    sort_distinct,
)


def cite(start, end, file_name="a.pdf", page=None):
    return Citation(file_name, page, Span(start, end))


some_citation = st.builds(
    lambda file_name, page, start, length: cite(start, start + length, file_name, page),
    st.sampled_from(["a.pdf", "b.pdf"]),
    st.sampled_from([None, 1, 2]),
    st.integers(0, 40),
    st.integers(1, 25),
)
some_side = st.lists(some_citation, max_size=5)
some_answers = st.lists(st.tuples(some_side, some_side), max_size=6)
some_tolerance = st.sampled_from([0, 1, 5, 10])


def scores_of(answers, tolerance=10):
    return score_spans([g for g, _ in answers], [p for _, p in answers], tolerance=tolerance)


# A slow reference: sets of characters instead of intervals, all matchings instead of the Hungarian method.


def jaccard(gold, predicted):
    left, right = set(range(*gold)), set(range(*predicted))
    return len(left & right) / len(left | right)


def moved(span, gold, tolerance):
    """The span with each end moved towards the gold end by at most `tolerance` characters."""
    return [min(max(target, end - tolerance), end + tolerance) for end, target in zip(span, gold, strict=True)]


def plain_scores(gold, predicted, tolerance):
    """The counts and sums of one answer by the names of `SpanScores`."""
    gold, predicted = (
        sorted(set(side), key=lambda c: (c.file_name, c.page or 0, c.span)) for side in (gold, predicted)
    )
    exact, tolerant = {}, {}
    for i, wanted in enumerate(gold):
        for j, given_one in enumerate(predicted):
            is_same_page = wanted.page is None or given_one.page is None or wanted.page == given_one.page
            near = jaccard(wanted.span, moved(given_one.span, wanted.span, tolerance))
            if wanted.file_name == given_one.file_name and is_same_page and near > 0:
                exact[i, j], tolerant[i, j] = jaccard(wanted.span, given_one.span), near
    weight = {pair: tolerant[pair] + EXACT_WEIGHT * exact[pair] for pair in exact}
    is_turned = len(gold) > len(predicted)
    short, long = sorted((len(gold), len(predicted)))
    matchings = [
        [(j, i) if is_turned else (i, j) for i, j in enumerate(order)] for order in permutations(range(long), short)
    ]
    without_page = {citation.file_name for citation in (*gold, *predicted) if citation.page is None}
    left, right = (
        {(c.file_name, c.page if c.file_name not in without_page else 0, at) for c in side for at in range(*c.span)}
        for side in (gold, predicted)
    )
    return {
        "n_gold": len(gold),
        "n_predicted": len(predicted),
        "weight": max(sum(weight.get(pair, 0.0) for pair in matching) for matching in matchings),
        "characters": Overlap(len(left & right), len(left), len(right)),
    }


@given(some_answers, some_tolerance)
def test_counts_and_sums_equal_the_plain_reference(answers, tolerance):
    scores = scores_of(answers, tolerance)

    for i, (gold, predicted) in enumerate(answers):
        plain = plain_scores(gold, predicted, tolerance)
        exactly = ("n_gold", "n_predicted")
        assert {name: getattr(scores, name)[i] for name in exactly} == {name: plain[name] for name in exactly}
        assert Overlap(*(int(column[i]) for column in scores.characters)) == plain["characters"]
        # Of several best matchings either may be found: only what they make large is the same.
        assert scores.tolerant[i] + EXACT_WEIGHT * scores.exact[i] == pytest.approx(plain["weight"], abs=1e-9)


@given(some_answers, some_tolerance, st.randoms(use_true_random=False))
def test_scores_depend_neither_on_the_order_of_citations_nor_on_other_answers(answers, tolerance, random):
    shuffled = [tuple(random.sample(side, len(side)) for side in answer) for answer in answers]

    together = scores_of(shuffled, tolerance).rows()

    assert together == [row for answer in answers for row in scores_of([answer], tolerance).rows()]


GOLD = cite(100, 200)
THREE = [cite(0, 9), cite(50, 59), cite(90, 99)]

CASES = {
    #                                     gold            predicted              exact      tolerant   perfect, good
    "identical spans, however short":    ([cite(0, 5)],   [cite(0, 5)],          1.0,       1.0,       1, 1),
    # 50 of 150 characters; both ends move 10 towards gold: [140, 240) shares 60 of 140.
    "the specification's own pair":      ([GOLD],         [cite(150, 250)],      50 / 150,  60 / 140,  0, 0),
    "both ends within tolerance":        ([GOLD],         [cite(95, 210)],       100 / 115, 1.0,       0, 1),
    "an end one past tolerance":         ([GOLD],         [cite(100, 211)],      100 / 111, 100 / 101, 0, 1),
    "tolerance lets neighbours meet":    ([GOLD],         [cite(200, 300)],      0.0,       10 / 190,  0, 0),
    "one of three gold spans found":     (THREE,          [cite(50, 59)],        1 / 3,     1 / 3,     1, 1),
    "one prediction serves one gold":    ([GOLD, cite(102, 200)], [GOLD],        1 / 2,     1 / 2,     1, 1),
    "the exact one wins":                ([GOLD],         [cite(98, 202), GOLD], 1.0,       1.0,       1, 1),
    "another file":                      ([cite(0, 9)],   [cite(0, 9, "b.pdf")], 0.0,       0.0,       0, 0),
    "another page":                      ([cite(0, 9, page=1)], [cite(0, 9, page=2)], 0.0,  0.0,       0, 0),
    "a page that one side does not say": ([cite(0, 9, page=1)], [cite(0, 9)],    1.0,       1.0,       1, 1),
    # Off by 4 and by 1: within tolerance, 55 of 60 characters.
    "the specification's example answer": ([cite(1230, 1290)], [cite(1234, 1289)], 55 / 60, 1.0,       0, 1),
    "nothing cited":                     ([cite(0, 9)],   [],                    0.0,       0.0,       0, 0),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "exact", "tolerant", "perfect", "good"), CASES.values(), ids=CASES)
def test_totals_of_the_specification(gold, predicted, exact, tolerant, perfect, good):
    (row,) = scores_of([(gold, predicted)]).rows()

    assert list(row) == list(SPAN_MEASURES)
    assert (row["exact_jaccard"], row["tolerance_jaccard"]) == (exact, tolerant)
    assert (row["perfect_matches"], row["good_matches"]) == (perfect, good)


MEASURES = {
    # Greedy takes [0,100)-[0,90) 90/100 first and is left with [10,90)-[20,100) 70/90: 1.678 against 1.689.
    "the matching is not the greedy one": (
        [cite(0, 100), cite(10, 90)], [cite(0, 90), cite(20, 100)], {"exact_jaccard": (80 / 100 + 80 / 90) / 2},
    ),
    # [0,10)-[0,12) 10/12 and [0,8)-[0,9) 8/9 beat [0,10)-[0,9) 9/10 and [0,8)-[0,12) 8/12.
    "the matching is crossed": (
        [cite(0, 10), cite(0, 8)], [cite(0, 9), cite(0, 12)], {"exact_jaccard": (10 / 12 + 8 / 9) / 2},
    ),
    "precision counts every prediction, recall every gold span": (
        [cite(0, 50), cite(500, 550)], [cite(0, 50), *(cite(i, i + 10) for i in (100, 200, 300, 400))],
        {"span_precision": 1 / 5, "span_recall": 1 / 2, "span_f1": 2 / 7},
    ),
    # 50 of 100 characters is exactly half, 49 is less; 80 of 100 is good.
    "limits of matches are inclusive": (
        [cite(0, 100), cite(1000, 1100), cite(2000, 2100)], [cite(0, 50), cite(1000, 1049), cite(2000, 2080)],
        {"span_recall": 2 / 3, "good_matches": 1},
    ),
    # [0, 100) covers both gold spans by half; one to one it serves one of them.
    "a prediction serves one gold span": (
        [cite(0, 50), cite(50, 100)], [cite(0, 100)], {"exact_jaccard": 0.5 / 2, "span_recall": 0.5, "span_precision": 1.0},
    ),
    # a.pdf: 150 gold, 100 predicted, 50 shared. b.pdf: 10, 40, 10. c.pdf: 0, 30, 0.
    "characters are those of all documents, each once": (
        [cite(0, 100), cite(50, 150), cite(0, 10, "b.pdf")], [cite(100, 200), cite(0, 40, "b.pdf"), cite(0, 30, "c.pdf")],
        {"char_precision": 60 / 170, "char_recall": 60 / 160, "char_f1": 120 / 330, "char_jaccard": 60 / 270},
    ),
    "pages distinguish characters": ([cite(0, 10, page=1)], [cite(0, 10, page=2)], {"char_recall": 0.0}),
    "unless a citation has none": ([cite(0, 10, page=1), cite(20, 30)], [cite(0, 10, page=2)], {"char_recall": 10 / 20}),
    "offsets beyond any document are wrong but no error": (
        [cite(0, 5, page=1)], [cite(0, 5, page=1), cite(10**30, 10**30 + 5, page=10**30)],
        {"span_recall": 1.0, "span_precision": 0.5},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "expected"), MEASURES.values(), ids=MEASURES)
def test_measures_of_spans_and_characters(gold, predicted, expected):
    (row,) = scores_of([(gold, predicted)], tolerance=0).rows()

    assert {name: row[name] for name in expected} == expected


def test_nothing_to_cite_and_nothing_cited_has_no_score():
    scores = scores_of([([], []), ([], [cite(0, 5)])])

    assert scores.rows() == [{}, dict.fromkeys(SPAN_MEASURES, 0.0) | {"predicted_spans": 1.0}]
    assert scores_of([]).rows() == []


TEXT = "Ada Lovelace wrote notes, in 1843."
#       0   4        13    19     26 29
WORDS = {
    #                                        gold                    cited                  precision, recall, F1
    "two of three and of four":             ([cite(0, 18)],          [cite(4, 28)],         (2 / 4, 2 / 3, 4 / 7)),
    "an end inside a word costs nothing":   ([cite(4, 12)],          [cite(5, 13)],         (1.0, 1.0, 1.0)),
    "two spans in one word count it once":  ([cite(0, 3)],           [cite(0, 1), cite(2, 3)], (1.0, 1.0, 1.0)),
    "words of several documents are added": ([cite(0, 3), cite(0, 5, "b.pdf")], [cite(0, 3)], (1.0, 1 / 2, 2 / 3)),
    "spans past the end hold no word":      ([cite(29, 33)],         [cite(90, 99)],        (0.0, 0.0, 0.0)),
    "other scripts have words too":         ([cite(0, 6, "c.pdf")],  [cite(0, 10, "c.pdf")], (1 / 2, 1.0, 2 / 3)),
    "no word on either side":               ([cite(24, 25)],         [cite(33, 34)],        None),
    "a cited document without a text":      ([cite(0, 3)],           [cite(0, 3), cite(0, 5, "d.pdf")], None),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "cited", "expected"), WORDS.values(), ids=WORDS)
def test_words(gold, cited, expected):
    texts = {"a.pdf": TEXT, "b.pdf": "Notes on engines", "c.pdf": "Москва это город"}
    tokens = {name: find_tokens(text) for name, text in texts.items()}

    (row,) = score_spans([gold], [cited], texts=tokens).rows()

    found = [row.get(name) for name in ("token_precision", "token_recall", "token_f1")]
    assert found == ([None] * 3 if expected is None else list(expected))


OVERLAPS = {
    #                                  gold               predicted          overlap             P, R, Jaccard
    "a character cited twice, once":  ([(0, 10)],         [(0, 6), (4, 10)], Overlap(10, 10, 10), (1.0, 1.0, 1.0)),
    "touching spans share nothing":   ([(0, 5)],          [(5, 10)],         Overlap(0, 5, 5),    (0.0, 0.0, 0.0)),
    "two spans against one":          ([(0, 4), (6, 10)], [(2, 8)],          Overlap(4, 8, 6),    (4 / 6, 4 / 8, 4 / 10)),
    "nothing cited":                  ([(0, 5)],          [],                Overlap(0, 5, 0),    (0.0, 0.0, 0.0)),
    "nothing gold, nothing cited":    ([],                [],                Overlap(0, 0, 0),    (None,) * 3),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "expected", "ratios"), OVERLAPS.values(), ids=OVERLAPS)
def test_overlap(gold, predicted, expected, ratios):
    found = overlap(starmap(Span, gold), starmap(Span, predicted))

    assert (found, found.precision, found.recall, found.jaccard) == (expected, *ratios)


def test_more_pairs_than_are_held_at_once():
    n = 300
    assert n * n > PAIRS_AT_ONCE
    gold = [cite(10 * i, 10 * i + 10) for i in range(n)]

    (row,) = scores_of([(gold, gold)], tolerance=0).rows()

    assert (row["perfect_matches"], row["span_f1"], row["char_jaccard"]) == (n, 1.0, 1.0)


def test_places_that_do_not_fit_one_key_are_told_apart():
    # Answers, files, pages and offsets whose ranges together need more than 64 bits.
    answer = np.array([0, 0, 2**20, 2**20], dtype=np.int64)
    spans = SpanColumns(
        answer, np.array([0, 2**30, 0, 2**30]), np.array([2**20, 0, 0, 2**20]), np.array([0, 2**30, 5, 2**30]),
        np.array([5, 2**30 + 7, 9, 2**30 + 1]),
    )  # fmt: skip
    order = np.array([2, 0, 3, 1, 0])

    assert [column.tolist() for column in sort_distinct(spans.take(order))] == [column.tolist() for column in spans]
    scores = score_columns(spans, spans, 2**20 + 1)
    assert scores.characters.shared[[0, 2**20]].tolist() == [12, 5]
    assert scores.n_perfect.sum() == 4
