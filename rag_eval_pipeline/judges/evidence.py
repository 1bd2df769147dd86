"""Select the sentences of long texts that a model judge reads: those that share most words with what is judged.

A text is never cut at a number of characters: whole sentences are left out, the rest keeps its order, and `[…]` marks
what is missing. Each claim gets its best sentence before any gets its second.
Source: Citation Accuracy Evaluation 4.3 cuts every source at 200 characters, which hides most of the evidence.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_eval_pipeline.text.sentences import sentence_ends
from rag_eval_pipeline.text.tokens import tokenize

GAP = " […] "
PIECE_CHARS = 600  # tables and lists have no sentences; longer stretches are taken apart at white space


class _Piece(NamedTuple):
    text: int
    start: int
    end: int


def choose_evidence(texts: Sequence[str], wanted: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the texts, or of long ones the sentences that matter.

    Args:
        texts: Evidence, in the order in which it is shown.
        wanted: What is judged by it: claims, or a question and its gold answers.
        limit: Characters of all texts together, gaps not counted.

    Returns:
        One for each text; empty if nothing of it was chosen.
    """
    if sum(map(len, texts)) <= limit:
        return tuple(texts)
    pieces = [_Piece(i, start, end) for i, text in enumerate(texts) for start, end in _stretches(text)]
    words = [set(_words(texts[piece.text][piece.start : piece.end])) for piece in pieces]
    weights = _weights(words)
    rankings = [_ranking(set(_words(text)), words, weights) for text in wanted] or [list(range(len(pieces)))]
    chosen: set[int] = set()
    left = limit
    for turn in range(len(pieces)):
        for ranking in rankings:
            piece = pieces[ranking[turn]]
            size = piece.end - piece.start
            if ranking[turn] not in chosen and size <= left:
                chosen.add(ranking[turn])
                left -= size
    return tuple(_joined(texts, i, [pieces[number] for number in sorted(chosen)]) for i in range(len(texts)))


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Yield sentences, and parts of text without any, stripped of white space."""
    start = 0
    # Texts of pages break their lines anywhere: a line's end is no sentence's.
    for end in (*sentence_ends(text.replace("\n", " ")), len(text)):
        while start < end:
            stop = end
            if end - start > PIECE_CHARS:
                space = max(text.rfind(gap, start + 1, start + PIECE_CHARS) for gap in " \t\n")
                stop = space if space > start else start + PIECE_CHARS
            left = start + len(text[start:stop]) - len(text[start:stop].lstrip())
            right = left + len(text[left:stop].rstrip())
            if left < right:
                yield left, right
            start = stop


def _words(text: str) -> list[str]:
    return [word.casefold() for word in tokenize(text)]


def _weights(words: Sequence[set[str]]) -> dict[str, float]:
    """Weigh words by their rarity: the fewer pieces have one, the more it counts."""
    counts = Counter(word for piece in words for word in piece)
    return {word: math.log(1 + len(words) / count) for word, count in counts.items()}


def _ranking(wanted: set[str], words: Sequence[set[str]], weights: dict[str, float]) -> list[int]:
    # fsum and the sort's stability: the order never depends on that of a set.
    scores = [math.fsum(weights[word] for word in wanted & piece) for piece in words]
    return sorted(range(len(words)), key=lambda number: -scores[number])


def _joined(texts: Sequence[str], text: int, pieces: Sequence[_Piece]) -> str:
    joined = ""
    last = 0
    for piece in (piece for piece in pieces if piece.text == text):
        between = texts[text][last : piece.start]
        joined += (between if not between.strip() else GAP) + texts[text][piece.start : piece.end]
        last = piece.end
    return joined + (GAP.rstrip() if joined and texts[text][last:].strip() else "")
