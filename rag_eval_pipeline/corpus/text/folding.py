"""Texts folded to what printing does not change, with the way back to the original.

Case, composition, ligatures and quotes are evened out; white space, hyphens, dots and invisible characters are gone.
"""

import re
import unicodedata
from typing import NamedTuple

_INVISIBLE = {0xAD, 0xFFFE, 0x02, 0x200B, 0x200C, 0x200D, 0xFEFF, 0x2060}
_PUNCTUATION = {
    ord(mark): plain for mark, plain in zip("‘’‚‛′`´“”„‟″«»‐‑‒–—―−…·", "'''''''\"\"\"\"\"\"\"-------.·", strict=True)
}
_DROPPED_PUNCTUATION = frozenset("-\"'`.")
_CITATION_MARK = re.compile(r"\[(?:\d{1,3}|citationneeded|edit|note\d+)\]")

_folds: dict[str, str] = {}


class Folded(NamedTuple):
    """A text without what does not matter, and for each character its place in the original."""

    text: str
    origin: list[int]


def even_out(text: str) -> str:
    """Typographic punctuation as the plain one of the same length."""
    return text.translate(_PUNCTUATION)


def fold(text: str) -> Folded:
    """What two copies of one text have in common, whatever printed them."""
    folded, origin = [], []
    for index, char in enumerate(text):
        fold = _folds.get(char)
        if fold is None:
            fold = _folds[char] = _fold_char(char)
        if fold:
            folded.append(fold)
            origin.extend([index] * len(fold))
    return Folded("".join(folded), origin)


def _fold_char(char: str) -> str:
    """Case, composition, ligatures and quotes evened out; white space, marks, hyphens and dots gone."""
    if ord(char) in _INVISIBLE or char.isspace():
        return ""
    plain = unicodedata.normalize("NFKD", char).translate(_PUNCTUATION).casefold()
    return "".join(
        c
        for c in plain
        if not (c.isspace() or unicodedata.combining(c) or c in _DROPPED_PUNCTUATION or ord(c) in _INVISIBLE)
    )


def drop_citation_marks(folded: Folded) -> Folded:
    """Without `[12]`, `[edit]` and their like, which a printed encyclopedia has and a benchmark's copy has not."""
    kept, origin, end = [], [], 0
    for mark in _CITATION_MARK.finditer(folded.text):
        kept.append(folded.text[end : mark.start()])
        origin.extend(folded.origin[end : mark.start()])
        end = mark.end()
    kept.append(folded.text[end:])
    origin.extend(folded.origin[end:])
    return Folded("".join(kept), origin)
