"""Answers against accepted answers, as the official scorer of SQuAD computes them.

Scores are per question, in [0, 1]. The caller counts failed answers; they are never scored as "". In a text of a script
without spaces each character counts as a word.

Source: SQuAD evaluate-v2.0.py; for scripts without spaces MLQA, mlqa_evaluation_v1.py, mixed_segmentation.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import regex

from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.text.folding import unmarked
from rag_eval_pipeline.text.tokens import CHARACTER, UNSPACED, has_unspaced

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = regex.compile(r"\p{P}")
_CHARACTER_OR_WORD = regex.compile(rf"{CHARACTER}|(?:(?![{UNSPACED}])\S)++")


class AnswerScore(NamedTuple):
    """Exact match (0.0 or 1.0) and token F1 in [0, 1] of one answer."""

    exact_match: float
    f1: float


def normalise_answer(text: str) -> str:
    """Lower-case the text, drop ASCII punctuation and English articles, and collapse white space.

    Source: SQuAD evaluate-v2.0.py, normalize_answer.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def answer_tokens(text: str) -> list[str]:
    """Return the words of a normalised text.

    If some of it is written without spaces, each character of such a script is a word, and punctuation of any script is
    dropped.
    """
    normalised = normalise_answer(text)
    if not has_unspaced(normalised):
        return normalised.split()
    return _CHARACTER_OR_WORD.findall(_PUNCTUATION.sub("", normalised))


def score_answer(answer: str, accepted: Sequence[str]) -> AnswerScore:
    """Score an answer by exact match and F1, each the best over the accepted answers; with none, "" is right.

    If nothing is left of the accepted answers, such as "A", they are compared with their articles: SQuAD's scorer would
    find that a refusal equals them.
    """
    given = answer_tokens(answer)
    wanted = [tokens for tokens in map(answer_tokens, accepted) if tokens]
    if accepted and not wanted:
        given, *wanted = (text.lower().rstrip(" .").split() for text in (answer, *accepted))
    return _best_score(given, wanted)


def official_scores(answer: str, accepted: Sequence[str]) -> AnswerScore:
    """Return what SQuAD's scorer prints, whose words are between blanks in any script."""
    given, *wanted = (normalise_answer(text).split() for text in (answer, *accepted))
    return _best_score(given, [words for words in wanted if words])


def _best_score(given: list[str], wanted: list[list[str]]) -> AnswerScore:
    wanted = wanted or [[]]
    return AnswerScore(float(given in wanted), max(token_f1(given, words) for words in wanted))


def score_without_marks(answer: str, accepted: Sequence[str], marks: Iterable[tuple[int, int]] = ()) -> AnswerScore:
    """Score an answer without its citations and marks of Markdown.

    What looks like a mark, such as `[1, 2]`, counts as words where the answer is better with it; a citation's place
    never does.

    Args:
        answer: The answer's text.
        accepted: As for `score_answer`.
        marks: Half-open spans of further citations in the answer.
    """
    return max(score_answer(text, accepted) for text in (unmarked(answer, marks), strip_citations(answer)))


def is_accepted(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer equals an accepted one but for case, punctuation and articles.

    One without words, such as `!=`, has to be written alike.
    """
    given = answer_tokens(answer)
    if not given:
        return bool(answer.strip()) and answer.strip() in map(str.strip, accepted)
    return given in map(answer_tokens, accepted)


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
