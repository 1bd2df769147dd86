"""Several judgings of one answer as one: most verdicts win, and a tie is no verdict."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from rag_eval_pipeline.judges.judgement import (
    CitationLabels,
    Claim,
    Correctness,
    Entailment,
    Judgement,
    JudgeUsage,
    Support,
)

Outcome = TypeVar("Outcome", bound=str)


def majority(repeats: Sequence[Judgement]) -> Judgement:
    """The judgement that most of the repeats give.

    A repeat that failed makes all of it fail: a majority of those that came through would be chosen by the failure.
    Refusals have no claims, so claims count only when no repeat calls the answer a refusal, or all do.

    Args:
        repeats: Of one answer, one or more.
    """
    if len(repeats) == 1:
        return repeats[0]
    usage = JudgeUsage(
        *(sum(getattr(r.usage, name) for r in repeats) for name in JudgeUsage.__struct_fields__)
    )  # fmt: skip
    flags = tuple(sorted({flag for repeat in repeats for flag in repeat.flags}))
    model = repeats[0].model
    failed = next((repeat for repeat in repeats if repeat.status == "failed"), None)
    if failed is not None:
        return msgspec.structs.replace(failed, usage=usage, flags=flags, model=model)
    correctness = _correctness([repeat.correctness for repeat in repeats])
    refused = correctness is not None and correctness.verdict == "refused"
    with_claims = [repeat for repeat in repeats if repeat.claims]
    claims: tuple[Claim, ...] = ()
    citations: tuple[Support | None, ...] = (None,) * len(repeats[0].citation_support)
    if with_claims and not refused:
        claims = tuple(_claim(same) for same in zip(*(repeat.claims for repeat in with_claims), strict=True))
        citations = tuple(_support(same) for same in zip(*(r.citation_support for r in with_claims), strict=True))
    rated = [repeat.ratings for repeat in repeats]
    return Judgement(
        repeats[0].query_id,
        "completed",
        correctness,
        claims,
        citations,
        {name: sum(r[name] for r in rated) / len(rated) for name in rated[0] if all(name in r for r in rated)},
        flags=flags,
        usage=usage,
        model=model,
        entailment=_entailment([r.entailment for r in repeats], [r.entailment for r in with_claims] if claims else []),
    )


def _winner(outcomes: Sequence[Outcome]) -> Outcome | None:
    ranked = Counter(outcomes).most_common(2)
    return None if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _correctness(given: Sequence[Correctness | None]) -> Correctness | None:
    known = [one for one in given if one is not None]
    if len(known) < len(given):
        return None
    winner = _winner([one.verdict for one in known])
    if winner is None:
        return Correctness("unsure", 0.0, "the repeats disagree")
    return next(one for one in known if one.verdict == winner)


def _support(given: Sequence[Support | None]) -> Support | None:
    known = [one for one in given if one is not None]
    if not known:
        return None
    winner = _winner([one.outcome for one in known])
    if winner is None:
        return Support("not_found", 0.0, "the repeats disagree")
    return next(one for one in known if one.outcome == winner)


def _claim(given: Sequence[Claim]) -> Claim:
    return msgspec.structs.replace(
        given[0],
        by_citations=_support([one.by_citations for one in given]),
        by_contexts=_support([one.by_contexts for one in given]),
        labels=_labels([one.labels for one in given]),
    )


def _labels(given: Sequence[CitationLabels | None]) -> CitationLabels | None:
    known = [one for one in given if one is not None]
    if len(known) < len(given):
        return None
    alone = _most([one.alone for one in known])
    asked = zip(*(one.without for one in known), strict=True)
    # Where none of them asked, the others are not known to be enough: the citation is needed.
    without = (_is_most([said for said in column if said is not None]) for column in asked)
    return CitationLabels(alone, tuple(None if enough else rest for enough, rest in zip(alone, without, strict=True)))


def _entailment(given: Sequence[Entailment | None], of_claims: Sequence[Entailment | None]) -> Entailment | None:
    """Labels of gold claims by all repeats, those of claims by the repeats that found any."""
    known = [one for one in given if one is not None]
    own = [one for one in of_claims if one is not None]
    if len(known) < len(given):
        return None
    return Entailment(
        gold=known[0].gold,
        gold_claims=known[0].gold_claims,
        correct=_most([one.correct for one in own]),
        covered=_most([one.covered for one in known]),
        grounded=_rows([one.grounded for one in own]),
        retrieved=_rows([one.retrieved for one in known]),
    )


def _rows(given: Sequence[Sequence[tuple[bool, ...]]]) -> tuple[tuple[bool, ...], ...]:
    return tuple(_most(same) for same in zip(*given, strict=True))


def _most(given: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    return tuple(_is_most(column) for column in zip(*given, strict=True))


def _is_most(said: Sequence[bool]) -> bool:
    """Whether more say yes than no; a tie is no, as it is no support."""
    return 2 * sum(said) > len(said)
