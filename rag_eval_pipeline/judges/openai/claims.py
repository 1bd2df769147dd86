"""The claims of an answer and of its gold answer, as whoever splits answers sees them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical.claims import split_claims
from rag_eval_pipeline.text.normalise import FILLER


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


class GoldClaims(NamedTuple):
    """The gold answer that an answer is compared with, and its claims; at least one."""

    text: str
    claims: Sequence[str]


ClaimFinder = Callable[[Case], Sequence[CitedClaim]]
"""Finds the claims of a case's answer, in order; none for a refusal."""
GoldFinder = Callable[[Case], GoldClaims | None]
"""Finds the gold answer to compare with among a case's accepted ones; None where none claims anything."""
