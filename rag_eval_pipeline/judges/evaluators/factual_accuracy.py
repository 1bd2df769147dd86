"""`factual_accuracy`: each claim of an answer against the texts that it cites and that were retrieved.

Claims and their support are the judge's. A claim that the evidence bears out is verified, one that it contradicts or
does not have is not, and one without any evidence was not checked: its `verified` is null and it counts for nothing.
The score is the share of verified claims among those checked; without any there is no score. Without a judge the
claims are the answer's sentences, none of them checked.
"""

from collections.abc import Sequence
from typing import Any

from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator, Fields
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.shared_judge import SharedJudge, is_verified
from rag_eval_pipeline.judges.evaluators.wording import wording
from rag_eval_pipeline.judges.judgement import Claim, Judgement, Support
from rag_eval_pipeline.metrics.evaluation_scores import SHARE
from rag_eval_pipeline.text.normalise import plain

CONTEXTS = "retrieved contexts"  # as a claim's source: passages are handed to judges without their documents


def factual_accuracy(judge: SharedJudge) -> Evaluator:
    """The evaluator over a judge."""

    async def evaluate(event: Event, options: Any) -> Fields:
        judgement = await judge.of(event)
        if judgement is None:
            return {"factual_claims": _unchecked(event), "explanation": "no judge: nothing was checked"}
        return _fields(event, judgement)

    return Evaluator(name="factual_accuracy", evaluate=evaluate, version="1.0.0", scale=SHARE, in_thread=False)


def _unchecked(event: Event) -> list[dict[str, Any]]:
    said = wording(event)
    return [] if said.is_refusal else [{"claim": sentence} for sentence in said.sentences]


def _fields(event: Event, judgement: Judgement) -> Fields:
    claims = [_claim(event, claim) for claim in judgement.claims]
    checked = [claim["verified"] for claim in claims if claim["verified"] is not None]
    fields: dict[str, Any] = {
        "factual_claims": claims,
        "citation_accuracy": _citation_accuracy(judgement.citation_support),
        "explanation": _explanation(sum(checked), len(checked), len(claims)),
        "metadata": {"evaluator_model": judgement.model} if judgement.model else None,
        "cost_usd": judgement.usage.estimated_cost_usd if event.judgement is None else None,
    }
    if checked:
        fields["score"] = sum(checked) / len(checked)
        fields["confidence"] = sum(claim["confidence"] for claim in claims if claim["verified"] is not None) / len(
            checked
        )
    return fields


def _explanation(verified: int, checked: int, claims: int) -> str:
    if not claims:
        return "the answer claims nothing"
    left = f", {claims - checked} not checked" if claims > checked else ""
    return f"{verified} of {checked} checked claims borne out{left}" if checked else f"none of {claims} claims checked"


def _claim(event: Event, claim: Claim) -> dict[str, Any]:
    verified = is_verified(claim)
    supports = [support for support in (claim.by_citations, claim.by_contexts) if support is not None]
    strongest = max((support.score for support in supports), default=None)
    cited = [event.citations[number].document for number in claim.citations if number < len(event.citations)]
    sources = (cited if claim.by_citations is not None else []) + ([CONTEXTS] if claim.by_contexts is not None else [])
    return {
        "claim": plain((event.answer or "")[claim.start : claim.end]).strip(),
        "verified": verified,
        "confidence": None if strongest is None else strongest if verified else 1 - strongest,
        "sources": list(dict.fromkeys(sources)),
    }


def _citation_accuracy(supports: Sequence[Support | None]) -> float | None:
    """Share of supporting citations among those that can be resolved and stand with a claim; None without any."""
    found = [support.outcome == "supported" for support in supports if support is not None]
    return sum(found) / len(found) if found else None
