"""The stretches of a folded text that are most like a folded gold text: common parts say where they may be."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, ScoreAlignment

FUZZY_CUTOFF = 80.0  # 5 % character noise is found in 99.6 % of cases, and of 240 foreign texts none
FUZZY_LENGTH_MIN = 24  # normalised characters; 80 % of less than that is found by chance

_PART = 12  # characters
_PART_OF_SHORT = 6
_PLACES_MAX = 8  # of one part; what stands everywhere says nothing
_PARTS_SHARE_MIN = 0.05  # on one diagonal; of texts that are 80 % alike 7 % of the parts are equal, of foreign ones 1 %
_BUCKET = 64  # width of a diagonal, in characters
_BEFORE, _AFTER = 96, 224  # margins of the window that is aligned
_WINDOWS = 3
_ANCHOR = 4  # characters in a row that are no coincidence


class Stretch(NamedTuple):
    """Characters `[start, end)` of a folded text, and how much they are like the gold text, 0 to 100."""

    score: float
    start: int
    end: int


class _Scored(Protocol):
    @property
    def score(self) -> float: ...


Hit = TypeVar("Hit", bound=_Scored)


class Parts(NamedTuple):
    """Parts of one length that stand in a gold text and in a document.

    Args:
        size: Characters of each.
        places: Offset in the gold text, in ascending order, and in the document's text.
    """

    size: int
    places: list[tuple[int, int]]

    def diagonals(self, length: int) -> list[int]:
        """The buckets of diagonals with most parts of a gold text of that length; none where they are too few."""
        votes = Counter((at - offset) // _BUCKET for offset, at in self.places)
        # Insertions move the rest of a text to the next bucket, so neighbours count together.
        both = {bucket: votes[bucket] + votes.get(bucket + 1, 0) for bucket in votes}
        enough = max(2.0, _PARTS_SHARE_MIN * length / _step(self.size))
        ranked = sorted(both, key=lambda bucket: (-both[bucket], bucket))
        return [bucket for bucket in ranked[:_WINDOWS] if both[bucket] >= enough]


class PartIndex:
    """Where the parts of a text stand; made when it is first asked for, because most gold texts are found without.

    Args:
        text: Folded.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[int, Mapping[str, list[int]]] = {}

    def common(self, gold: str) -> Parts:
        """The parts that a gold text shares with the text: all of more than one and a half times their length."""
        size = _PART if len(gold) >= 5 * _PART else _PART_OF_SHORT
        if size not in self._places:
            self._places[size] = self._indexed(size)
        places = self._places[size]
        found = ((offset, places.get(gold[offset : offset + size])) for offset in range(len(gold) - size + 1))
        return Parts(size, [(offset, at) for offset, known in found if known for at in known])

    def _indexed(self, size: int) -> Mapping[str, list[int]]:
        """Every second half; the gold text's own parts are taken at every character."""
        places: dict[str, list[int]] = {}
        for at in range(0, len(self._text) - size + 1, _step(size)):
            known = places.setdefault(self._text[at : at + size], [])
            if len(known) < _PLACES_MAX:
                known.append(at)
        return places


def _step(size: int) -> int:
    return size // 2


def most_similar(gold: str, text: str, parts: Parts) -> list[Stretch]:
    """The stretches most like a gold text, all within one point of the best; none when nothing reaches the cut-off."""
    hits = []
    for bucket in parts.diagonals(len(gold)):
        low = max(0, bucket * _BUCKET - _BEFORE)
        hit = _aligned(gold, text[low : bucket * _BUCKET + len(gold) + _AFTER])
        if hit and hit.start < hit.end:
            hits.append(Stretch(hit.score, low + hit.start, low + hit.end))
    return best(hits, within=1.0)


def best(hits: Sequence[Hit], *, within: float) -> list[Hit]:
    """Those whose score is less than `within` below the highest."""
    highest = max((hit.score for hit in hits), default=0.0)
    return [hit for hit in hits if hit.score > highest - within]


def _aligned(gold: str, part: str) -> Stretch | None:
    if len(part) < len(gold):
        # partial_ratio would look for the part in the gold text, and any short document would do.
        score = fuzz.ratio(gold, part, score_cutoff=FUZZY_CUTOFF)
        return Stretch(score, 0, len(part)) if score else None
    aligned = fuzz.partial_ratio_alignment(gold, part, score_cutoff=FUZZY_CUTOFF)
    return Stretch(aligned.score, *_trimmed(gold, part, aligned)) if aligned and aligned.score else None


def _trimmed(gold: str, part: str, aligned: ScoreAlignment) -> tuple[int, int]:
    """Where the gold text begins and ends in a part: the aligned stretch has its length, which slips have changed."""
    stretch = part[aligned.dest_start : aligned.dest_end]
    anchors = [block for block in Indel.opcodes(gold, stretch).as_matching_blocks() if block.size >= _ANCHOR]
    if not anchors:
        return aligned.dest_start, aligned.dest_end
    first, last = anchors[0], anchors[-1]
    start = aligned.dest_start + first.b - first.a
    end = aligned.dest_start + last.b + len(gold) - last.a
    return max(0, start), min(len(part), end)
