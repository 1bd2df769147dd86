"""Citation span accuracy of one answer: predicted citations matched one to one with the gold ones.

The same figures as `span_matching` gives for many answers, with the matched citations themselves. A pair is comparable
when the files are equal and, where both name a page, the pages are equal; file names are resolved to exact basenames
before they come here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rag_eval_pipeline.metrics.span_columns import Citation, Span, SpanColumns, columns_of, file_numbers
from rag_eval_pipeline.metrics.span_matching import MIN_OVERLAP, TOLERANCE_CHARS, score_columns
from rag_eval_pipeline.metrics.spans import Overlap

__all__ = ["Citation", "CitationScores", "Match", "match_citations"]


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
        matches: The matched pairs, in the order of the gold citations' files and places.
        best_exact_jaccard: Mean over the gold citations when a predicted one may serve several.
        best_tolerance_jaccard: The same with tolerance.
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
    best_exact_jaccard: float
    best_tolerance_jaccard: float


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
    sides = ([tuple(gold)], [tuple(predicted)])
    files = file_numbers(*sides)
    wanted, given = (columns_of(side, files) for side in sides)
    scores = score_columns(wanted, given, 1, tolerance=tolerance, min_overlap=min_overlap)
    n_gold, n_predicted = wanted.size, given.size
    if not n_gold and not n_predicted:
        return None
    names = list(files)
    matches = (
        Match(_citation(wanted, i, names), _citation(given, j, names), exact, tolerant)
        for i, j, exact, tolerant in zip(*(column.tolist() for column in scores.matches), strict=True)
    )
    sums = (scores.exact, scores.tolerant, scores.best_exact, scores.best_tolerant)
    exact, tolerant, best_exact, best_tolerant = (float(column[0]) / n_gold if n_gold else 0.0 for column in sums)
    return CitationScores(
        mean_exact_jaccard=exact,
        mean_tolerance_jaccard=tolerant,
        perfect_matches=int(scores.perfect[0]),
        good_matches=int(scores.good[0]),
        n_gold=n_gold,
        n_predicted=n_predicted,
        spans=Overlap(int(scores.found[0]), n_gold, n_predicted),
        characters=Overlap(*(int(column[0]) for column in scores.characters)),
        matches=tuple(matches),
        best_exact_jaccard=best_exact,
        best_tolerance_jaccard=best_tolerant,
    )


def _citation(spans: SpanColumns, row: int, names: Sequence[str]) -> Citation:
    _, file, page, start, end = (int(column[row]) for column in spans)
    return Citation(names[file], page or None, Span(start, end))
