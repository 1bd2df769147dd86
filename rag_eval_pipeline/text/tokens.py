"""The word tokenizer for every script; only SQuAD's scorer has its own.

A word is a run of letters, digits and underscores with their marks. In scripts that are written without spaces each
character is a word.
"""

from collections.abc import Iterator

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


def tokenize(text: str, *, keep_apostrophes: bool = False) -> list[str]:
    """Return the words in order; with `keep_apostrophes`, `don't` and `ship's` are one word each."""
    return _pattern(keep_apostrophes).findall(text)


def iterate_tokens(text: str, *, keep_apostrophes: bool = False) -> Iterator["regex.Match[str]"]:
    """Yield the words in order as matches, which have their places."""
    return _pattern(keep_apostrophes).finditer(text)


def has_unspaced(text: str) -> bool:
    """Whether any character belongs to a script that is written without spaces."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _pattern(keep_apostrophes: bool) -> "regex.Pattern[str]":
    return _TOKEN_WITH_APOSTROPHES if keep_apostrophes else _TOKEN
