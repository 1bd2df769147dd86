"""The word tokenizer for every script, and the stemmer; only SQuAD's scorer has its own.

A word is a run of letters, digits and underscores with their marks. In scripts that are written without spaces each
character is a word.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import regex

# Inside a character class.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々〆"
# The parts of a word pattern: a character of an unspaced script with its marks, and a run of other word characters.
CHARACTER = rf"(?!\p{{P}})[{UNSPACED}]\p{{M}}*+"
RUN = rf"(?:(?![{UNSPACED}])\w)(?:(?![{UNSPACED}])[\w\p{{M}}])*+"

# A run of ASCII word characters that ends before anything else is a whole word, and is found three times as fast.
_TOKEN = regex.compile(rf"[0-9A-Za-z_]++(?![\w\p{{M}}])|{CHARACTER}|{RUN}")
_TOKEN_WITH_APOSTROPHES = regex.compile(rf"[0-9A-Za-z_]++(?![\w\p{{M}}'’])|{CHARACTER}|{RUN}(?:['’]{RUN})?+")
_UNSPACED = regex.compile(rf"[{UNSPACED}]")

_LONGEST_STEMMED = 40  # letters; longer ones are not words, and a stemmer's time grows with them
_STEMMING = Lock()  # a Snowball stemmer keeps the word it works on


def tokenize(text: str, *, keep_apostrophes: bool = False) -> list[str]:
    """Return the words in order; with `keep_apostrophes`, `don't` and `ship's` are one word each."""
    return _pattern(keep_apostrophes).findall(text)


def iterate_tokens(text: str, *, keep_apostrophes: bool = False) -> Iterator["regex.Match[str]"]:
    """Yield the words in order as matches, which have their places."""
    return _pattern(keep_apostrophes).finditer(text)


def has_unspaced(text: str) -> bool:
    """Whether any character belongs to a script that is written without spaces."""
    return not text.isascii() and _UNSPACED.search(text) is not None


@lru_cache(maxsize=100_000)
def english_stem(folded: str) -> str:
    """Return the Snowball stem of a folded word; words that are not ASCII stay as they are."""
    if not folded.isascii() or len(folded) > _LONGEST_STEMMED:
        return folded
    with _STEMMING:
        return str(_stemmer().stemWord(folded))


@cache
def _stemmer() -> Any:
    # The module itself: the package hands out a C extension where one is installed, of another version. It loads the
    # stemmers of all languages, and few commands stem.
    from snowballstemmer.english_stemmer import EnglishStemmer  # type: ignore[import-untyped]  # it has no stubs

    return EnglishStemmer()


def _pattern(keep_apostrophes: bool) -> "regex.Pattern[str]":
    return _TOKEN_WITH_APOSTROPHES if keep_apostrophes else _TOKEN


# Function words and question words, which say nothing about the subject.
STOP_WORDS = frozenset(
    """
    a an and are as at be been by can could did do does for from had has have he her his how i in into is it its
    many much name of on one or out she so than that the their them then there these they this those to under up was
    we were what when where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905  # sixty quoted words would be sixty lines
)
