"""Replies to the call for labels, and an answer's judgement with the labels in it."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.judges.judgement import Case, CitationLabels, Entailment, Judgement
from rag_eval_pipeline.judges.openai.claims import GoldClaims
from rag_eval_pipeline.judges.openai.label_prompts import Labelled, LabelPrompt
from rag_eval_pipeline.judges.openai.replies import LabelsReply, Unparsable, check_ids, parse_reply


class Label(NamedTuple):
    """What is said of one claim: whether its text entails it, and which of the case's contexts do."""

    entailed: bool
    contexts: frozenset[int]


def wanted_labels(
    case: Case, judgement: Judgement, claims: Sequence[str], gold: GoldClaims | None
) -> tuple[Labelled, ...]:
    """What has to be asked of an answer whose verdicts are known: its claims, the gold ones, citations to be spared.

    Args:
        case: What is judged.
        judgement: Its verdicts.
        claims: Text of each of the judgement's claims.
        gold: The gold answer's claims; None without any, and then only citations are asked about.
    """
    compared = () if gold is None else (
        *(Labelled(text, "gold_answer") for text in claims), *(Labelled(text, "answer") for text in gold.claims)
    )  # fmt: skip
    spared = (Labelled(claims[number], others) for number, _, others in _spared(case, judgement))
    return (*compared, *spared)


def read_labels(text: str, asked: LabelPrompt) -> tuple[Label, ...]:
    """A reply's labels, in the order asked for.

    Raises:
        Unparsable: It is not exactly what was asked for.
    """
    reply = parse_reply(text, LabelsReply, asked.prompt.nonce)
    check_ids(reply.labels, "c", len(asked.items))
    known = {f"p{number}": context for number, context in enumerate(asked.passages, start=1)}
    found = []
    for item, said in zip(asked.items, reply.labels, strict=True):
        shown = () if isinstance(item.against, tuple) else known
        if unknown := [name for name in said.passages if name not in shown]:
            raise Unparsable(f"passages of {said.id} named {unknown[0]!r}, which was not among those asked about")
        found.append(Label(said.entailed, frozenset(known[name] for name in said.passages)))
    return tuple(found)


def with_labels(case: Case, judgement: Judgement, labels: Sequence[Label], gold: GoldClaims | None) -> Judgement:
    """The judgement with its labels; arguments as in `wanted_labels`, and what was said of each wanted label."""
    said = iter(labels)
    entailment = None
    if gold is not None:
        own = tuple(islice(said, len(judgement.claims)))
        theirs = tuple(islice(said, len(gold.claims)))
        entailment = Entailment(
            gold=gold.text,
            gold_claims=tuple(gold.claims),
            correct=tuple(label.entailed for label in own),
            covered=tuple(label.entailed for label in theirs),
            grounded=tuple(_row(label, case) for label in own),
            retrieved=tuple(_row(label, case) for label in theirs),
        )
    without = [list(claim.labels.without) if claim.labels else [] for claim in judgement.claims]
    for (number, place, _), label in zip(_spared(case, judgement), said, strict=True):
        without[number][place] = label.entailed
    claims = tuple(
        msgspec.structs.replace(claim, labels=claim.labels and CitationLabels(claim.labels.alone, tuple(own_without)))
        for claim, own_without in zip(judgement.claims, without, strict=True)
    )
    return msgspec.structs.replace(judgement, claims=claims, entailment=entailment)


def without_labels(judgement: Judgement) -> Judgement:
    """The judgement without what is only a part of the labels."""
    return msgspec.structs.replace(
        judgement, claims=tuple(msgspec.structs.replace(claim, labels=None) for claim in judgement.claims)
    )


def _spared(case: Case, judgement: Judgement) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Where ALCE asks whether a claim stands without one of its citations: claim, place of the citation, the others."""
    for number, claim in enumerate(judgement.claims):
        labels = claim.labels
        together = claim.by_citations is not None and claim.by_citations.outcome == "supported"
        is_whole = all(case.citations[i].text is not None for i in claim.citations)
        if labels is None or not together or not is_whole or len(claim.citations) < 2:
            continue
        for place, alone in enumerate(labels.alone):
            if not alone:
                yield number, place, tuple(i for i in claim.citations if i != claim.citations[place])


def _row(label: Label, case: Case) -> tuple[bool, ...]:
    return tuple(number in label.contexts for number in range(len(case.contexts)))
