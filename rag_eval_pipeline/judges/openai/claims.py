"""The claims of an answer and the citations that stand with each, as whoever splits answers sees them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical.claims import split_claims
from rag_eval_pipeline.judges.lexical.normalisation import FILLER


class CitedClaim(NamedTuple):
    """One claim.

    Args:
        start: First code point in the answer.
        end: One past the last.
        text: What it says, without citations.
        citations: Indexes into the case's citations that stand with it.
    """

    start: int
    end: int
    text: str
    citations: tuple[int, ...]


def lexical_claims(case: Case) -> list[CitedClaim]:
    """The claims as the lexical judge splits them."""
    return [
        CitedClaim(claim.start, claim.end, " ".join(claim.text.replace(FILLER, " ").split()), claim.citations)
        for claim in split_claims(case.answer, case.citations)
    ]


ClaimFinder = Callable[[Case], Sequence[CitedClaim]]
"""Finds the claims of a case's answer, in order; none for a refusal."""
