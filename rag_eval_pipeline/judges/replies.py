"""Strict parsing of the model judge's replies, and the judgements made of them.

Every verdict that was asked for must be there, by its id and with the nonce. Nothing is read out of prose, and no
number is clamped or guessed.
Source: Citation Accuracy Evaluation 4.3 takes the first number and clamps it, so that `nan`, `inf` and `85` are 1.0.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import regex

from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.judges.claim_splitting import AnswerClaim
from rag_eval_pipeline.judges.judgement import (
    Case,
    CitationLabels,
    Claim,
    Correctness,
    FactOutcome,
    FactVerdict,
    Judgement,
    Support,
    Verdict,
)
from rag_eval_pipeline.judges.prompts import JudgementPrompt, LabelledClaim
from rag_eval_pipeline.judges.ratings import RatingProtocol
from rag_eval_pipeline.storage.json_files import checked_json
from rag_eval_pipeline.text.model_output import final_text, unfenced

Value = Literal["supported", "conflicting", "not_found", "no_text"]
FALLBACK = "fallback_scoring"
REASON_CHARS = 300  # of a rationale as it is stored
_DECLINES = regex.compile(
    r"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|i can(?:no|')t|i am (?:unable|not able)|i'm (?:unable|not able)|"
    r"i (?:must|have to) decline|i won'?t|as an ai)\b"
)


class Unparsable(Exception):
    """A reply that holds no verdict; `fault` is one line on what is wrong with it, for people and for the model."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Overall(_Reply):
    rationale: str
    verdict: Verdict


class _ClaimVerdicts(_Reply):
    id: str
    rationale: str
    by_citations: Value
    by_contexts: Value


class _CitationVerdict(_Reply):
    id: str
    rationale: str
    verdict: Value


class _SupportReply(_Reply):
    nonce: str
    claims: tuple[_ClaimVerdicts, ...]
    citations: tuple[_CitationVerdict, ...]


class _JudgementReply(_Reply):
    nonce: str
    correctness: _Overall
    claims: tuple[_ClaimVerdicts, ...]
    citations: tuple[_CitationVerdict, ...]


class _RatingReply(_Reply):
    nonce: str
    rationale: str
    rating: int


class _DimensionsReply(_Reply):
    nonce: str
    rationale: str
    ratings: dict[str, int]


class _ClaimLabels(_Reply):
    id: str
    rationale: str
    entailed: bool


class _LabelsReply(_Reply):
    nonce: str
    labels: tuple[_ClaimLabels, ...]


class _FactLabel(_Reply):
    id: str
    rationale: str
    verdict: FactOutcome


class _FactsReply(_Reply):
    nonce: str
    facts: tuple[_FactLabel, ...]


Form = TypeVar("Form", _SupportReply, _JudgementReply, _RatingReply, _DimensionsReply, _LabelsReply, _FactsReply)


class JudgedPart(NamedTuple):
    """The verdicts of one call; `citations` has the support by the citation's index in the case."""

    correctness: Correctness | None
    is_refusal: bool
    claims: tuple[Claim, ...]
    citations: dict[int, Support]


# --- parsing


def _parse_reply(text: str, form: type[Form], nonce: str) -> Form:
    """Parse a reply; thoughts before it and one code fence around all of it are skipped."""
    final = final_text(text)
    if final is None:
        raise Unparsable("it ended within the model's thoughts")
    body = unfenced(final)
    if not body:
        raise Unparsable("it was empty")
    try:
        reply = msgspec.json.decode(checked_json(body.encode(), "the reply"), type=form)
    except UnicodeEncodeError:
        raise Unparsable("it holds half of a character") from None
    except InputError as error:
        raise Unparsable(f"it was no JSON object of the form: expected {error.expected}, found {error.found}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unparsable(f"it was no JSON object of the form: {_one_line(str(error)[:REASON_CHARS])}") from None
    if reply.nonce != nonce:
        raise Unparsable(f"its nonce was {excerpt(reply.nonce[:40])}")
    return reply


def declines(text: str) -> bool:
    """Whether the model refuses the task, in a reply without an object."""
    return "{" not in text and _DECLINES.search(text.replace("’", "'").casefold()) is not None


def parse_judgement(text: str, asked: JudgementPrompt, case: Case) -> JudgedPart:
    """Return a reply's verdicts; raises `Unparsable` for anything but what was asked for."""
    nonce = asked.prompt.nonce
    reply: _SupportReply | _JudgementReply
    correctness, is_refusal = None, False
    if asked.asks_correctness:
        reply = whole = _parse_reply(text, _JudgementReply, nonce)
        verdict = whole.correctness.verdict
        if case.is_impossible and verdict == "correct":
            raise Unparsable('with is_impossible the verdict is "refused" or "incorrect", found "correct"')
        is_refusal = verdict == "refused"
        correctness = _correctness(verdict, _reason(whole.correctness.rationale), case)
    else:
        reply = _parse_reply(text, _SupportReply, nonce)
    _check_ids([one.id for one in reply.claims], "c", len(asked.claims))
    _check_ids([one.id for one in reply.citations], "k", len(asked.checks))
    citations: dict[int, Support] = {}
    alone: dict[tuple[str, int], bool] = {}  # by the claim's id and the citation's index
    for check, answer in zip(asked.checks, reply.citations, strict=True):
        _check_value(answer.verdict, True, f"the verdict of {answer.id}")
        _keep_better(citations, check.citation, _support(answer.verdict, answer.rationale))
        alone[check.claim, check.citation] = answer.verdict == "supported"
    claims = []
    for claim, cited, verdicts in zip(asked.claims, asked.cited, reply.claims, strict=True):
        _check_value(verdicts.by_citations, bool(cited), f"by_citations of {verdicts.id}")
        _check_value(verdicts.by_contexts, asked.has_contexts, f"by_contexts of {verdicts.id}")
        by_citations = _support(verdicts.by_citations, verdicts.rationale)
        by_contexts = _support(verdicts.by_contexts, verdicts.rationale)
        if len(cited) == 1:
            _keep_better(citations, cited[0], by_citations)
            alone[verdicts.id, cited[0]] = verdicts.by_citations == "supported"
        labels = None
        if not any(case.citations[i].has_no_mark for i in claim.citations):
            enough = tuple(alone.get((verdicts.id, i), False) for i in claim.citations)
            labels = CitationLabels(enough, (None,) * len(enough))
        claims.append(Claim(claim.start, claim.end, tuple(claim.citations), by_citations, by_contexts, labels))
    return JudgedPart(correctness, is_refusal, tuple(claims), citations)


def parse_labels(text: str, n_items: int, nonce: str) -> tuple[bool, ...]:
    """Return whether each of the items asked for is entailed, in their order; raises `Unparsable`."""
    labels = _parse_reply(text, _LabelsReply, nonce).labels
    _check_ids([one.id for one in labels], "c", n_items)
    return tuple(one.entailed for one in labels)


def parse_facts(text: str, n_items: int, nonce: str) -> tuple[FactVerdict, ...]:
    """Return the verdicts on the facts asked for, in their order; raises `Unparsable`."""
    labels = _parse_reply(text, _FactsReply, nonce).facts
    _check_ids([one.id for one in labels], "f", n_items)
    return tuple(FactVerdict(one.verdict, _reason(one.rationale)) for one in labels)


def parse_rating(text: str, protocol: RatingProtocol, nonce: str) -> dict[str, float]:
    """Return the scores of a rating by their names in the results; raises `Unparsable`."""
    if not protocol.dimensions:
        rating = _parse_reply(text, _RatingReply, nonce).rating
        _check_grade(rating, protocol, "the rating")
        return protocol.scores(rating)
    grades = _parse_reply(text, _DimensionsReply, nonce).ratings
    if grades.keys() != set(protocol.dimensions):
        raise Unparsable(f"expected ratings of {', '.join(protocol.dimensions)}, found {excerpt(sorted(grades))}")
    for dimension, grade in grades.items():
        _check_grade(grade, protocol, f"the rating of {dimension}")
    return protocol.scores(grades)


# --- judgements


def judge_empty_answer(case: Case) -> Judgement:
    """Return the judgement of an answer without a letter or digit; no model has to be asked."""
    correctness = _correctness("refused", "empty", case) if case.has_gold else None
    return Judgement(case.query_id, "completed", correctness, citation_support=(None,) * len(case.citations))


def assemble_judgement(case: Case, parts: Sequence[JudgedPart]) -> Judgement:
    """Return the judgement of an answer from the verdicts of its calls."""
    correctness = parts[0].correctness if parts else None
    if parts and parts[0].is_refusal:
        return Judgement(case.query_id, "completed", correctness, citation_support=(None,) * len(case.citations))
    found: dict[int, Support] = {}
    for part in parts:
        for citation, support in part.citations.items():
            _keep_better(found, citation, support)
    return Judgement(
        case.query_id,
        "completed",
        correctness,
        claims=tuple(claim for part in parts for claim in part.claims),
        citation_support=tuple(found.get(i) for i in range(len(case.citations))),
    )


def fallback_judgement(case: Case, claims: Sequence[AnswerClaim], score: float) -> Judgement:
    """Return a judgement in which every verdict is a score that no model gave; it is flagged `fallback_score`."""
    unknown = Support("not_found", score, FALLBACK)
    has_contexts = any(text.strip() for text in case.contexts)
    exists = [bool((cited.text or "").strip()) for cited in case.citations]
    used = {i for claim in claims for i in claim.citations if exists[i]}
    return Judgement(
        case.query_id,
        "completed",
        Correctness("unsure", score, FALLBACK) if case.has_gold else None,
        claims=tuple(
            Claim(
                claim.start,
                claim.end,
                tuple(claim.citations),
                unknown if any(exists[i] for i in claim.citations) else None,
                unknown if has_contexts else None,
            )
            for claim in claims
        ),
        citation_support=tuple(unknown if i in used else None for i in range(len(case.citations))),
        flags=("fallback_score",),
    )


def wanted_labels(case: Case, judgement: Judgement, claims: Sequence[AnswerClaim]) -> tuple[LabelledClaim, ...]:
    """Return what has to be asked: claims without one of their citations."""
    return tuple(
        LabelledClaim(claims[number].text, others) for number, _, others in _redundancy_checks(case, judgement)
    )


def add_labels(case: Case, judgement: Judgement, labels: Sequence[bool]) -> Judgement:
    """Return the judgement with the labels of what `wanted_labels` gave for the same arguments."""
    without = [list(claim.labels.without) if claim.labels else [] for claim in judgement.claims]
    for (number, place, _), is_entailed in zip(_redundancy_checks(case, judgement), labels, strict=True):
        without[number][place] = is_entailed
    claims = tuple(
        msgspec.structs.replace(claim, labels=claim.labels and CitationLabels(claim.labels.alone, tuple(others)))
        for claim, others in zip(judgement.claims, without, strict=True)
    )
    return msgspec.structs.replace(judgement, claims=claims)


def drop_labels(judgement: Judgement) -> Judgement:
    """Return the judgement without the labels of single citations, which are only a part of ALCE's."""
    claims = tuple(msgspec.structs.replace(claim, labels=None) for claim in judgement.claims)
    return msgspec.structs.replace(judgement, claims=claims)


# --- JSON Schemas of the replies, in the subset that strict structured output takes


def judgement_schema(asks_correctness: bool) -> Mapping[str, Any]:
    """Return the schema of a reply with verdicts."""
    return _schema(_JudgementReply if asks_correctness else _SupportReply)


def rating_schema(protocol: RatingProtocol) -> Mapping[str, Any]:
    """Return the schema of a rating's reply."""
    text, grade = {"type": "string"}, {"type": "integer", "enum": sorted(protocol.scale)}
    if not protocol.dimensions:
        return _object(nonce=text, rationale=text, rating=grade)
    return _object(nonce=text, rationale=text, ratings=_object(**dict.fromkeys(protocol.dimensions, grade)))


def _schema(form: Any) -> dict[str, Any]:
    """Return the schema of a form of replies or of one of its fields."""
    if get_origin(form) is Literal:
        return {"type": "string", "enum": list(get_args(form))}
    if get_origin(form) is tuple:
        return {"type": "array", "items": _schema(get_args(form)[0])}
    if issubclass(form, _Reply):
        return _object(**{name: _schema(field) for name, field in get_type_hints(form).items()})
    return {"type": "boolean" if form is bool else "string"}


def _object(**properties: Any) -> dict[str, Any]:
    # Properties are written in their order: a rationale that comes after its verdict only excuses it.
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


LABELS_SCHEMA = _schema(_LabelsReply)
FACTS_SCHEMA = _schema(_FactsReply)


# --- parts of replies


def _check_ids(found: Sequence[str], prefix: str, count: int) -> None:
    wanted = [f"{prefix}{number}" for number in range(1, count + 1)]
    if found != wanted:
        expected = f"exactly the ids {', '.join(wanted)}" if wanted else f"no id {prefix}…"
        raise Unparsable(f"expected {expected} in this order, found {excerpt([*found])}")


def _check_value(value: Value, has_text: bool, where: str) -> None:
    if (value != "no_text") != has_text:
        expected = "a verdict, as there is a text" if has_text else '"no_text", as there is none'
        raise Unparsable(f'{where} was "{value}", expected {expected}')


def _check_grade(grade: int, protocol: RatingProtocol, where: str) -> None:
    if grade not in protocol.scale:
        raise Unparsable(f"{where} was {grade}, expected one of {sorted(protocol.scale)}")


def _correctness(verdict: Verdict, reason: str, case: Case) -> Correctness:
    if verdict == "refused" and case.is_impossible:
        return Correctness("correct", 1.0, f"refused, as is right here: {reason}")
    return Correctness(verdict, float(verdict == "correct"), reason)


def _support(value: Value, rationale: str) -> Support | None:
    return None if value == "no_text" else Support(value, float(value == "supported"), _reason(rationale))


def _keep_better(found: dict[int, Support], citation: int, support: Support | None) -> None:
    """Keep the better of two, the first of equals: supported before conflicting before not found, then by score."""
    rank = {"supported": 2, "conflicting": 1, "not_found": 0}
    known = [one for one in (found.get(citation), support) if one is not None]
    if known:
        found[citation] = max(known, key=lambda one: (rank[one.outcome], one.score))


def _redundancy_checks(case: Case, judgement: Judgement) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield claim, place of a citation and its other citations, where ALCE asks whether the others suffice."""
    for number, claim in enumerate(judgement.claims):
        labels = claim.labels
        is_whole = all(case.citations[i].text is not None for i in claim.citations)
        if labels is None or not claim.is_supported or not is_whole or len(claim.citations) < 2:
            continue
        for place, alone in enumerate(labels.alone):
            if not alone:
                yield number, place, tuple(i for i in claim.citations if i != claim.citations[place])


def _reason(rationale: str) -> str:
    line = _one_line(rationale)
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1] + "…"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
