"""What entails what by words and numbers: the answer, the gold answer, and each retrieved passage.

The answer and the gold answer are read with the question: words of a claim that the question has need not be said
again, as `9 November 1891` is all that `First light came on 9 November 1891` adds to `When was first light?`. Passages
have to hold a claim by themselves, by the rules of support.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import Case, Entailment
from rag_eval_pipeline.judges.lexical.claims import gold_claims
from rag_eval_pipeline.judges.lexical.evidence import Evidence, EvidenceStore
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.lexical.support import ClaimWords, read_claim, supports
from rag_eval_pipeline.judges.lexical.words import Vocabulary


class Means(NamedTuple):
    """What texts are compared with.

    Args:
        vocabulary: How words are compared.
        settings: Thresholds.
        store: Prepared texts.
    """

    vocabulary: Vocabulary
    settings: LexicalSettings
    store: EvidenceStore


class _Gold(NamedTuple):
    text: str
    claims: list[str]
    words: list[ClaimWords]
    covered: tuple[bool, ...]


def entailment(case: Case, answer: str, claims: Sequence[ClaimWords], means: Means) -> Entailment | None:
    """The labels of one answer.

    Args:
        case: With its gold answers and contexts.
        answer: Its text without citations.
        claims: Of the answer, ready to be looked for.
        means: What texts are compared with.

    Returns:
        None without a gold answer that claims anything.
    """
    asked = Evidence(case.question, means.vocabulary)
    gold = _chosen(case, asked, _own(answer, means), means)
    if gold is None:
        return None
    against = _own(gold.text, means)
    passages = [means.store.prepared([context]) for context in case.contexts]
    return Entailment(
        gold=gold.text,
        gold_claims=tuple(gold.claims),
        correct=tuple(_added(claim, asked, against, means) for claim in claims),
        covered=gold.covered,
        grounded=_held(claims, passages, means.settings),
        retrieved=_held(gold.words, passages, means.settings),
    )


def chosen_gold(case: Case, answer: str, means: Means) -> tuple[str, list[str]] | None:
    """The accepted answer that an answer says most of, of equal ones the longest, and its claims; None without claims.

    Args:
        case: With its gold answers.
        answer: Its text without citations.
        means: What texts are compared with.
    """
    found = _chosen(case, Evidence(case.question, means.vocabulary), _own(answer, means), means)
    return None if found is None else (found.text, found.claims)


def _chosen(case: Case, asked: Evidence, answer: Sequence[Evidence], means: Means) -> _Gold | None:
    found = []
    for gold in case.accepted:
        claims = gold_claims(gold)
        words = [read_claim(claim, means.vocabulary) for claim in claims]
        if claims:
            found.append(_Gold(gold, claims, words, tuple(_added(claim, asked, answer, means) for claim in words)))
    # Of two that are said wholly the longer one leaves less of the answer without a counterpart.
    return max(found, key=lambda gold: (sum(gold.covered) / len(gold.covered), _size(gold.words)), default=None)


def _size(claims: Sequence[ClaimWords]) -> int:
    return sum(claim.total for claim in claims)


def _own(text: str, means: Means) -> list[Evidence]:
    """A text that is asked for once and not kept; none where it says nothing."""
    evidence = Evidence(text, means.vocabulary)
    return [] if evidence.is_empty else [evidence]


def _added(claim: ClaimWords, asked: Evidence, evidence: Sequence[Evidence], means: Means) -> bool:
    """Whether texts hold what a claim says beyond the question; all of it, where it says no more: `the Nile`."""
    rest = {stem: weight for stem, weight in claim.weights.items() if stem not in asked.places}
    if rest:
        claim = claim._replace(
            weights=rest,
            total=sum(rest.values()),
            quantities=tuple(
                quantity
                for quantity in claim.quantities
                if asked.figures.match(quantity, means.settings.support_number_tolerance) == "no"
            ),
            names=tuple(name for name in claim.names if name[0] not in asked.all_stems),
        )
    return bool(evidence) and supports(claim, evidence, means.settings)


def _held(
    claims: Sequence[ClaimWords], passages: Sequence[Sequence[Evidence]], settings: LexicalSettings
) -> tuple[tuple[bool, ...], ...]:
    return tuple(
        tuple(bool(passage) and supports(claim, passage, settings) for passage in passages) for claim in claims
    )
