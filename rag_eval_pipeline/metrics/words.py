"""The words of a text in any script, for scorers that count words.

A word is a run of letters, digits and underscores with their marks. In scripts that write no spaces each character is
one, marks included, because a sentence would else be a single word and everything or nothing of it right.
"""

from collections.abc import Iterator

import regex

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々〆"
# A character with the marks that follow it; else a run of other word characters.
WORD = regex.compile(rf"(?!\p{{P}})[{UNSPACED}]\p{{M}}*|(?:(?![{UNSPACED}])\w)(?:(?![{UNSPACED}])[\w\p{{M}}])*")


def iterate_words(text: str) -> Iterator["regex.Match[str]"]:
    """The words in order, with their places."""
    return WORD.finditer(text)


def words_of(text: str) -> list[str]:
    """The words in order."""
    return WORD.findall(text)
