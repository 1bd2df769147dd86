"""A place that does not exist scores 0 with a reason; what a judge could not decide is in no mean."""

import pytest

from rag_eval_pipeline.metrics.citation_quality import (
    AnswerConsistency,
    CheckedCitation,
    CitationQuality,
    answer_consistency,
    citation_quality,
    citation_relevance,
    place_fault,
)
from rag_eval_pipeline.metrics.span_columns import Span

FAULTS = {
    "inside":                   (Span(0, 10), "0123456789", None),
    "behind the end":           (Span(5, 11), "0123456789", "span_out_of_bounds"),
    "the specification's span": (Span(500, 550), "a document of 55 characters", "span_out_of_bounds"),
    "no such document":         (Span(0, 1), None, "document_not_found"),
    "an empty document":        (Span(0, 1), "", "span_out_of_bounds"),
}  # fmt: skip


@pytest.mark.parametrize(("span", "text", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_place_is_there_or_has_a_reason(span, text, expected):
    assert place_fault(span, text) == expected


def test_validity_over_all_that_can_be_known():
    quality = citation_quality(
        [
            CheckedCitation(1.0),
            CheckedCitation(0.7),
            CheckedCitation(0.5),
            CheckedCitation(None, "document_not_found"),
            CheckedCitation(None),
        ]
    )

    # Four have a score: 1.0, 0.7, 0.5 and 0.0 for the missing document; two are valid.
    assert quality == CitationQuality(2 / 4, 2.2 / 4, pytest.approx(2.2 / 3), 2, 1)


def test_an_answer_without_citations_has_no_validity():
    assert citation_quality([]) == CitationQuality(None, None, None, 0, 0)
    assert citation_quality([CheckedCitation(None)]) == CitationQuality(None, None, None, 0, 1)


def test_an_invalid_place_is_not_valid_however_it_was_judged():
    assert citation_quality([CheckedCitation(1.0, "span_out_of_bounds")]).citation_validity_rate == 0.0


def test_consistency():
    # Mean 0.8; variance ((0.2)^2 + (0.2)^2 + 0) / 2 = 0.04.
    found = answer_consistency([1.0, 0.6, 0.8])

    assert found == AnswerConsistency(pytest.approx(0.8), pytest.approx(0.04), 2)


def test_consistency_of_too_little_is_absent():
    assert answer_consistency([]) == AnswerConsistency(None, None, 0)
    assert answer_consistency([0.5]) == AnswerConsistency(0.5, None, 0)


def test_a_citation_is_relevant_to_its_claim_or_to_the_question():
    assert citation_relevance([True, False, False], [False, True, False]) == 2 / 3
    assert citation_relevance([True, False]) == 1 / 2
    assert citation_relevance([]) is None
    with pytest.raises(ValueError, match="zip"):
        citation_relevance([True], [True, False])
