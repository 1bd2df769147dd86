"""Answers against accepted answers, as the official scorer of SQuAD computes them.

Scores are per question, in [0, 1]. The caller counts failed answers; they are never scored as "".

Source: SQuAD evaluate-v2.0.py.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class AnswerScore(NamedTuple):
    """Exact match (0.0 or 1.0) and token F1 in [0, 1] of one answer."""

    exact_match: float
    f1: float


def normalise_answer(text: str) -> str:
    """Lower-case the text, drop ASCII punctuation and English articles, and collapse white space.

    Source: SQuAD evaluate-v2.0.py, normalize_answer.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def score_answer(answer: str, accepted: Sequence[str]) -> AnswerScore:
    """Score an answer by exact match and F1, each the best over the accepted answers."""
    given = normalise_answer(answer)
    wanted = [text for text in map(normalise_answer, accepted) if text] or [""]
    return AnswerScore(float(given in wanted), max(token_f1(given.split(), text.split()) for text in wanted))


def is_accepted(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer has words and equals an accepted one but for case, punctuation and articles."""
    given = normalise_answer(answer)
    return bool(given) and given in map(normalise_answer, accepted)


def token_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the F1 of two bags of tokens; if either is empty, whether both are.

    Source: SQuAD evaluate-v2.0.py, compute_f1, in its order of operations.
    """
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return (2 * precision * recall) / (precision + recall)
