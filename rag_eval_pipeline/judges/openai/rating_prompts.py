"""Ratings as prompts: the parts that a protocol needs, and the two that it compares in turn."""

from typing import Any

from rag_eval_pipeline.endpoints.chat import Message
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.openai.data_section import data_section
from rag_eval_pipeline.judges.openai.evidence import choose_evidence
from rag_eval_pipeline.judges.openai.prompts import DATA_RULES, Prompt
from rag_eval_pipeline.judges.openai.ratings import Part, RatingProtocol

SYSTEM = f"You grade answers of a system that answers questions.\n\n{DATA_RULES}"
FORM = 'Reply: {{"nonce": "{nonce}", "rationale": "…", "rating": {scale}}}'


def applies(protocol: RatingProtocol, case: Case) -> bool:
    """Whether the case has everything that the protocol needs."""
    return all(_part(part, case) for part in protocol.needs)


def rating_prompts(protocol: RatingProtocol, case: Case, *, evidence_chars: int, salt: str) -> list[Prompt]:
    """The calls for one answer, in the protocol's order."""
    return [
        _prompt(protocol, text, case, turned=number % 2 == 1, evidence_chars=evidence_chars, salt=salt)
        for number, text in enumerate(protocol.prompts)
    ]


def _prompt(protocol: RatingProtocol, text: str, case: Case, *, turned: bool, evidence_chars: int, salt: str) -> Prompt:
    parts: dict[str, Any] = {part: _part(part, case) for part in protocol.needs}
    if "contexts" in parts:
        parts["contexts"] = choose_evidence(case.contexts, [case.question, case.answer], evidence_chars)
    if "answer" in parts:
        (parts["answer"],) = choose_evidence([case.answer], [case.question, *case.accepted], evidence_chars)
    if protocol.compares is not None:
        first, second = (parts.pop(part) for part in protocol.compares)
        parts |= {"first": second, "second": first} if turned else {"first": first, "second": second}
    section = data_section({"task": "rating", "protocol": protocol.name, "turned": turned, **parts}, salt=salt)
    scale = " | ".join(map(str, sorted(protocol.scale)))
    form = FORM.format(nonce=section.nonce, scale=scale)
    content = "\n\n".join([text, section.text, form])
    return Prompt((Message("system", SYSTEM), Message("user", content)), section.nonce)


def _part(part: Part, case: Case) -> Any:
    match part:
        case "question":
            return case.question
        case "answer":
            return case.answer.strip()
        case "gold":
            return case.accepted
        case "contexts":
            return tuple(text for text in case.contexts if text.strip())
