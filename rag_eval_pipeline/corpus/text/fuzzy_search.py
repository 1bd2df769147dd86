"""Approximate search in folded texts: the stretch most like a gold text, or the fragments of an interrupted one.

Where a table or a caption interrupts a gold text, its fragments are whatever continues in both texts, in order and near
each other: common n-grams are joined to runs, and the best chain of runs is taken.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, ScoreAlignment

# Lengths are folded characters.
FUZZY_CUTOFF = 80.0  # finds 99.6 % of texts with 5 % character noise, and none of 240 foreign texts
FUZZY_LENGTH_MIN = 24  # 80 % of a shorter text is found by chance
FRAGMENT_GAP_MAX = 2000  # between two fragments: a table of half a page

_NGRAM = 12
_NGRAM_OF_SHORT = 6
_PLACES_MAX = 8  # of one n-gram; an n-gram that is everywhere locates nothing
_NGRAMS_SHARE_MIN = 0.05  # on one diagonal; texts that are 80 % alike share 7 % of their n-grams, foreign ones 1 %
_BUCKET = 64  # width of a diagonal
_BEFORE, _AFTER = 96, 224  # margins of the window that is aligned
_WINDOWS = 3
_ANCHOR = 4  # characters in a row that are no coincidence

_FRAGMENT_MIN = 20  # shorter fragments are in any other text, too
_SLIP_MAX = 64  # other, missing or extra characters within a fragment: a mark of words, half a sentence
_OVERLAP_MAX = 12  # with which a caption begins like the continuation of the text
_RUNS_MAX = 64  # the longest are chained
_RUNS_SHARE_MIN = 0.4  # of the gold text; foreign texts have hardly one run
_MISSING_MAX = 200  # between two runs, or beyond the first or last one, that slips may have left out
_SLIP_AT_EDGE = 8  # accepted without comparison
_SIMILAR = 0.7  # Indel similarity; two English texts of the same length have 0.5


class Stretch(NamedTuple):
    """Characters `[start, end)` of a folded text, and their similarity to the gold text, 0 to 100."""

    score: float
    start: int
    end: int


class _Scored(Protocol):
    @property
    def score(self) -> float: ...


Hit = TypeVar("Hit", bound=_Scored)


class CommonNgrams(NamedTuple):
    """The n-grams of one size that a gold text and a document share, each with its offset in both, in gold order."""

    size: int
    places: list[tuple[int, int]]

    def diagonals(self, length: int) -> list[int]:
        """Return the buckets of diagonals with most n-grams of a gold text of that length, if there are enough."""
        votes = Counter((at - offset) // _BUCKET for offset, at in self.places)
        # Insertions move the rest of a text to the next bucket, so neighbours count together.
        both = {bucket: votes[bucket] + votes.get(bucket + 1, 0) for bucket in votes}
        enough = max(2.0, _NGRAMS_SHARE_MIN * length / (self.size // 2))
        ranked = sorted(both, key=lambda bucket: (-both[bucket], bucket))
        return [bucket for bucket in ranked[:_WINDOWS] if both[bucket] >= enough]


class NgramIndex:
    """Where the n-grams of a folded text are; built on first use, because most gold texts are found without it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[int, Mapping[str, list[int]]] = {}

    def common(self, gold: str) -> CommonNgrams:
        """Return the n-grams that the text shares with a gold text."""
        size = _NGRAM if len(gold) >= 5 * _NGRAM else _NGRAM_OF_SHORT
        if size not in self._places:
            self._places[size] = self._indexed(size)
        places = self._places[size]
        found = ((offset, places.get(gold[offset : offset + size])) for offset in range(len(gold) - size + 1))
        return CommonNgrams(size, [(offset, at) for offset, known in found if known for at in known])

    def _indexed(self, size: int) -> Mapping[str, list[int]]:
        """Index every `size / 2` characters, which is enough because the gold text's are taken at every character."""
        places: dict[str, list[int]] = {}
        for at in range(0, len(self._text) - size + 1, size // 2):
            known = places.setdefault(self._text[at : at + size], [])
            if len(known) < _PLACES_MAX:
                known.append(at)
        return places


def most_similar(gold: str, text: str, common: CommonNgrams, accepts: Callable[[Stretch], bool]) -> list[Stretch]:
    """Return the accepted stretches most like a gold text, within one point of the best; none below the cut-off."""
    hits = []
    for bucket in common.diagonals(len(gold)):
        low = max(0, bucket * _BUCKET - _BEFORE)
        hit = _aligned(gold, text[low : bucket * _BUCKET + len(gold) + _AFTER])
        if hit and hit.start < hit.end:
            hits.append(Stretch(hit.score, low + hit.start, low + hit.end))
    return _best([hit for hit in hits if accepts(hit)])


def _best(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits less than one point below the highest score."""
    highest = max((hit.score for hit in hits), default=0.0)
    return [hit for hit in hits if hit.score > highest - 1.0]


def _aligned(gold: str, window: str) -> Stretch | None:
    if len(window) < len(gold):
        # partial_ratio would search the gold text for the window, and any short document would match.
        score = fuzz.ratio(gold, window, score_cutoff=FUZZY_CUTOFF)
        return Stretch(score, 0, len(window)) if score else None
    aligned = fuzz.partial_ratio_alignment(gold, window, score_cutoff=FUZZY_CUTOFF)
    return Stretch(aligned.score, *_trimmed(gold, window, aligned)) if aligned and aligned.score else None


def _trimmed(gold: str, window: str, aligned: ScoreAlignment) -> tuple[int, int]:
    """Return where the gold text begins and ends: the aligned stretch has its length, which slips have changed."""
    stretch = window[aligned.dest_start : aligned.dest_end]
    anchors = [block for block in Indel.opcodes(gold, stretch).as_matching_blocks() if block.size >= _ANCHOR]
    if not anchors:
        return aligned.dest_start, aligned.dest_end
    first, last = anchors[0], anchors[-1]
    start = aligned.dest_start + first.b - first.a
    end = aligned.dest_start + last.b + len(gold) - last.a
    return max(0, start), min(len(window), end)


@dataclass(slots=True)
class Fragment:
    """What continues in both texts: `[gold_start, gold_end)` of the gold text, `[start, end)` of the document."""

    gold_start: int
    gold_end: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.gold_end - self.gold_start


class FragmentMatch(NamedTuple):
    """A gold text in fragments: the share that they hold together, 0 to 100, and where they begin and end."""

    score: float
    start: int
    end: int
    fragments: tuple[Fragment, ...]


BreakStrength = Callable[[int], int]  # how likely the text is interrupted before a character


def match_fragments(
    gold: str,
    text: str,
    common: CommonNgrams,
    break_strength: BreakStrength,
    accepts: Callable[[FragmentMatch], bool],
) -> list[FragmentMatch]:
    """Return the best accepted places of a gold text in fragments, within one point of the best, above the cut-off."""
    runs = _runs(common)
    for run in runs:
        _grow(run, gold, text)
    # An n-gram that occurs twice may have grown to what another run is already.
    distinct = {(run.gold_start, run.gold_end, run.start): run for run in runs if len(run) >= _FRAGMENT_MIN}
    runs = sorted(sorted(distinct.values(), key=len)[-_RUNS_MAX:], key=lambda run: run.start)
    if sum(map(len, runs)) < _RUNS_SHARE_MIN * len(gold):
        return []
    found = (_scored(chain, gold, text, break_strength) for chain in _chains(runs))
    return _best([hit for hit in found if hit.score >= FUZZY_CUTOFF and accepts(hit)])


def _runs(common: CommonNgrams) -> list[Fragment]:
    """Join n-grams where both texts continue with no more than slips."""
    done: list[Fragment] = []
    growing: list[Fragment] = []
    for offset, at in common.places:
        growing = [run for run in growing if offset - run.gold_end <= _SLIP_MAX]
        nearest = min(growing, key=lambda run: _shift(run, offset, at), default=None)
        if nearest and _shift(nearest, offset, at) <= _SLIP_MAX:
            nearest.gold_end, nearest.end = offset + common.size, at + common.size
        else:
            growing.append(Fragment(offset, offset + common.size, at, at + common.size))
            done.append(growing[-1])
    return done


def _shift(run: Fragment, offset: int, at: int) -> float:
    """By how many characters an n-gram is off the run's diagonal; infinite if it does not follow the run."""
    if not (offset > run.gold_start and run.start < at <= run.end + _SLIP_MAX):
        return math.inf
    shift = (at - offset) - (run.end - run.gold_end)
    return shift if shift >= 0 else -2 * shift  # printing adds more than it leaves out


def _grow(run: Fragment, gold: str, text: str) -> None:
    """Extend a run by equal characters at both ends, where n-grams were not looked for."""
    while run.gold_start and run.start and gold[run.gold_start - 1] == text[run.start - 1]:
        run.gold_start, run.start = run.gold_start - 1, run.start - 1
    while run.gold_end < len(gold) and run.end < len(text) and gold[run.gold_end] == text[run.end]:
        run.gold_end, run.end = run.gold_end + 1, run.end + 1


def _chains(runs: list[Fragment]) -> Iterable[list[Fragment]]:
    """Yield the longest chain, and every chain with another last run that is nearly as long."""
    lengths: list[int] = []
    before: list[int | None] = []
    for n, run in enumerate(runs):
        lengths.append(len(run))
        before.append(None)
        for m in range(n):
            overlap = _overlap(runs[m], run)
            if overlap is not None and lengths[m] + len(run) - overlap > lengths[n]:
                lengths[n], before[n] = lengths[m] + len(run) - overlap, m
    longest = max(lengths)
    for n, length in enumerate(lengths):
        if length >= 0.95 * longest:  # similarity decides between them
            chain: list[Fragment] = []
            at: int | None = n
            while at is not None:
                run = runs[at]
                chain.append(Fragment(run.gold_start, run.gold_end, run.start, run.end))
                at = before[at]
            yield chain[::-1]


def _overlap(left: Fragment, right: Fragment) -> int | None:
    """Return how many characters both runs have; None if the right one cannot follow the left one."""
    overlap = max(0, left.gold_end - right.gold_start, left.end - right.start)
    follows = left.gold_start < right.gold_start and left.gold_end < right.gold_end
    follows = follows and right.start - left.end <= FRAGMENT_GAP_MAX
    return overlap if follows and overlap <= min(_OVERLAP_MAX, len(left) - 1, len(right) - 1) else None


def _scored(chain: list[Fragment], gold: str, text: str, break_strength: BreakStrength) -> FragmentMatch:
    for left, right in pairwise(chain):
        _divide_overlap(left, right, break_strength)
        _fill_gap(left, right, gold, text, break_strength)
    chain = _merged(chain)
    _extend_ends(chain, gold, text, break_strength)
    equal = sum(len(f) * _similarity(gold[f.gold_start : f.gold_end], text[f.start : f.end]) for f in chain)
    return FragmentMatch(100 * equal / len(gold), chain[0].start, chain[-1].end, tuple(chain))


def _merged(chain: list[Fragment]) -> list[Fragment]:
    """Merge fragments with nothing in between, which slips had separated."""
    merged = chain[:1]
    for fragment in chain[1:]:
        if fragment.start > merged[-1].end:
            merged.append(fragment)
        else:
            merged[-1].gold_end, merged[-1].end = fragment.gold_end, fragment.end
    return merged


def _divide_overlap(left: Fragment, right: Fragment, break_strength: BreakStrength) -> None:
    """Divide what both neighbours have where an interruption is likeliest."""
    overlap = max(0, left.gold_end - right.gold_start, left.end - right.start)
    if overlap:
        to_right = max(
            range(overlap + 1),
            key=lambda n: break_strength(left.end - n) + break_strength(right.start + overlap - n),
        )
        left.gold_end, left.end = left.gold_end - to_right, left.end - to_right
        right.gold_start, right.start = right.gold_start + overlap - to_right, right.start + overlap - to_right


def _fill_gap(left: Fragment, right: Fragment, gold: str, text: str, break_strength: BreakStrength) -> None:
    """Extend two fragments by what slips have left out between them, as far as it is like the gold text."""
    missing = right.gold_start - left.gold_end
    if not 0 < missing <= min(_MISSING_MAX, right.start - left.end):
        return
    between = gold[left.gold_end : right.gold_start]

    def gain(n: int) -> float:
        """Equal characters if the first `n` missing ones go to the left; an interruption is worth one of them."""
        equal = n * _similarity(between[:n], text[left.end : left.end + n])
        equal += (missing - n) * _similarity(between[n:], text[right.start - missing + n : right.start])
        return equal + break_strength(left.end + n) / 2 + break_strength(right.start - missing + n) / 2

    n = max(range(missing + 1), key=gain)
    if _is_similar(between[:n], text[left.end : left.end + n]):
        left.gold_end, left.end = left.gold_end + n, left.end + n
    n = missing - n
    if _is_similar(between[missing - n :], text[right.start - n : right.start]):
        right.gold_start, right.start = right.gold_start - n, right.start - n


def _extend_ends(chain: list[Fragment], gold: str, text: str, break_strength: BreakStrength) -> None:
    """Extend the first and last fragment to the gold text's ends, which slips may have made longer or shorter."""
    first, last = chain[0], chain[-1]
    head, tail = gold[: first.gold_start], gold[last.gold_end :]
    before = {n: text[first.start - n : first.start] for n in _edge_lengths(head, first.start)}
    if before:
        n = max(before, key=lambda n: _fit(head, before[n], break_strength(first.start - n)))
        if _is_similar(head, before[n]):
            first.gold_start, first.start = 0, first.start - n
    after = {n: text[last.end : last.end + n] for n in _edge_lengths(tail, len(text) - last.end)}
    if after:
        n = max(after, key=lambda n: _fit(tail, after[n], break_strength(last.end + n)))
        if _is_similar(tail, after[n]):
            last.gold_end, last.end = len(gold), last.end + n


def _edge_lengths(missing: str, available: int) -> range:
    """Return the lengths that a missing end of the gold text may have in the document."""
    if not 0 < len(missing) <= _MISSING_MAX:
        return range(0)
    return range(max(0, len(missing) - _SLIP_AT_EDGE), min(available, len(missing) + _SLIP_AT_EDGE) + 1)


def _fit(gold: str, text: str, break_strength: int) -> float:
    """Equal characters minus different ones; a word boundary is worth one."""
    equal = _similarity(gold, text) * (len(gold) + len(text)) / 2
    return equal - abs(len(gold) - len(text)) / 2 + min(break_strength, 1)


def _is_similar(gold: str, text: str) -> bool:
    return _similarity(gold, text) >= (_SIMILAR if len(gold) > _SLIP_AT_EDGE else 0)


def _similarity(gold: str, text: str) -> float:
    """Return the similarity, 0 to 1; two empty texts are equal."""
    return Indel.normalized_similarity(gold, text)
