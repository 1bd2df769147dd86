"""Citations are matched one to one within a file and page; tolerance never costs, and a perfect match is a good one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.citations import Citation, match_citations
from rag_eval_pipeline.metrics.spans import Overlap, Span, overlap
from tests.metrics.plain_spans import snap


def cite(start, end, file_name="a.pdf", page=None):
    return Citation(file_name, page, Span(start, end))


GOLD = cite(100, 200)
THREE = [cite(0, 9), cite(50, 59), cite(90, 99)]
JUNK = [cite(start, start + 9) for start in (100, 120, 140, 160)]

CASES = {
    #                                     gold            predicted              exact      tolerant   perfect, good
    "identical spans, however short":    ([cite(0, 5)],   [cite(0, 5)],          1.0,       1.0,       1, 1),
    # 50 of 150 characters; both ends move 10 towards gold: [140, 240) shares 60 of 140.
    "the specification's own pair":      ([GOLD],         [cite(150, 250)],      50 / 150,  60 / 140,  0, 0),
    "both ends within tolerance":        ([GOLD],         [cite(95, 210)],       100 / 115, 1.0,       0, 1),
    "an end one past tolerance":         ([GOLD],         [cite(100, 211)],      100 / 111, 100 / 101, 0, 1),
    "tolerance lets neighbours meet":    ([GOLD],         [cite(200, 300)],      0.0,       10 / 190,  0, 0),
    "no overlap at all":                 ([GOLD],         [cite(0, 50)],         0.0,       0.0,       0, 0),
    "one of three gold spans found":     (THREE,          [cite(50, 59)],        1 / 3,     1 / 3,     1, 1),
    "junk lowers precision, not this":   ([cite(0, 9)],   [*JUNK, cite(0, 9)],   1.0,       1.0,       1, 1),
    "one prediction serves one gold":    ([GOLD, cite(102, 200)], [GOLD],        1 / 2,     1 / 2,     1, 1),
    "the exact one wins":                ([GOLD],         [cite(98, 202), GOLD], 1.0,       1.0,       1, 1),
    "the same citation twice is one":    ([GOLD, GOLD],   [GOLD, GOLD],          1.0,       1.0,       1, 1),
    "another file":                      ([cite(0, 9)],   [cite(0, 9, "b.pdf")], 0.0,       0.0,       0, 0),
    "file names are compared exactly":   ([cite(0, 9)],   [cite(0, 9, "A.pdf")], 0.0,       0.0,       0, 0),
    "another page":                      ([cite(0, 9, page=1)], [cite(0, 9, page=2)], 0.0,  0.0,       0, 0),
    "a page that one side does not say": ([cite(0, 9, page=1)], [cite(0, 9)],    1.0,       1.0,       1, 1),
    "nothing cited":                     ([cite(0, 9)],   [],                    0.0,       0.0,       0, 0),
    "cited where nothing was gold":      ([],             [cite(0, 9)],          0.0,       0.0,       0, 0),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "predicted", "exact", "tolerant", "perfect", "good"), CASES.values(), ids=CASES)
def test_the_four_figures_of_the_specification(gold, predicted, exact, tolerant, perfect, good):
    scores = match_citations(gold, predicted)

    assert scores.mean_exact_jaccard == exact
    assert scores.mean_tolerance_jaccard == tolerant
    assert (scores.perfect_matches, scores.good_matches) == (perfect, good)


def test_nothing_to_cite_and_nothing_cited_has_no_score():
    assert match_citations([], []) is None


def test_the_matching_is_the_best_one_and_not_the_greedy_one():
    wide, narrow = cite(0, 100), cite(10, 90)
    left, right = cite(0, 90), cite(20, 100)

    scores = match_citations([wide, narrow], [left, right], tolerance=0)

    # Greedy takes wide-left 90/100 first and is left with narrow-right 70/90: 1.678 against 1.689.
    assert [(match.gold, match.predicted) for match in scores.matches] == [(wide, right), (narrow, left)]
    assert scores.mean_exact_jaccard == (80 / 100 + 80 / 90) / 2


def test_span_precision_counts_every_prediction_and_recall_every_gold_span():
    # One of two gold spans found; of five predictions one is right.
    scores = match_citations(
        [cite(0, 50), cite(500, 550)], [cite(0, 50), *(cite(i, i + 10) for i in (100, 200, 300, 400))]
    )

    assert scores.spans == Overlap(shared=1, gold=2, predicted=5)
    assert (scores.spans.precision, scores.spans.recall, scores.spans.f1) == (1 / 5, 1 / 2, 2 / 7)


def test_a_span_counts_as_found_from_half_an_overlap_on():
    gold = [cite(0, 100), cite(1000, 1100)]

    # 50 of 100 characters: exactly half. 49 of 100: less.
    scores = match_citations(gold, [cite(0, 50), cite(1000, 1049)], tolerance=0)

    assert scores.spans.shared == 1
    assert match_citations(gold, [cite(0, 50), cite(1000, 1049)], tolerance=0, min_overlap=0.4).spans.shared == 2


def test_characters_are_those_of_all_documents_each_once():
    gold = [cite(0, 100), cite(50, 150), cite(0, 10, "b.pdf")]
    predicted = [cite(100, 200), cite(0, 40, "b.pdf"), cite(0, 30, "c.pdf")]

    # a.pdf: 150 gold, 100 predicted, 50 shared. b.pdf: 10, 40, 10. c.pdf: 0, 30, 0.
    assert match_citations(gold, predicted).characters == Overlap(shared=60, gold=160, predicted=170)


def test_pages_separate_characters_only_where_all_citations_carry_one():
    paged = match_citations([cite(0, 10, page=1)], [cite(0, 10, page=2)])
    mixed = match_citations([cite(0, 10, page=1), cite(20, 30)], [cite(0, 10, page=2)])

    assert paged.characters == Overlap(0, 10, 10)
    assert mixed.characters == Overlap(10, 20, 10)


@pytest.mark.parametrize("bad", [cite(5, 5), cite(-1, 5)], ids=["no characters", "negative start"])
def test_a_citation_holds_at_least_one_character(bad):
    with pytest.raises(ValueError, match="0 <= start < end"):
        match_citations([cite(0, 9)], [bad])


def test_tolerance_is_not_negative():
    with pytest.raises(ValueError, match="tolerance"):
        match_citations([cite(0, 9)], [cite(0, 9)], tolerance=-1)


some_citation = st.builds(
    lambda file_name, page, start, length: Citation(file_name, page, Span(start, start + length)),
    st.sampled_from(["a.pdf", "b.pdf"]),
    st.sampled_from([None, 1, 2]),
    st.integers(0, 60),
    st.integers(1, 40),
)
some_citations = st.lists(some_citation, max_size=5)
some_tolerance = st.sampled_from([0, 1, 5, 10])


@given(some_citations, some_citations, some_tolerance)
def test_tolerance_never_costs_and_a_perfect_match_is_good(gold, predicted, tolerance):
    scores = match_citations(gold, predicted, tolerance=tolerance)

    if scores is None:
        assert not gold
        assert not predicted
        return
    assert all(match.tolerance_jaccard >= match.exact_jaccard for match in scores.matches)
    assert 0.0 <= scores.mean_exact_jaccard <= scores.mean_tolerance_jaccard <= 1.0
    assert (
        scores.perfect_matches <= scores.good_matches <= scores.spans.shared <= min(scores.n_gold, scores.n_predicted)
    )


@given(some_citations, some_citations, some_tolerance)
def test_each_citation_is_matched_at_most_once(gold, predicted, tolerance):
    scores = match_citations(gold, predicted, tolerance=tolerance)

    matches = () if scores is None else scores.matches
    assert len({match.gold for match in matches}) == len({match.predicted for match in matches}) == len(matches)


@given(some_citations, some_citations)
def test_without_tolerance_the_two_sides_can_be_exchanged(gold, predicted):
    one, other = match_citations(gold, predicted, tolerance=0), match_citations(predicted, gold, tolerance=0)

    if one is not None:
        total = one.mean_exact_jaccard * one.n_gold
        assert total == pytest.approx(other.mean_exact_jaccard * other.n_gold, abs=1e-12)
        assert one.characters == Overlap(other.characters.shared, other.characters.predicted, other.characters.gold)


@given(st.lists(some_citation, min_size=1, max_size=5), some_tolerance)
def test_an_answer_that_cites_the_gold_is_perfect(gold, tolerance):
    scores = match_citations(gold, gold, tolerance=tolerance)

    assert scores.mean_exact_jaccard == scores.mean_tolerance_jaccard == 1.0
    assert scores.perfect_matches == scores.good_matches == scores.n_gold
    assert scores.spans.f1 == scores.characters.f1 == 1.0


@given(some_citations, some_citations, some_tolerance)
def test_more_tolerance_never_lowers_the_mean(gold, predicted, tolerance):
    less = match_citations(gold, predicted, tolerance=tolerance)
    more = match_citations(gold, predicted, tolerance=tolerance + 3)

    if less is not None:
        # The matching weighs exactness by a millionth a pair, so the larger sum may be missed by as much.
        assert more.mean_tolerance_jaccard >= less.mean_tolerance_jaccard - 1e-5


@given(some_citation, some_citation, some_tolerance)
def test_a_snapped_span_keeps_at_least_one_character_and_moves_no_farther_than_allowed(gold, predicted, tolerance):
    snapped = snap(predicted.span, gold.span, tolerance)

    assert 0 <= snapped.start < snapped.end
    assert abs(snapped.start - predicted.span.start) <= tolerance
    assert abs(snapped.end - predicted.span.end) <= tolerance
    assert snap(gold.span, gold.span, tolerance) == gold.span


def test_without_one_to_one_a_prediction_serves_several():
    gold = [cite(0, 10), cite(2, 10)]

    scores = match_citations(gold, [cite(0, 10)], tolerance=0)

    assert scores.mean_exact_jaccard == (1 + 0) / 2
    assert scores.best_exact_jaccard == (1 + 8 / 10) / 2


@given(some_citations, some_citations, some_tolerance, st.randoms(use_true_random=False))
def test_the_order_of_citations_changes_nothing(gold, predicted, tolerance, random):
    shuffled = [random.sample(side, len(side)) for side in (gold, predicted)]

    assert match_citations(*shuffled, tolerance=tolerance) == match_citations(gold, predicted, tolerance=tolerance)


@given(some_citations, some_citations)
def test_the_characters_of_one_file_without_pages_are_those_of_its_spans(gold, predicted):
    gold = [citation._replace(file_name="a.pdf", page=None) for citation in gold]
    predicted = [citation._replace(file_name="a.pdf", page=None) for citation in predicted]
    scores = match_citations(gold, predicted)

    if scores is not None:
        assert scores.characters == overlap([c.span for c in gold], [c.span for c in predicted])
