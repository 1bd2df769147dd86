"""What a judge says of an answer and of each of its claims, as the page of a question shows it."""

import msgspec

from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.judges.judgement import Claim, Judgement, Support
from rag_eval_pipeline.reporting.site.inert import inert, shortened

REASON_LENGTH = 400  # code points


class SupportShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the judge says of a claim against some texts."""

    outcome: str
    reason: str = ""


class ClaimShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, which citations stand with it, and its support; none where there was nothing to support it."""

    text: str
    citations: tuple[int, ...]
    by_citations: SupportShown | None = None
    by_contexts: SupportShown | None = None


def claim_shown(claim: Claim, answer: str) -> ClaimShown:
    """A claim as text; `answer` is what its offsets count in."""
    return ClaimShown(
        inert(strip_citations(answer[claim.start : claim.end]).strip()),
        tuple(place + 1 for place in claim.citations),
        support_shown(claim.by_citations),
        support_shown(claim.by_contexts),
    )


def support_shown(support: Support | None) -> SupportShown | None:
    """Its word and reason."""
    return None if support is None else SupportShown(support.outcome, shortened(support.reason, REASON_LENGTH))


def verdict_shown(judgement: Judgement | None) -> tuple[str, str] | None:
    """The judge's word on the whole answer and its reason; None where it gave none and nothing failed."""
    if judgement is None:
        return None
    if judgement.correctness is None:
        return ("failed", inert(judgement.error_code or "")) if judgement.status == "failed" else None
    return judgement.correctness.verdict, shortened(judgement.correctness.reason, REASON_LENGTH)
