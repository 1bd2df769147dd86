"""Gold texts that printing has torn apart: a table, a caption or a margin note stands between their lines.

At the foot of a page that happens in the middle of a sentence, so the pieces are not sentences but whatever runs on in
both texts, in order and near each other. Common parts are joined to runs, and of the runs the best chain is taken.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz.distance import Indel

from rag_eval_pipeline.corpus.text.similarity import FUZZY_CUTOFF, Parts, best

REACH = 2000  # folded characters that may stand between two pieces: a table of half a page

_PIECE_MIN = 20  # characters; what is shorter stands in any other text, too
_SLIP_MAX = (
    64  # characters within a piece that may be other ones, missing or too many: a mark of words, a half-sentence
)
_CLAIMED_MAX = 12  # characters with which a caption begins as the text goes on
_RUNS_MAX = 64  # the longest are chained
_RUNS_SHARE_MIN = 0.4  # of the gold text; foreign texts have hardly one run
_MISSING_MAX = 200  # characters that slips may keep out beside a tear
_SLIP_AT_EDGE = 8  # characters, which are taken in as they are
_LIKE = 0.7  # similarity; of two English texts of the same length it is 0.5


@dataclass(slots=True)
class Piece:
    """What runs on in both texts.

    Args:
        gold_start: First character in the gold text.
        gold_end: Exclusive.
        start: First character in the document's text.
        end: Exclusive.
    """

    gold_start: int
    gold_end: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.gold_end - self.gold_start


class Torn(NamedTuple):
    """A gold text in pieces: the share that they hold together, 0 to 100, and where they begin and end."""

    score: float
    start: int
    end: int
    pieces: tuple[Piece, ...]


def torn(gold: str, text: str, parts: Parts, edge: Callable[[int], int]) -> list[Torn]:
    """The best places of a gold text in pieces; none where they hold less than a fuzzy hit must.

    Args:
        gold: Folded.
        text: Of the document, folded.
        parts: Of the gold text, where they stand in the document.
        edge: How much the place in front of a character of the text looks like a tear: the more, the higher.

    Returns:
        Those within one point of the best; a single piece is a text that is not torn.
    """
    runs = _runs(parts)
    for run in runs:
        _grow(run, gold, text)
    # A part that stands twice may have grown to what a run is already.
    distinct = {(run.gold_start, run.gold_end, run.start): run for run in runs if len(run) >= _PIECE_MIN}
    runs = sorted(sorted(distinct.values(), key=len)[-_RUNS_MAX:], key=lambda run: run.start)
    if sum(map(len, runs)) < _RUNS_SHARE_MIN * len(gold):
        return []
    found = (_scored(chain, gold, text, edge) for chain in _chains(runs))
    return best([hit for hit in found if hit.score >= FUZZY_CUTOFF], within=1.0)


def _runs(parts: Parts) -> list[Piece]:
    """Common parts joined where both texts go on with no more than slips."""
    done: list[Piece] = []
    growing: list[Piece] = []
    for offset, at in parts.places:
        growing = [run for run in growing if offset - run.gold_end <= _SLIP_MAX]
        nearest = min(growing, key=lambda run: _shift(run, offset, at), default=None)
        if nearest and _shift(nearest, offset, at) <= _SLIP_MAX:
            nearest.gold_end, nearest.end = offset + parts.size, at + parts.size
        else:
            growing.append(Piece(offset, offset + parts.size, at, at + parts.size))
            done.append(growing[-1])
    return done


def _shift(run: Piece, offset: int, at: int) -> float:
    """By how many characters a part is off the run's diagonal; infinite where it does not come behind the run."""
    if not (offset > run.gold_start and run.start < at <= run.end + _SLIP_MAX):
        return math.inf
    shift = (at - offset) - (run.end - run.gold_end)
    return shift if shift >= 0 else -2 * shift  # printing puts in more than it leaves out


def _grow(run: Piece, gold: str, text: str) -> None:
    """Takes in what is equal at both ends: parts were not looked for everywhere."""
    while run.gold_start and run.start and gold[run.gold_start - 1] == text[run.start - 1]:
        run.gold_start, run.start = run.gold_start - 1, run.start - 1
    while run.gold_end < len(gold) and run.end < len(text) and gold[run.gold_end] == text[run.end]:
        run.gold_end, run.end = run.gold_end + 1, run.end + 1


def _chains(runs: list[Piece]) -> Iterable[list[Piece]]:
    """The longest chains of runs in order and near each other, that of each last run which is nearly as long as any."""
    lengths: list[int] = []
    before: list[int | None] = []
    for n, run in enumerate(runs):
        lengths.append(len(run))
        before.append(None)
        for m in range(n):
            claimed = _claimed(runs[m], run)
            if claimed is not None and lengths[m] + len(run) - claimed > lengths[n]:
                lengths[n], before[n] = lengths[m] + len(run) - claimed, m
    longest = max(lengths)
    for n, length in enumerate(lengths):
        if length >= 0.95 * longest:  # similarity decides between them
            chain: list[Piece] = []
            at: int | None = n
            while at is not None:
                run = runs[at]
                chain.append(Piece(run.gold_start, run.gold_end, run.start, run.end))
                at = before[at]
            yield chain[::-1]


def _claimed(left: Piece, right: Piece) -> int | None:
    """Characters of the gold text that both runs have; None when the right one cannot follow the left one."""
    claimed = max(0, left.gold_end - right.gold_start, left.end - right.start)
    follows = left.gold_start < right.gold_start and left.gold_end < right.gold_end and right.start - left.end <= REACH
    return claimed if follows and claimed <= min(_CLAIMED_MAX, len(left) - 1, len(right) - 1) else None


def _scored(chain: list[Piece], gold: str, text: str, edge: Callable[[int], int]) -> Torn:
    for left, right in pairwise(chain):
        _cut(left, right, edge)
        _bridge(left, right, gold, text, edge)
    chain = _merged(chain)
    _take_ends(chain, gold, text, edge)
    equal = sum(
        len(piece) * _similarity(gold[piece.gold_start : piece.gold_end], text[piece.start : piece.end])
        for piece in chain
    )
    return Torn(100 * equal / len(gold), chain[0].start, chain[-1].end, tuple(chain))


def _merged(chain: list[Piece]) -> list[Piece]:
    """Pieces with nothing in between as one: slips had kept them apart."""
    merged = chain[:1]
    for piece in chain[1:]:
        if piece.start > merged[-1].end:
            merged.append(piece)
        else:
            merged[-1].gold_end, merged[-1].end = piece.gold_end, piece.end
    return merged


def _cut(left: Piece, right: Piece, edge: Callable[[int], int]) -> None:
    """Gives what both neighbours claim to the one it looks like."""
    claimed = max(0, left.gold_end - right.gold_start, left.end - right.start)
    if claimed:
        to_right = max(range(claimed + 1), key=lambda n: edge(left.end - n) + edge(right.start + claimed - n))
        left.gold_end, left.end = left.gold_end - to_right, left.end - to_right
        right.gold_start, right.start = right.gold_start + claimed - to_right, right.start + claimed - to_right


def _bridge(left: Piece, right: Piece, gold: str, text: str, edge: Callable[[int], int]) -> None:
    """Takes in what slips have kept out beside the tear, on either side as far as it is like the gold text."""
    missing = right.gold_start - left.gold_end
    if not 0 < missing <= min(_MISSING_MAX, right.start - left.end):
        return
    between = gold[left.gold_end : right.gold_start]

    def gain(n: int) -> float:
        """Equal characters if the first `n` of what is missing go on the left; a tear is worth one of them."""
        equal = n * _similarity(between[:n], text[left.end : left.end + n])
        equal += (missing - n) * _similarity(between[n:], text[right.start - missing + n : right.start])
        return equal + edge(left.end + n) / 2 + edge(right.start - missing + n) / 2

    n = max(range(missing + 1), key=gain)
    if _is_like(between[:n], text[left.end : left.end + n]):
        left.gold_end, left.end = left.gold_end + n, left.end + n
    n = missing - n
    if _is_like(between[missing - n :], text[right.start - n : right.start]):
        right.gold_start, right.start = right.gold_start - n, right.start - n


def _take_ends(chain: list[Piece], gold: str, text: str, edge: Callable[[int], int]) -> None:
    """The same at the gold text's own ends, where slips may have made it longer or shorter."""
    first, last = chain[0], chain[-1]
    head, tail = gold[: first.gold_start], gold[last.gold_end :]
    lengths = range(max(0, len(head) - _SLIP_AT_EDGE), min(first.start, len(head) + _SLIP_AT_EDGE) + 1)
    if head and lengths and len(head) <= _MISSING_MAX:
        n = max(lengths, key=lambda n: _fit(head, text[first.start - n : first.start], edge(first.start - n)))
        if _is_like(head, text[first.start - n : first.start]):
            first.gold_start, first.start = 0, first.start - n
    lengths = range(max(0, len(tail) - _SLIP_AT_EDGE), min(len(text) - last.end, len(tail) + _SLIP_AT_EDGE) + 1)
    if tail and lengths and len(tail) <= _MISSING_MAX:
        n = max(lengths, key=lambda n: _fit(tail, text[last.end : last.end + n], edge(last.end + n)))
        if _is_like(tail, text[last.end : last.end + n]):
            last.gold_end, last.end = len(gold), last.end + n


def _fit(gold: str, text: str, edge: int) -> float:
    """Equal characters less wrong ones; the edge of a word is worth one."""
    return _similarity(gold, text) * (len(gold) + len(text)) / 2 - abs(len(gold) - len(text)) / 2 + min(edge, 1)


def _is_like(gold: str, text: str) -> bool:
    return _similarity(gold, text) >= (_LIKE if len(gold) > _SLIP_AT_EDGE else 0)


def _similarity(gold: str, text: str) -> float:
    """Of 0 to 1; two empty texts are equal."""
    return Indel.normalized_similarity(gold, text)
