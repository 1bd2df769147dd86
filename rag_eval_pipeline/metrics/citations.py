"""Citation span accuracy of one answer: predicted citations matched one to one with the gold ones.

A pair is comparable when the files are equal and, where both name a page, the pages are equal; file names are resolved
to exact basenames before they come here. Tolerance never lowers a score, a perfect match is always a good one, and a
gold span that nobody cited counts as 0. The specification's own code fails all three.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.spans import Overlap, Span, check, overlap, pair_jaccard

TOLERANCE_CHARS = 10  # Citation Accuracy Evaluation 4.2, tolerance_chars
MIN_OVERLAP = 0.5  # its configuration: span_matching.min_overlap_threshold
GOOD_MATCH = 0.8  # its good_matches
# Tolerance decides the matching, as in the specification; exactness decides among equals, so that a perfect citation is
# not traded for one that is only within tolerance. Small enough to count only then.
EXACT_WEIGHT = 1e-6


class Citation(NamedTuple):
    """A span of one document, as gold or as a system cites it.

    Args:
        file_name: Exact basename of the document.
        page: 1-based page where the span starts; None when not known.
        span: Its characters, in code points of the document's text.
    """

    file_name: str
    page: int | None
    span: Span


class Match(NamedTuple):
    """A gold citation and the predicted one that was given to it.

    Args:
        gold: The gold citation.
        predicted: Its match; no other gold citation has it.
        exact_jaccard: Jaccard of the two, above 0 unless tolerance alone made them meet.
        tolerance_jaccard: Jaccard after the predicted ends moved towards the gold ones; at least `exact_jaccard`.
    """

    gold: Citation
    predicted: Citation
    exact_jaccard: float
    tolerance_jaccard: float


@dataclass(frozen=True, slots=True)
class CitationScores:
    """Span accuracy of one answer; the first four names are the specification's.

    Args:
        mean_exact_jaccard: Mean over the gold citations, unmatched ones as 0; 0.0 when there are none.
        mean_tolerance_jaccard: The same with tolerance.
        perfect_matches: Gold citations with an exact Jaccard of 1.
        good_matches: Gold citations with a tolerance Jaccard of at least 0.8.
        n_gold: Distinct gold citations.
        n_predicted: Distinct predicted citations.
        spans: Citations as units: shared are the matches with a tolerance Jaccard of at least `min_overlap`.
        characters: Characters of all documents, each counted once a side.
        matches: The matched pairs, in the order of the gold citations.
    """

    mean_exact_jaccard: float
    mean_tolerance_jaccard: float
    perfect_matches: int
    good_matches: int
    n_gold: int
    n_predicted: int
    spans: Overlap
    characters: Overlap
    matches: tuple[Match, ...]


def is_comparable(gold: Citation, predicted: Citation) -> bool:
    """Same file and, when both carry a page, same page."""
    same_page = gold.page is None or predicted.page is None or gold.page == predicted.page
    return same_page and gold.file_name == predicted.file_name


def snap(span: Span, gold: Span, tolerance: int) -> Span:
    """The span with each end moved towards the gold end by at most `tolerance` characters.

    Each move adds gold characters or removes others, so the Jaccard with gold cannot fall; ends that are both within
    tolerance become the gold ends.
    """

    def towards(position: int, target: int) -> int:
        return min(max(target, position - tolerance), position + tolerance)

    return Span(towards(span.start, gold.start), towards(span.end, gold.end))


def match_citations(
    gold: Iterable[Citation],
    predicted: Iterable[Citation],
    *,
    tolerance: int = TOLERANCE_CHARS,
    min_overlap: float = MIN_OVERLAP,
) -> CitationScores | None:
    """Span accuracy of one answer's citations against the gold ones.

    Args:
        gold: Gold citations; repetitions count once.
        predicted: The answer's citations; repetitions count once.
        tolerance: How far an end may be off, in characters.
        min_overlap: The tolerance Jaccard from which a matched citation counts as found in `spans`.

    Returns:
        None when nothing was to be cited and nothing was. A question whose gold citations are not known must not come
        here: everything it cites would count as wrong.

    Raises:
        ValueError: A citation with `end <= start` or a negative start; a negative tolerance.

    Source: Citation Accuracy Evaluation 4.2, mended: one-to-one, within a file and page, tolerance towards gold.
    """
    if tolerance < 0:
        raise ValueError(f"expected a tolerance of 0 or more characters, found {tolerance}")
    gold = list(dict.fromkeys(gold))
    predicted = list(dict.fromkeys(predicted))
    for citation in (*gold, *predicted):
        check(citation.span)
    if not gold and not predicted:
        return None
    matches = best_matches(gold, predicted, tolerance)
    n_gold = len(gold)
    return CitationScores(
        mean_exact_jaccard=sum(match.exact_jaccard for match in matches) / n_gold if n_gold else 0.0,
        mean_tolerance_jaccard=sum(match.tolerance_jaccard for match in matches) / n_gold if n_gold else 0.0,
        perfect_matches=sum(match.exact_jaccard == 1.0 for match in matches),
        good_matches=sum(match.tolerance_jaccard >= GOOD_MATCH for match in matches),
        n_gold=n_gold,
        n_predicted=len(predicted),
        spans=Overlap(sum(match.tolerance_jaccard >= min_overlap for match in matches), n_gold, len(predicted)),
        characters=character_overlap(gold, predicted),
        matches=tuple(matches),
    )


def best_matches(gold: Sequence[Citation], predicted: Sequence[Citation], tolerance: int) -> list[Match]:
    """The one-to-one matching with the largest sum of tolerance Jaccards; pairs that share nothing are left out."""
    from scipy.optimize import linear_sum_assignment

    exact = np.zeros((len(gold), len(predicted)))
    tolerant = np.zeros_like(exact)
    for i, wanted in enumerate(gold):
        for j, given in enumerate(predicted):
            if is_comparable(wanted, given):
                exact[i, j] = pair_jaccard(wanted.span, given.span)
                tolerant[i, j] = pair_jaccard(wanted.span, snap(given.span, wanted.span, tolerance))
    rows, columns = linear_sum_assignment(tolerant + EXACT_WEIGHT * exact, maximize=True)
    return [
        Match(gold[i], predicted[j], float(exact[i, j]), float(tolerant[i, j]))
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        if tolerant[i, j] > 0.0
    ]


def character_overlap(gold: Iterable[Citation], predicted: Iterable[Citation]) -> Overlap:
    """Cited characters of all documents: gold, predicted, and in both.

    Pages tell characters apart only in files where every citation carries one; otherwise the offset alone does.
    """
    sides = (tuple(gold), tuple(predicted))
    without_page = {citation.file_name for side in sides for citation in side if citation.page is None}
    places: defaultdict[tuple[str, int | None], tuple[list[Span], list[Span]]] = defaultdict(lambda: ([], []))
    for number, side in enumerate(sides):
        for citation in side:
            page = None if citation.file_name in without_page else citation.page
            places[citation.file_name, page][number].append(citation.span)
    parts = [overlap(*spans) for spans in places.values()]
    return Overlap(
        sum(part.shared for part in parts), sum(part.gold for part in parts), sum(part.predicted for part in parts)
    )
