"""Words of a text as the embedded system compares them: folded, lightly stemmed, without those every sentence has."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

WORD = re.compile(r"\w+(?:['’]\w+)?")

# Function words and the words that ask; they say nothing of the subject.
STOP_WORDS = frozenset(
    """
    a an and are as at be been by can could did do does for from had has have he her his how i in into is it its
    many much name of on one or out she so than that the their them then there these they this those to under up was
    we were what when where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905  # sixty quoted words would be sixty lines
)


def stem(word: str) -> str:
    """A word without its commonest English endings; enough to bring `lights`, `lighted` and `lighting` together."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
    folded = re.sub(r"['’]s?$", "", folded)
    for ending, least in (("ing", 6), ("ies", 5), ("ed", 5), ("es", 5), ("s", 4)):
        if folded.endswith(ending) and len(folded) >= least and not folded.endswith("ss"):
            folded = folded[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return folded[:-1] if len(folded) > 4 and folded.endswith("e") else folded


def terms(text: str) -> list[str]:
    """The stems of a text's content words, in order, repeats included."""
    return [stem(word) for word in WORD.findall(text) if word.casefold() not in STOP_WORDS]


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
