"""What a judge's word on claims and citations comes to for one answer: the citation and answer metrics of claims.

A score that an answer cannot have is absent: an answer without claims has no faithfulness, one without citations no
correctness. Source: Citation Accuracy Evaluation 2.4, 2.5, with hallucination in both its readings: against what was
cited, as the text's code has it, and against what was retrieved, as its words have it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

CLAIM_MEASURES = (
    "claims", "cited_claims", "resolved_claims", "citations", "citation_completeness", "citation_correctness",
    "citation_support", "factual_consistency", "faithfulness", "hallucination_vs_citations",
    "hallucination_vs_retrieved", "citation_density", "cited_text_share",
)  # fmt: skip

CLAIM_COUNTS = frozenset({"claims", "cited_claims", "resolved_claims", "citations"})  # no shares, and no means of them


class JudgedClaim(NamedTuple):
    """A claim of an answer.

    Args:
        is_cited: A citation stands with it.
        by_citations: Whether the cited texts support it; None where none of them can be resolved.
        by_retrieved: Whether what was retrieved supports it; None where nothing was.
        length: Code points of the claim without its citations.
    """

    is_cited: bool
    by_citations: bool | None
    by_retrieved: bool | None
    length: int = 0


class JudgedCitation(NamedTuple):
    """A citation of an answer.

    Args:
        is_correct: Its text supports the claim it stands with; false where the place does not exist.
        support: The judge's score in [0, 1]; None where there was nothing to judge.
        length: Code points of its own mark in the answer.
    """

    is_correct: bool
    support: float | None
    length: int = 0


def claim_scores(
    claims: Sequence[JudgedClaim], citations: Sequence[JudgedCitation], *, answer_length: int
) -> dict[str, float]:
    """The scores of one answer by the names of `CLAIM_MEASURES`.

    Args:
        claims: Its claims.
        citations: Its citations.
        answer_length: Code points of the answer, citations included.
    """
    n, n_citations = len(claims), len(citations)
    n_cited = sum(claim.is_cited for claim in claims)
    scores = {"claims": float(n), "cited_claims": float(n_cited), "citations": float(n_citations)}
    if n:
        scores["citation_completeness"] = n_cited / n
        scores["hallucination_vs_citations"] = sum(c.by_citations is not True for c in claims) / n
    if n_citations:
        scores["citation_correctness"] = sum(c.is_correct for c in citations) / n_citations
        supports = [c.support for c in citations if c.support is not None]
        if supports:
            scores["citation_support"] = math.fsum(supports) / len(supports)
    resolved = [c.by_citations for c in claims if c.by_citations is not None]
    scores["resolved_claims"] = float(len(resolved))
    if resolved:
        scores["factual_consistency"] = sum(resolved) / len(resolved)
    retrieved = [c.by_retrieved for c in claims if c.by_retrieved is not None]
    if retrieved:
        scores["faithfulness"] = sum(retrieved) / len(retrieved)
        scores["hallucination_vs_retrieved"] = 1 - scores["faithfulness"]
    marks = sum(c.length for c in citations)
    if answer_length:
        # The specification's density: marks in the text that is shown; and what share of the words is cited.
        scores["citation_density"] = marks / answer_length
    words = sum(c.length for c in claims)
    if words:
        scores["cited_text_share"] = sum(c.length for c in claims if c.is_cited) / words
    return scores
