"""What a judge says of the things that were labelled, in the labels' terms: yes or no, or why neither."""

from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.calibration_labels import Item
from rag_eval_pipeline.judges.judgement import LANGUAGE_NOT_SUPPORTED, Case, CitedText, Claim, Judgement, Support

SUPPORTED = "supported"


class Judged(NamedTuple):
    """A judge's word on one thing.

    Args:
        is_true: Yes or no; unsure is no. None when there is no verdict.
        verdict: As the judge names it; without a verdict the reason: a failure's code, `no_verdict`,
            `language_not_supported`, `no_claims`, `no_such_claim`, `no_evidence`.
        score: In [0, 1].
        reason: The judge's.
        text: Of the claim, else of the answer.
        against: The gold answers or the evidence it was compared with; empty where there is neither.
    """

    is_true: bool | None
    verdict: str
    score: float
    reason: str
    text: str
    against: str = ""

    @property
    def is_unsure(self) -> bool:
        """The judge does not decide."""
        return self.verdict == "unsure"


def case_of(item: Item, case: Case) -> Case:
    """What the judge is given for a labelled thing: its answer, or a claim and the text that people looked at."""
    if item.claim is None or item.evidence is None:
        return case
    beside = CitedText("evidence", item.evidence, len(item.claim), len(item.claim))
    return Case(case.query_id, case.question, (), False, item.claim, (beside,))


def judged(item: Item, case: Case, judgement: Judgement) -> Judged:
    """The judge's word on a labelled thing.

    Args:
        item: What was labelled.
        case: What the judge was given, see `case_of`.
        judgement: What it said.
    """
    text = item.claim or case.answer
    if judgement.status != "completed":
        return Judged(None, judgement.error_code or "failed", 0.0, judgement.error or "", text)
    if item.task == "support":
        return _support(item, case, judgement, text)
    found = judgement.correctness
    if found is None:
        reason = LANGUAGE_NOT_SUPPORTED if LANGUAGE_NOT_SUPPORTED in judgement.flags else "no_verdict"
        return Judged(None, reason, 0.0, "", text)
    if item.task == "refusal":
        # Refusing an impossible question is what is correct there.
        refused = found.verdict == "refused" or (case.is_impossible and found.verdict == "correct")
        return Judged(refused, "refused" if refused else "answered", float(refused), found.reason, text)
    gold = " | ".join(case.accepted)
    return Judged(found.verdict == "correct", found.verdict, found.score, found.reason, text, gold)


def _support(item: Item, case: Case, judgement: Judgement, text: str) -> Judged:
    claims: Sequence[Claim] = judgement.claims
    if item.claim is not None and item.evidence is None:
        start = case.answer.find(item.claim)
        if start < 0:
            return Judged(None, "no_such_claim", 0.0, "", text)
        end = start + len(item.claim)
        claims = [claim for claim in claims if claim.start < end and start < claim.end]
    if not claims:
        return Judged(None, "no_claims", 0.0, "", text)
    supports = [(support, claim) for claim in claims if (support := _evidence(claim)) is not None]
    if len(supports) < len(claims):
        return Judged(None, "no_evidence", 0.0, "", text)
    # An answer is supported when all of its claims are: its weakest claim speaks for it.
    weakest, claim = min(supports, key=lambda found: (found[0].outcome == SUPPORTED, found[0].score))
    return Judged(
        weakest.outcome == SUPPORTED, weakest.outcome, weakest.score, weakest.reason, text, _texts(claim, case)
    )


def _texts(claim: Claim, case: Case) -> str:
    cited = [case.citations[number].text for number in claim.citations]
    texts = case.contexts if claim.by_citations is None else [text for text in cited if text is not None]
    return " | ".join(texts)


def _evidence(claim: Claim) -> Support | None:
    return claim.by_contexts if claim.by_citations is None else claim.by_citations
