"""A model's reply, taken whole or not at all: every verdict that was asked for, by its name, with the nonce.

Nothing is read out of prose, no number is clamped and none is guessed. `85`, `nan`, `8/10` and two numbers are no
verdicts here, whatever they might have meant.
Source: Citation Accuracy Evaluation 4.3 takes the first number and clamps it, so that `nan`, `inf` and `85` are 1.0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
import regex

from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.formats.json_text import checked_json
from rag_eval_pipeline.judges.judgement import Verdict

Value = Literal["supported", "conflicting", "not_found", "no_text"]
_FENCED = regex.compile(r"\A```(?:json)?\s*\n(?P<json>.*)\n\s*```\Z", regex.DOTALL)
_THOUGHT = regex.compile(r"\A\s*<think>.*?</think>", regex.DOTALL)
_DECLINES = regex.compile(
    r"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|i can(?:no|')t|i am (?:unable|not able)|i'm (?:unable|not able)|"
    r"i (?:must|have to) decline|i won'?t|as an ai)\b"
)


class Unparsable(Exception):
    """A reply that holds no verdict; `fault` says what is wrong with it, in one line and for the model too."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class OverallReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Verdict on a whole answer."""

    rationale: str
    verdict: Verdict


class ClaimReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Verdicts on one claim."""

    id: str
    rationale: str
    by_citations: Value
    by_contexts: Value


class CitationReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Verdict on one citation of a claim."""

    id: str
    rationale: str
    verdict: Value


class SupportReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for claims alone."""

    nonce: str
    claims: tuple[ClaimReply, ...]
    citations: tuple[CitationReply, ...]


class JudgementReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for an answer."""

    nonce: str
    correctness: OverallReply
    claims: tuple[ClaimReply, ...]
    citations: tuple[CitationReply, ...]


class RatingReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rating on a scale of whole numbers."""

    nonce: str
    rationale: str
    rating: int


class LabelReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What entails one claim."""

    id: str
    rationale: str
    entailed: bool
    passages: tuple[str, ...]


class LabelsReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for labels."""

    nonce: str
    labels: tuple[LabelReply, ...]


Reply = TypeVar("Reply", SupportReply, JudgementReply, RatingReply, LabelsReply)


def parse_reply(text: str, form: type[Reply], nonce: str) -> Reply:
    """The reply as its form.

    Args:
        text: As the model wrote it; one code fence around all of it, and thoughts before it, are passed over.
        form: What was asked for.
        nonce: That has to come back.

    Raises:
        Unparsable: It is anything else than one JSON object of this form with this nonce.
    """
    body = _THOUGHT.sub("", text).strip()
    if fenced := _FENCED.match(body):
        body = fenced["json"]
    if not body:
        raise Unparsable("it was empty")
    try:
        reply = msgspec.json.decode(checked_json(body.encode(), "the reply"), type=form)
    except UnicodeEncodeError:
        raise Unparsable("it holds half of a character") from None
    except InputError as error:
        raise Unparsable(f"it was no JSON object of the form: expected {error.expected}, found {error.found}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unparsable(f"it was no JSON object of the form: {_one_line(str(error))}") from None
    if reply.nonce != nonce:
        raise Unparsable(f"its nonce was {excerpt(reply.nonce[:40])}")
    return reply


def check_ids(
    replies: Sequence[ClaimReply] | Sequence[CitationReply] | Sequence[LabelReply], prefix: str, count: int
) -> None:
    """Raises `Unparsable` unless there is exactly one of each id from `<prefix>1` on, in order."""
    found = [reply.id for reply in replies]
    wanted = [f"{prefix}{number}" for number in range(1, count + 1)]
    if found != wanted:
        expected = f"exactly the ids {', '.join(wanted)}" if wanted else f"no id {prefix}…"
        raise Unparsable(f"expected {expected} in this order, found {excerpt(found)}")


def check_value(value: Value, has_text: bool, where: str) -> None:
    """Raises `Unparsable` for a verdict without a text, and for none where there is one."""
    if (value != "no_text") != has_text:
        expected = "a verdict, as there is a text" if has_text else '"no_text", as there is none'
        raise Unparsable(f'{where} was "{value}", expected {expected}')


def declines(text: str) -> bool:
    """Whether a reply without an object says that the model will not do it."""
    return "{" not in text and _DECLINES.search(text.replace("’", "'").casefold()) is not None


def one_line_reason(rationale: str) -> str:
    """A rationale as it is stored: one line, at most 300 characters."""
    line = _one_line(rationale)
    return line if len(line) <= 300 else line[:299] + "…"


def judgement_schema(asks_correctness: bool) -> Mapping[str, Any]:
    """JSON Schema of the reply, in the subset that strict structured output takes."""
    text = {"type": "string"}
    value = {"type": "string", "enum": ["supported", "conflicting", "not_found", "no_text"]}
    overall = _object(rationale=text, verdict={"type": "string", "enum": ["correct", "incorrect", "refused", "unsure"]})
    claim = _object(id=text, rationale=text, by_citations=value, by_contexts=value)
    citation = _object(id=text, rationale=text, verdict=value)
    lists = {"claims": {"type": "array", "items": claim}, "citations": {"type": "array", "items": citation}}
    if asks_correctness:
        return _object(nonce=text, correctness=overall, **lists)
    return _object(nonce=text, **lists)


def labels_schema() -> Mapping[str, Any]:
    """JSON Schema of the reply to a call for labels."""
    text = {"type": "string"}
    names = {"type": "array", "items": text}
    label = _object(id=text, rationale=text, entailed={"type": "boolean"}, passages=names)
    return _object(nonce=text, labels={"type": "array", "items": label})


def rating_schema(scale: Sequence[int]) -> Mapping[str, Any]:
    """JSON Schema of a rating's reply."""
    text = {"type": "string"}
    return _object(nonce=text, rationale=text, rating={"type": "integer", "enum": list(scale)})


def _object(**properties: Any) -> dict[str, Any]:
    # The order of the properties is the order of writing: a rationale that comes after its verdict excuses it.
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
