"""Claims and citations of one answer, counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.claims import CLAIM_MEASURES, JudgedCitation, JudgedClaim, claim_scores

COUNTS = ("claims", "cited_claims", "resolved_claims", "citations")


def test_four_claims_and_three_citations():
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
            "factual_consistency": 1 / 2,
            "faithfulness": 3 / 4,
            "hallucination_vs_citations": 3 / 4,
            "hallucination_vs_retrieved": 1 / 4,
            "citation_density": 40 / 140,
            "cited_text_share": 80 / 100,
        }
    )


def test_an_answer_without_claims_has_no_shares():
    assert claim_scores([], [], answer_length=0) == dict.fromkeys(COUNTS, 0)


def test_claims_without_citations_are_all_hallucinated_against_citations_and_have_no_consistency():
    scores = claim_scores([JudgedClaim(False, None, None, 5)], [], answer_length=5)

    assert (scores["hallucination_vs_citations"], scores["citation_completeness"]) == (1.0, 0.0)
    assert scores.keys().isdisjoint({"factual_consistency", "faithfulness", "citation_correctness"})


CLAIMS = st.builds(
    JudgedClaim,
    st.booleans(),
    st.sampled_from([True, False, None]),
    st.sampled_from([True, False, None]),
    st.integers(1, 99),
)
CITATIONS = st.builds(JudgedCitation, st.booleans(), st.none() | st.floats(0, 1), st.integers(3, 20))


@given(claims=st.lists(CLAIMS, max_size=6), citations=st.lists(CITATIONS, max_size=6))
def test_shares_lie_between_0_and_1(claims, citations):
    length = sum(claim.length for claim in claims) + sum(citation.length for citation in citations)
    scores = claim_scores(claims, citations, answer_length=length)

    assert scores.keys() <= set(CLAIM_MEASURES)
    assert all(0 <= value <= 1 for name, value in scores.items() if name not in COUNTS)
