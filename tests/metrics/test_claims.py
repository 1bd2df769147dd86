"""Scores of claims and citations are those of the official scorers; a score that an answer cannot have is absent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.claims import (
    CLAIM_COUNTS,
    CitedStatement,
    JudgedCitation,
    JudgedClaim,
    alce_scores,
    claim_scores,
    context_scores,
    overall_scores,
)
from rag_eval_pipeline.metrics.spans import Citation, Span


def test_claim_scores_of_four_claims_and_three_citations():
    claims = [
        JudgedClaim(True, True, True, 30),
        JudgedClaim(True, False, True, 30),
        JudgedClaim(True, None, False, 20),  # cites a place that does not exist
        JudgedClaim(False, None, True, 20),
    ]
    citations = [JudgedCitation(True, 0.9, 12), JudgedCitation(False, 0.3, 12), JudgedCitation(False, None, 16)]

    assert claim_scores(claims, citations, answer_length=140) == pytest.approx(
        {
            "claims": 4,
            "cited_claims": 3,
            "resolved_claims": 2,
            "citations": 3,
            "citation_completeness": 3 / 4,
            "citation_correctness": 1 / 3,
            "citation_support": (0.9 + 0.3) / 2,
            "citation_support_all": (0.9 + 0.3) / 3,
            "factual_consistency": 1 / 4,
            "consistency_of_resolved": 1 / 2,
            "faithfulness": 3 / 4,
            "hallucination_vs_citations": 3 / 4,
            "hallucination_vs_retrieved": 1 / 4,
            "citation_density": 40 / 140,
            "cited_text_share": 80 / 100,
        }  # fmt: skip
    )


def test_claim_scores_are_absent_where_there_is_nothing_to_score():
    assert claim_scores([], [], answer_length=0) == dict.fromkeys(CLAIM_COUNTS, 0)
    uncited = claim_scores([JudgedClaim(False, None, None, 5)], [], answer_length=5)
    assert (uncited["hallucination_vs_citations"], uncited["factual_consistency"]) == (1.0, 0.0)
    assert uncited["citation_completeness"] == 0.0
    assert uncited.keys().isdisjoint({"consistency_of_resolved", "faithfulness", "citation_correctness"})


UNCITED = CitedStatement(False)
SUPPORTED = CitedStatement(True, (True,))
WRONG = CitedStatement(False, (False,))
# Two citations: the first entails the statement alone; the second does not, and is not needed.
OVERCITED = CitedStatement(True, (True, False), (None, True))
# Neither entails it alone, and both are needed.
TOGETHER = CitedStatement(True, (False, False), (False, False))
OUT_OF_RANGE = CitedStatement(True, (True, True), (None, None), in_range=False)

ALCE = {
    #                                          statements                       recall  precision
    "supported by its citation":              ([SUPPORTED],                     1.0,    1.0),
    "one citation too many":                  ([OVERCITED],                     1.0,    1 / 2),
    "only together":                          ([TOGETHER],                      1.0,    1.0),
    "citations of nothing are not counted":   ([OUT_OF_RANGE],                  0.0,    0.0),
    "all of them":                            ([SUPPORTED, WRONG, OVERCITED, TOGETHER, OUT_OF_RANGE, UNCITED], 3 / 6, 4 / 6),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "recall", "precision"), ALCE.values(), ids=ALCE)
def test_alce_scores(statements, recall, precision):
    assert alce_scores(statements) == {"citation_recall": recall, "citation_precision": precision}
    assert alce_scores([]) == {}


def walked(answer, entailing):
    """ALCE's loop over the citations of an answer, as its published code walks it; sets of passages entail."""

    def entails(passages, statement):
        return any(needed <= set(passages) for needed in entailing[statement])

    supported = precise = cited = 0
    for number, passages in enumerate(answer):
        joint = bool(passages) and entails(passages, number)
        cited += len(passages)
        supported += joint
        if joint and len(passages) > 1:
            for passage in passages:
                if entails([passage], number):
                    precise += 1
                else:
                    others = list(passages)
                    others.remove(passage)
                    precise += not entails(others, number)
        else:
            precise += joint
    return supported / len(answer), precise / cited if cited else 0


PASSAGES = st.lists(st.integers(0, 3), max_size=3)
ENTAILING = st.lists(st.frozensets(st.integers(0, 3), min_size=1, max_size=2), max_size=2)


@given(st.lists(st.tuples(PASSAGES, ENTAILING), min_size=1, max_size=4))
def test_alce_scores_equal_the_official_loop(drawn):
    answer, entailing = [passages for passages, _ in drawn], [needed for _, needed in drawn]

    def entails(passages, number):
        return any(needed <= set(passages) for needed in entailing[number])

    statements = [
        CitedStatement(
            bool(passages) and entails(passages, number),
            [entails([passage], number) for passage in passages],
            [entails(passages[:i] + passages[i + 1 :], number) for i in range(len(passages))],
        )
        for number, passages in enumerate(answer)
    ]

    assert tuple(alce_scores(statements).values()) == walked(answer, entailing)


def cite(start, end, file_name="a.pdf"):
    return Citation(file_name, None, Span(start, end))


def test_context_scores_count_useful_passages_and_each_character_once():
    # a.pdf: gold 100, retrieved 80 of which 40 are gold; b.pdf: retrieved 20. The passage that touches the gold span is
    # not useful.
    passages = [cite(100, 140), cite(60, 110), cite(60, 100), cite(0, 20, "b.pdf")]

    assert context_scores(passages, [cite(0, 100)]) == {
        "context_precision": (1 / 2 + 2 / 3) / (2 + 1e-10),
        "context_char_recall": 40 / 100, "context_char_precision": 40 / 100, "context_char_iou": 40 / 160,
    }  # fmt: skip
    assert context_scores([], [cite(0, 5)]) == dict.fromkeys(
        ("context_char_recall", "context_char_precision", "context_char_iou"), 0.0
    )
    assert context_scores(passages, []) == {}


PRECISION = {
    "all useful":           ([1, 1], (1 + 1) / (2 + 1e-10)),
    "the useful one last":  ([0, 0, 1], (1 / 3) / (1 + 1e-10)),
    "first and third":      ([1, 0, 1], (1 + 2 / 3) / (2 + 1e-10)),
    "none useful":          ([0, 0], 0.0),
}  # fmt: skip


@pytest.mark.parametrize(("useful", "expected"), PRECISION.values(), ids=PRECISION)
def test_context_precision_is_that_of_ragas(useful, expected):
    passages = [cite(0, 10) if is_useful else cite(50, 60) for is_useful in useful]

    assert context_scores(passages, [cite(5, 15)])["context_precision"] == expected


SPAN, QUALITY, CONSISTENCY, HALLUCINATION = (
    "tolerance_jaccard", "citation_correctness", "factual_consistency", "hallucination_vs_citations",
)  # fmt: skip
SCORES = {SPAN: 0.5, QUALITY: 1.0, CONSISTENCY: 0.8, HALLUCINATION: 0.1, "f1": 0.3}


def test_overall_score_has_the_specifications_weights_and_spreads_that_of_a_missing_part():
    whole, part = "overall_citation_accuracy", "overall_coverage"
    assert overall_scores(SCORES) == {whole: pytest.approx(0.3 * 0.5 + 0.3 * 1.0 + 0.25 * 0.8 + 0.15 * 0.9), part: 1.0}
    # Without gold spans: (0.3 + 0.25 x 0.8 + 0.15 x 0.9) / 0.7; the specification's code does not divide.
    without_spans = {name: score for name, score in SCORES.items() if name != SPAN}
    assert overall_scores(without_spans) == {whole: pytest.approx(0.635 / 0.7), part: pytest.approx(0.7)}
    # Spans and correctness alone make 0.6 of the weights; consistency and hallucination 0.4.
    assert overall_scores({SPAN: 0.5, QUALITY: 1.0})[whole] == pytest.approx(0.75)
    assert overall_scores({CONSISTENCY: 0.8, HALLUCINATION: 0.1}) == {part: pytest.approx(0.4)}
    assert overall_scores({"f1": 1.0}) == {}
