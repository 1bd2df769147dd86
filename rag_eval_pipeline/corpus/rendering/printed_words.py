"""How many of the words that a person can see on a page have reached its PDF."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.text.tokens import tokenize

WORDS_SHARE = 0.9  # of a page's words; a page that prints fewer is tried at a smaller scale, and is listed
WORDS_MIN = 20  # on a page with fewer a share says nothing

# A word that was divided at the end of a line is looked for whole as well.
_DIVIDED = re.compile(r"(\w+)[-\u2010\u00ad]\n(\w+)")


class PrintedWords(NamedTuple):
    """Words, counted as often as they stand on the page.

    Args:
        seen: Words that a person can see on the page.
        printed: Those of them that the PDF has, each at most as often as it has them.
    """

    seen: int
    printed: int

    @property
    def share(self) -> float:
        """Of the words that reached the PDF; 1.0 when there was none."""
        return self.printed / self.seen if self.seen else 1.0


def count_printed_words(seen: str, pages: Sequence[str]) -> PrintedWords:
    """Compare a page with its PDF.

    Args:
        seen: What `seen.js` gives.
        pages: The text of each page of the PDF.
    """
    seen, text = _folded(seen), _folded("\n".join(pages))
    wanted, there = Counter(tokenize(seen)), Counter(tokenize(text))
    there.update(first + second for first, second in _DIVIDED.findall(text))
    words = PrintedWords(wanted.total(), (wanted & there).total())
    if words.share >= WORDS_SHARE:
        return words
    # A PDF knows no blanks but gaps: letters that are spaced out look like words, and cells side by side like one.
    letters = _letters(seen)
    share = (letters & _letters(text)).total() / max(1, letters.total())
    return words._replace(printed=max(words.printed, int(share * words.seen)))


def _letters(text: str) -> Counter[str]:
    """Every three letters that follow each other, whatever stands between them."""
    squeezed = "".join(tokenize(text))
    return Counter(squeezed[place : place + 3] for place in range(len(squeezed) - 2))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace("\u00ad\n", "-\n").replace("\u00ad", "")).casefold()
