"""Terms of a text as the embedded system compares them: stems of words, and bigrams where words have no spaces.

A word is folded and lightly stemmed, and function words are left out. In scripts that are written without spaces, two
neighbouring characters are a term (東京駅 is 東京 and 京駅), because one alone says little and a whole sentence matches
nothing; a character that stands alone is a term of its own.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import regex

from rag_eval_pipeline.text.tokens import has_unspaced, iterate_tokens

# Function words and the words that ask; they say nothing of the subject.
STOP_WORDS = frozenset(
    """
    a an and are as at be been by can could did do does for from had has have he her his how i in into is it its
    many much name of on one or out she so than that the their them then there these they this those to under up was
    we were what when where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905  # sixty quoted words would be sixty lines
)

# The same in Chinese; bigrams that hold one of them say nothing of the subject either.
_FUNCTION_CHARACTERS = re.compile("[什么麼哪谁誰吗嗎呢几幾怎的是了在]|多少")


def stem(word: str) -> str:
    """A word without its commonest English endings; enough to bring `lights`, `lighted` and `lighting` together."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
    folded = re.sub(r"['’]s?$", "", folded)
    for ending, least in (("ing", 6), ("ies", 5), ("ed", 5), ("es", 5), ("s", 4)):
        if folded.endswith(ending) and len(folded) >= least and not folded.endswith("ss"):
            folded = folded[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return folded[:-1] if len(folded) > 4 and folded.endswith("e") else folded


class Term(NamedTuple):
    """A term and where it starts in its text."""

    text: str
    start: int


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeats included."""
    return [term.text for term in placed_terms(text)]


def placed_terms(text: str) -> Iterator[Term]:
    """The terms of a text with their places, in order."""
    if has_unspaced(text):
        pairs = (term for term in bigrams(text) if not _FUNCTION_CHARACTERS.search(term.text))
        yield from sorted([*_stems(text), *pairs], key=lambda term: term.start)
    else:
        yield from _stems(text)


def bigrams(text: str) -> Iterator[Term]:
    """The terms of a text's parts that are written without spaces; the end of a line between two characters is none."""
    if not has_unspaced(text):
        return
    run: list[regex.Match[str]] = []
    for match in iterate_tokens(text):
        if run and (text[run[-1].end() : match.start()].strip("\r\n") or not has_unspaced(match[0])):
            yield from _pairs(run)
            run = []
        if has_unspaced(match[0]):
            run.append(match)
    yield from _pairs(run)


def _pairs(run: list[regex.Match[str]]) -> Iterator[Term]:
    characters = [unicodedata.normalize("NFKC", match[0]) for match in run]
    if len(run) == 1:
        yield Term(characters[0], run[0].start())
    for first, second, match in zip(characters, characters[1:], run, strict=False):
        yield Term(first + second, match.start())


def spaced_words(text: str) -> list[str]:
    """The words of a text's other parts, as they stand."""
    return [word[0] for word in _spaced(text)]


def _stems(text: str) -> Iterator[Term]:
    for word in _spaced(text):
        if word[0].casefold() not in STOP_WORDS:
            yield Term(stem(word[0]), word.start())


def _spaced(text: str) -> Iterator[regex.Match[str]]:
    return (word for word in iterate_tokens(text, keep_apostrophes=True) if not has_unspaced(word[0]))


def inverse_document_frequency(texts: Iterable[str]) -> dict[str, float]:
    """ln(1 + N / n) for each term that stands in n of N texts.

    Returns:
        Weights above ln 2; a term that stands nowhere is not among them.
    """
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        total += 1
        counts.update(set(terms(text)))
    return {term: math.log(1 + total / count) for term, count in counts.items()}


def coverage(question: Mapping[str, float], text_terms: Iterable[str]) -> float:
    """Share of a question's weight whose terms stand in a text.

    Args:
        question: Weight of each of its terms.
        text_terms: The text's terms.

    Returns:
        A ratio in [0, 1]; 0.0 for a question without terms, which nothing can answer.
    """
    # Sorted: a sum of floats depends on its order, and a set's order on the process's hash seed.
    found = set(text_terms)
    total = math.fsum(question.values())
    return math.fsum(weight for term, weight in question.items() if term in found) / total if total else 0.0
