"""HotpotQA's scores: the answer, the supporting facts, and both together, as the official scorer computes them.

A yes, no or noanswer is right or wrong and has no partial F1. Precision and recall of both together are products, so
that an answer without its facts, or facts without the answer, is worth nothing. An answer or facts that are missing
count in the number of questions, as in the official scorer.
Source: Yang et al. 2018, HotpotQA; hotpot_evaluate_v1.py.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.metrics.span_columns import Citation
from rag_eval_pipeline.metrics.span_matching import MIN_OVERLAP
from rag_eval_pipeline.metrics.spans import overlap

WITHOUT_PARTS = frozenset({"yes", "no", "noanswer"})

Fact = tuple[str, int]  # title of a paragraph and number of a sentence, as the official files have it


class HotpotScore(NamedTuple):
    """Exact match (0.0 or 1.0), F1, precision and recall in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float


NOTHING = HotpotScore(0.0, 0.0, 0.0, 0.0)


class HotpotQuestion(NamedTuple):
    """What a system did on one question; None for what is missing."""

    answer: HotpotScore | None
    facts: HotpotScore | None


class HotpotTotals(NamedTuple):
    """Means over all questions, in [0, 1]."""

    answer: HotpotScore
    facts: HotpotScore
    joint: HotpotScore
    total: int


def hotpot_answer(answer: str, gold: str) -> HotpotScore:
    """The scores of an answer. An empty answer to an empty gold one matches exactly, with an F1 of 0."""
    given, wanted = normalise_answer(answer), normalise_answer(gold)
    em = float(given == wanted)
    if given != wanted and (given in WITHOUT_PARTS or wanted in WITHOUT_PARTS):
        return NOTHING
    tokens, gold_tokens = given.split(), wanted.split()
    shared = (Counter(tokens) & Counter(gold_tokens)).total()
    if shared == 0:
        return NOTHING._replace(em=em)
    precision, recall = shared / len(tokens), shared / len(gold_tokens)
    return HotpotScore(em, (2 * precision * recall) / (precision + recall), precision, recall)


def supporting_facts(given: Collection[Fact], gold: Collection[Fact]) -> HotpotScore:
    """The scores of supporting facts, each once."""
    return _of_counts(len(set(given) & set(gold)), len(set(given)), len(set(gold)))


def cited_facts(given: Sequence[Citation], gold: Sequence[Citation], *, least: float = MIN_OVERLAP) -> HotpotScore:
    """The scores of citations as supporting facts, where each gold span is a fact and offsets are the document's.

    A fact is given when at least `least` of its characters are cited; a citation that touches no fact is a false one.
    """
    wanted, cited = list(dict.fromkeys(gold)), list(dict.fromkeys(given))
    n_given = sum(_covered(fact, cited) >= least for fact in wanted)
    n_false = sum(not any(_shared(citation, fact) for fact in wanted) for citation in cited)
    return _of_counts(n_given, n_given + n_false, len(wanted))


def joint_score(answer: HotpotScore, facts: HotpotScore) -> HotpotScore:
    """Both together: products of precision, recall and exact match, and the F1 of the products."""
    precision, recall = answer.precision * facts.precision, answer.recall * facts.recall
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return HotpotScore(answer.em * facts.em, f1, precision, recall)


def hotpot_totals(questions: Iterable[HotpotQuestion]) -> HotpotTotals | None:
    """The official aggregation; None for no questions. The sums run in the order given, for the last bit."""
    asked = list(questions)
    if not asked:
        return None
    joint = [joint_score(own.answer, own.facts) for own in asked if own.answer is not None and own.facts is not None]
    return HotpotTotals(
        _mean([own.answer for own in asked if own.answer is not None], len(asked)),
        _mean([own.facts for own in asked if own.facts is not None], len(asked)),
        _mean(joint, len(asked)),
        len(asked),
    )


def _of_counts(shared: int, n_given: int, n_gold: int) -> HotpotScore:
    precision = shared / n_given if n_given else 0.0
    recall = shared / n_gold if n_gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return HotpotScore(float(shared == n_given == n_gold), f1, precision, recall)


def _mean(scores: Sequence[HotpotScore], n_questions: int) -> HotpotScore:
    total = NOTHING
    for score in scores:
        total = HotpotScore(*(one + other for one, other in zip(total, score, strict=True)))
    return HotpotScore(*(value / n_questions for value in total))


def _shared(one: Citation, other: Citation) -> int:
    if one.file_name != other.file_name:
        return 0
    return max(0, min(one.span.end, other.span.end) - max(one.span.start, other.span.start))


def _covered(fact: Citation, cited: Sequence[Citation]) -> float:
    """Share of a fact's characters that are cited, each once."""
    found = overlap([fact.span], [own.span for own in cited if own.file_name == fact.file_name])
    return found.shared / found.gold
