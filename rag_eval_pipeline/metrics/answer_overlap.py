"""Overlap of an answer with the accepted ones beyond SQuAD's English: other languages, and ROUGE-L.

SQuAD's normalisation drops English articles and ASCII punctuation and splits at spaces. In a language that writes no
spaces it makes one token of a sentence; `score_answer_in` counts its characters instead, and drops the punctuation of
all scripts and the articles of the language.
Source: MLQA's evaluation script (articles, Unicode punctuation, mixed segmentation); Lin 2004, ROUGE.
"""

import re
import string
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

import regex

from rag_eval_pipeline.metrics.answers import AnswerScore, score_answer, token_f1
from rag_eval_pipeline.text.tokens import CHARACTER, tokenize

# MLQA's, by ISO 639-1; its Arabic pattern is its own, slip included.
ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": r"\sال^|ال",
}
_CHARACTER = regex.compile(f"({CHARACTER})")


def normalise_answer_in(text: str, language: str | None) -> str:
    """Lower case, without the punctuation of any script, without the language's articles, tokens by single spaces.

    Args:
        text: An answer.
        language: ISO 639-1, `de` or `de-CH`; None drops no articles.
    """
    bare = text.lower().translate(_without_punctuation())
    articles = ARTICLES.get((language or "").lower().split("-")[0])
    if articles is not None:
        bare = re.sub(articles, " ", bare)
    return " ".join(_CHARACTER.sub(r" \1 ", bare).split())


def score_answer_in(answer: str, accepted: Sequence[str], language: str | None) -> AnswerScore:
    """Exact match and token F1, each the best over the accepted answers, by the language's own rules.

    Args:
        answer: "" for an abstention.
        accepted: As in `answers.score_answer`.
        language: ISO 639-1; `en` is scored by SQuAD's rules.
    """
    if (language or "").lower().split("-")[0] == "en":
        return score_answer(answer, accepted)
    given = normalise_answer_in(answer, language)
    wanted = [text for text in (normalise_answer_in(one, language) for one in accepted) if text] or [""]
    return AnswerScore(float(given in wanted), max(token_f1(given.split(), text.split()) for text in wanted))


def rouge_l(answer: str, accepted: Sequence[str]) -> float | None:
    """F1 of the longest common subsequence of words, the best over the accepted answers, in [0, 1].

    Words are lower case, of any script, without punctuation and stemming; for ASCII text the score is that of the
    rouge-score package. It is not that package's because it brings nltk along for a stemmer that is off by default.

    Args:
        answer: As given.
        accepted: Accepted answers.

    Returns:
        None without an accepted answer: whether the system abstained is scored elsewhere.
    """
    from rapidfuzz.distance import LCSseq

    given = _rouge_words(answer)
    wanted = [words for words in map(_rouge_words, accepted) if words]
    if not wanted:
        return None
    if not given:
        return 0.0
    best = 0.0
    for words in wanted:
        shared = LCSseq.similarity(given, words)
        precision, recall = shared / len(given), shared / len(words)
        if shared:
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


def _rouge_words(text: str) -> list[str]:
    return tokenize(text.lower().replace("_", " "))  # to rouge-score an underscore separates words


@cache
def _without_punctuation() -> dict[int, None]:
    marks = (i for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)).startswith("P"))
    return dict.fromkeys([*marks, *map(ord, string.punctuation)])
