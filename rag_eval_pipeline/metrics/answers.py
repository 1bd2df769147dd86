"""Answers against accepted answers: exact match and token F1 as the official SQuAD 2.0 scorer computes them.

Scores are per question in [0, 1]; `squad_totals` turns them into the scorer's percentages, split into questions with
and without an answer. An answer that could not be had has no score; it is counted by the caller, never scored as "".
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    """Exact match (0.0 or 1.0) and token F1 in [0, 1] of one answer."""

    exact_match: float
    f1: float


class ScoredQuestion(NamedTuple):
    """A question that was scored: whether it has an answer, and its score."""

    has_answer: bool
    score: AnswerScore


class Totals(NamedTuple):
    """Means over questions in percent, as the official scorer prints them."""

    exact: float
    f1: float
    total: int


class SquadTotals(NamedTuple):
    """The official scorer's report; a part without questions is None.

    Args:
        overall: All questions (`exact`, `f1`, `total`).
        has_answer: Questions with an answer (`HasAns_*`).
        no_answer: Questions without (`NoAns_*`).
    """

    overall: Totals | None
    has_answer: Totals | None
    no_answer: Totals | None


class ProbedAnswer(NamedTuple):
    """What the search for a no-answer threshold needs of one question.

    Args:
        has_answer: Whether the question has an answer.
        is_empty: Whether the system abstained of its own accord.
        score: Exact match or F1 of the answer it gave.
        no_answer_probability: The system's own probability that there is no answer.
    """

    has_answer: bool
    is_empty: bool
    score: float
    no_answer_probability: float


class Threshold(NamedTuple):
    """The no-answer probability above which abstaining scores best.

    Args:
        score: Mean at that threshold, in percent.
        threshold: A probability; answers above it are taken as abstentions.
    """

    score: float
    threshold: float


def normalise_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, without a, an, the, with single spaces.

    Source: SQuAD evaluate-v2.0.py, normalize_answer.
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1.0 when the normalised answer equals one of the accepted ones, else 0.0.

    Args:
        answer: "" for an abstention.
        accepted: Accepted answers. Those that are empty after normalisation are left out; if none is left, the one
            accepted answer is "", so that an impossible question is scored by whether the system abstained.
    """
    return score_answer(answer, accepted).exact_match


def answer_f1(answer: str, accepted: Sequence[str]) -> float:
    """The best token F1 against one of the accepted answers, in [0, 1]; arguments as in `exact_match`."""
    return score_answer(answer, accepted).f1


def score_answer(answer: str, accepted: Sequence[str]) -> AnswerScore:
    """Exact match and F1 of one answer, each the best over the accepted answers; arguments as in `exact_match`."""
    given = normalise_answer(answer)
    wanted = [text for text in map(normalise_answer, accepted) if text] or [""]
    return AnswerScore(float(given in wanted), max(token_f1(given.split(), text.split()) for text in wanted))


def token_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of tokens, counted with repetitions; equality when either is empty.

    Source: SQuAD evaluate-v2.0.py, compute_f1; the order of operations is its own, for the last bit.
    """
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    if shared == 0:
        return 0.0
    precision = shared / len(given)
    recall = shared / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def squad_totals(questions: Iterable[ScoredQuestion]) -> SquadTotals:
    """The official aggregation: percentages over all scored questions, and over those with and without an answer.

    Args:
        questions: Scored questions in the order of the dataset: the sums run in this order, for the last bit.
    """
    scored = list(questions)
    return SquadTotals(
        totals([question.score for question in scored]),
        totals([question.score for question in scored if question.has_answer]),
        totals([question.score for question in scored if not question.has_answer]),
    )


def totals(scores: Sequence[AnswerScore]) -> Totals | None:
    """Means in percent; None for no scores."""
    if not scores:
        return None
    exact = f1 = 0.0
    for score in scores:  # not sum(): from Python 3.12 on it compensates, and the last digit is another one
        exact += score.exact_match
        f1 += score.f1
    return Totals(100.0 * exact / len(scores), 100.0 * f1 / len(scores), len(scores))


def best_threshold(answers: Iterable[ProbedAnswer]) -> Threshold | None:
    """The threshold on the no-answer probability that makes the mean largest; None for no answers.

    Starts from abstaining everywhere and lets answers through in the order of their probability.

    Source: SQuAD evaluate-v2.0.py, find_best_thresh.
    """
    ordered = sorted(answers, key=lambda answer: answer.no_answer_probability)
    if not ordered:
        return None
    total: float = sum(not answer.has_answer for answer in ordered)
    best, threshold = total, 0.0
    for answer in ordered:
        if answer.has_answer:
            total += answer.score
        elif not answer.is_empty:
            total -= 1
        if total > best:
            best, threshold = total, answer.no_answer_probability
    return Threshold(100.0 * best / len(ordered), threshold)
