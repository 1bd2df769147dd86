"""Columns of many answers give what sets of characters and a search of all matchings give, answer by answer."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.span_columns import Citation, Span, SpanColumns, columns_of, distinct, file_numbers
from rag_eval_pipeline.metrics.span_matching import (
    SPAN_COUNTS,
    SPAN_MEASURES,
    score_columns,
    score_spans,
)
from rag_eval_pipeline.metrics.span_pairs import EXACT_WEIGHT, PAIRS_AT_ONCE
from rag_eval_pipeline.metrics.spans import Overlap
from tests.metrics.plain_spans import in_order, plain_scores


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


def scores_of(answers, tolerance=10, min_overlap=0.5):
    return score_spans([g for g, _ in answers], [p for _, p in answers], tolerance=tolerance, min_overlap=min_overlap)


@given(some_answers, some_tolerance, st.sampled_from([0.1, 0.5, 1.0]))
def test_every_count_and_sum_is_that_of_the_plain_reference(answers, tolerance, min_overlap):
    scores = scores_of(answers, tolerance, min_overlap)

    for i, (gold, predicted) in enumerate(answers):
        plain = plain_scores(gold, predicted, tolerance, min_overlap)
        exactly = ("n_gold", "n_predicted", "best_exact", "best_tolerant", "best_found", "right")
        assert {name: getattr(scores, name)[i] for name in exactly} == {name: plain[name] for name in exactly}
        assert Overlap(*(int(column[i]) for column in scores.characters)) == plain["characters"]
        # Of several best matchings either may be found: only what they make large is the same.
        assert scores.tolerant[i] + EXACT_WEIGHT * scores.exact[i] == pytest.approx(plain["weight"], abs=1e-9)


@given(some_answers, some_tolerance, st.randoms(use_true_random=False))
def test_the_order_of_citations_changes_nothing(answers, tolerance, random):
    shuffled = [tuple(random.sample(side, len(side)) for side in answer) for answer in answers]

    assert scores_of(shuffled, tolerance).rows() == scores_of(answers, tolerance).rows()


@given(some_answers, some_tolerance)
def test_answers_do_not_touch_each_other(answers, tolerance):
    together = scores_of(answers, tolerance).rows()

    assert together == [row for answer in answers for row in scores_of([answer], tolerance).rows()]


@given(some_answers, some_tolerance)
def test_scores_lie_in_their_range_and_tolerance_never_costs(answers, tolerance):
    for row in scores_of(answers, tolerance).rows():
        if row:
            assert list(row) == list(SPAN_MEASURES)
        assert all(0.0 <= row[name] <= 1.0 for name in row if name not in SPAN_COUNTS)
        for kind in ("", "best_"):
            # The best pair is chosen by tolerance, so its exact Jaccard need not be the largest, but is no larger.
            assert row.get(f"{kind}exact_jaccard", 0) <= row.get(f"{kind}tolerance_jaccard", 0) + 1e-12
        assert row.get("tolerance_jaccard", 0) <= row.get("best_tolerance_jaccard", 0) + 1e-5
        assert row.get("perfect_matches", 0) <= row.get("good_matches", 0)
        assert row.get("span_recall", 0) <= row.get("best_span_recall", 0)


@given(st.lists(st.lists(some_citation, min_size=1, max_size=5), min_size=1, max_size=4), some_tolerance)
def test_an_answer_that_cites_the_gold_is_perfect(sides, tolerance):
    for row in scores_of([(side, side) for side in sides], tolerance).rows():
        assert all(row[name] == 1.0 for name in row if name not in SPAN_COUNTS)
        assert row["perfect_matches"] == row["good_matches"] == row["true_spans"] == row["predicted_spans"]


@given(some_answers, some_tolerance)
def test_the_specifications_means_follow_from_the_table_of_answers(answers, tolerance):
    scores = scores_of(answers, tolerance)

    rows = [row for row in scores.rows() if row]
    total = in_order(row["exact_jaccard"] * row["true_spans"] for row in rows)
    assert total == pytest.approx(float(scores.exact.sum()), abs=1e-9)
    assert sum(row["true_spans"] for row in rows) == scores.n_gold.sum()


def test_nothing_to_cite_and_nothing_cited_has_no_score():
    assert scores_of([([], []), ([], [cite(0, 5)])]).rows()[0] == {}
    assert scores_of([([], [])]).rows() == [{}]
    assert scores_of([]).rows() == []


def test_cited_where_nothing_was_gold_is_zero_and_not_absent():
    (row,) = scores_of([([], [cite(0, 5)])]).rows()

    assert row == dict.fromkeys(SPAN_MEASURES, 0.0) | {"predicted_spans": 1.0}


def test_a_span_may_serve_several_gold_spans_only_in_the_best_match():
    # [0, 100) covers both gold spans by half; one to one it serves one of them.
    (row,) = scores_of([([cite(0, 50), cite(50, 100)], [cite(0, 100)])], tolerance=0).rows()

    assert (row["exact_jaccard"], row["best_exact_jaccard"]) == (0.5 / 2, 0.5)
    assert (row["span_recall"], row["best_span_recall"]) == (0.5, 1.0)
    assert (row["span_precision"], row["best_span_precision"]) == (1.0, 1.0)


def test_two_gold_spans_and_two_citations_are_matched_the_better_way():
    gold = [cite(0, 10), cite(0, 8)]
    cited = [cite(0, 9), cite(0, 12)]

    (row,) = scores_of([(gold, cited)], tolerance=0).rows()

    # [0,10)-[0,12) 10/12 and [0,8)-[0,9) 8/9 beat [0,10)-[0,9) 9/10 and [0,8)-[0,12) 8/12.
    assert row["exact_jaccard"] == (8 / 9 + 10 / 12) / 2


def test_a_match_of_four_fifths_is_good():
    (row,) = scores_of([([cite(0, 100)], [cite(0, 80)])], tolerance=0).rows()

    assert (row["exact_jaccard"], row["good_matches"]) == (0.8, 1)


@pytest.mark.parametrize("tolerance", [0, 10])
def test_spans_that_share_nothing_are_no_match(tolerance):
    before, after = cite(0, 100 - tolerance), cite(120 + tolerance, 200)

    assert scores_of([([cite(100, 120)], [before, after])], tolerance=tolerance).matches.gold.size == 0


def test_more_pairs_than_are_held_at_once_are_scored_alike():
    n = 300
    assert n * n > PAIRS_AT_ONCE
    gold = [cite(10 * i, 10 * i + 10) for i in range(n)]

    (row,) = scores_of([(gold, gold)], tolerance=0).rows()

    assert (row["perfect_matches"], row["span_f1"], row["char_jaccard"]) == (n, 1.0, 1.0)


def test_offsets_and_pages_beyond_any_document_are_wrong_and_no_fault():
    huge = cite(10**30, 10**30 + 5, page=10**30)

    (row,) = scores_of([([cite(0, 5, page=1)], [cite(0, 5, page=1), huge])]).rows()

    assert (row["span_recall"], row["span_precision"]) == (1.0, 0.5)


def test_places_that_do_not_fit_one_key_are_told_apart():
    # Answers, files, pages and offsets whose ranges together need more than 64 bits.
    answer = np.array([0, 0, 2**20, 2**20], dtype=np.int64)
    spans = SpanColumns(
        answer, np.array([0, 2**30, 0, 2**30]), np.array([2**20, 0, 0, 2**20]), np.array([0, 2**30, 5, 2**30]),
        np.array([5, 2**30 + 7, 9, 2**30 + 1]),
    )  # fmt: skip
    order = np.array([2, 0, 3, 1, 0])

    assert [column.tolist() for column in distinct(spans.taken(order))] == [column.tolist() for column in spans]
    scores = score_columns(spans, spans, 2**20 + 1)
    assert scores.characters.shared[[0, 2**20]].tolist() == [12, 5]
    assert scores.perfect.sum() == 4


@pytest.mark.parametrize("bad", [cite(5, 5), cite(-1, 5), cite(7, 5)], ids=["empty", "negative", "reversed"])
def test_a_citation_holds_at_least_one_character(bad):
    with pytest.raises(ValueError, match="0 <= start < end"):
        scores_of([([cite(0, 9)], [bad])])
    one = np.array([1])
    with pytest.raises(ValueError, match="0 <= start < end"):
        distinct(SpanColumns(one, one, one, one * bad.span.start, one * bad.span.end))


def test_sides_of_different_length_are_refused():
    with pytest.raises(ValueError, match="predictions for 1 answers"):
        score_spans([[cite(0, 9)]], [])


def test_tolerance_is_not_negative():
    with pytest.raises(ValueError, match="tolerance"):
        scores_of([([cite(0, 9)], [cite(0, 9)])], tolerance=-1)


def test_files_are_numbered_by_name_whichever_comes_first():
    side = [[cite(0, 1, "b.pdf"), cite(0, 1, "a.pdf")]]

    assert file_numbers(side, [[cite(0, 1, "c.pdf")]]) == {"a.pdf": 0, "b.pdf": 1, "c.pdf": 2}
    assert columns_of(side, {"a.pdf": 0, "b.pdf": 1}).file.tolist() == [0, 1]


def test_no_score_is_not_a_number():
    for column in scores_of([([], [])]).columns().values():
        assert math.isnan(column[0])
