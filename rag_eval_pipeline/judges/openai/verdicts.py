"""Replies as judgements: every verdict that was asked for and no other, put back to the claims it is about."""

from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import (
    Case,
    CitationLabels,
    Claim,
    Correctness,
    Judgement,
    Support,
    Verdict,
    better_support,
)
from rag_eval_pipeline.judges.openai.claims import CitedClaim
from rag_eval_pipeline.judges.openai.prompts import JudgementPrompt
from rag_eval_pipeline.judges.openai.replies import (
    JudgementReply,
    SupportReply,
    Unparsable,
    Value,
    check_ids,
    check_value,
    one_line_reason,
    parse_reply,
)

FALLBACK = "fallback_scoring"


class JudgedPart(NamedTuple):
    """The verdicts of one call.

    Args:
        correctness: Of the answer, where that was asked for.
        is_refusal: The answer declines, so it has no claims.
        claims: Those that were asked for; of their labels those of single citations, `without` still to be asked.
        citations: Support by the citation's index in the case.
    """

    correctness: Correctness | None
    is_refusal: bool
    claims: tuple[Claim, ...]
    citations: dict[int, Support]


def read_judgement(text: str, asked: JudgementPrompt, case: Case) -> JudgedPart:
    """A reply's verdicts.

    Raises:
        Unparsable: It is not exactly what was asked for.
    """
    nonce = asked.prompt.nonce
    reply: JudgementReply | SupportReply
    correctness, is_refusal = None, False
    if asked.asks_correctness:
        reply = whole = parse_reply(text, JudgementReply, nonce)
        verdict = whole.correctness.verdict
        if case.is_impossible and verdict == "correct":
            raise Unparsable('with is_impossible the verdict is "refused" or "incorrect", found "correct"')
        is_refusal = verdict == "refused"
        correctness = _correctness(verdict, one_line_reason(whole.correctness.rationale), case)
    else:
        reply = parse_reply(text, SupportReply, nonce)
    check_ids(reply.claims, "c", len(asked.claims))
    check_ids(reply.citations, "k", len(asked.checks))
    citations: dict[int, Support] = {}
    alone: dict[tuple[str, int], bool] = {}  # by id of the claim and index of the citation
    for check, answer in zip(asked.checks, reply.citations, strict=True):
        check_value(answer.verdict, True, f"the verdict of {answer.id}")
        _take_better(citations, check.citation, _support(answer.verdict, answer.rationale))
        alone[check.claim, check.citation] = answer.verdict == "supported"
    claims = []
    for claim, cited, said in zip(asked.claims, asked.cited, reply.claims, strict=True):
        check_value(said.by_citations, bool(cited), f"by_citations of {said.id}")
        check_value(said.by_contexts, asked.has_contexts, f"by_contexts of {said.id}")
        by_citations = _support(said.by_citations, said.rationale)
        by_contexts = _support(said.by_contexts, said.rationale)
        if len(cited) == 1:
            _take_better(citations, cited[0], by_citations)
            alone[said.id, cited[0]] = said.by_citations == "supported"
        labels = None
        if not any(case.citations[i].is_beside for i in claim.citations):
            enough = tuple(alone.get((said.id, i), False) for i in claim.citations)
            labels = CitationLabels(enough, (None,) * len(enough))
        claims.append(Claim(claim.start, claim.end, tuple(claim.citations), by_citations, by_contexts, labels))
    return JudgedPart(correctness, is_refusal, tuple(claims), citations)


def empty_answer(case: Case) -> Judgement:
    """The judgement of an answer without a letter or digit: nobody has to be asked."""
    correctness = _correctness("refused", "empty", case) if has_gold(case) else None
    return Judgement(case.query_id, "completed", correctness, citation_support=(None,) * len(case.citations))


def has_gold(case: Case) -> bool:
    """Whether it is known what is right."""
    return bool(case.accepted) or case.is_impossible


def assembled(case: Case, parts: Sequence[JudgedPart]) -> Judgement:
    """The judgement of an answer from its calls' verdicts."""
    correctness = parts[0].correctness if parts else None
    if parts and parts[0].is_refusal:
        return Judgement(case.query_id, "completed", correctness, citation_support=(None,) * len(case.citations))
    found: dict[int, Support] = {}
    for part in parts:
        for citation, support in part.citations.items():
            _take_better(found, citation, support)
    return Judgement(
        case.query_id,
        "completed",
        correctness,
        claims=tuple(claim for part in parts for claim in part.claims),
        citation_support=tuple(found.get(i) for i in range(len(case.citations))),
    )


def fallback(case: Case, claims: Sequence[CitedClaim], score: float) -> Judgement:
    """A judgement in which every verdict is a score that nobody gave; the flag says so."""
    unknown = Support("not_found", score, FALLBACK)
    has_contexts = any(text.strip() for text in case.contexts)
    resolved = [bool((cited.text or "").strip()) for cited in case.citations]
    standing = {i for claim in claims for i in claim.citations if resolved[i]}
    return Judgement(
        case.query_id,
        "completed",
        Correctness("unsure", score, FALLBACK) if has_gold(case) else None,
        claims=tuple(
            Claim(
                claim.start,
                claim.end,
                tuple(claim.citations),
                unknown if any(resolved[i] for i in claim.citations) else None,
                unknown if has_contexts else None,
            )
            for claim in claims
        ),
        citation_support=tuple(unknown if i in standing else None for i in range(len(case.citations))),
        flags=("fallback_score",),
    )


def _correctness(verdict: Verdict, reason: str, case: Case) -> Correctness:
    if verdict == "refused" and case.is_impossible:
        return Correctness("correct", 1.0, f"refused, as is right here: {reason}")
    return Correctness(verdict, float(verdict == "correct"), reason)


def _take_better(found: dict[int, Support], citation: int, support: Support | None) -> None:
    better = better_support(found.get(citation), support)
    if better is not None:
        found[citation] = better


def _support(value: Value, rationale: str) -> Support | None:
    if value == "no_text":
        return None
    return Support(value, float(value == "supported"), one_line_reason(rationale))
