"""Inter-annotator agreement: how far people who annotated the same questions cite the same characters.

Each question counts once, however many annotators it has. Two annotators who both cite nothing are counted and have no
Jaccard. Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85), 6.2.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from statistics import fmean
from typing import NamedTuple

from rag_eval_pipeline.conversion.stamp import Check, make_check
from rag_eval_pipeline.formats.ground_truth import CitationAnnotation, GroundTruth

MEETS_TARGET = "meets_target"
TARGET = 0.85  # agreement must exceed this
RECALIBRATE_BELOW = 0.8
MIN_ANNOTATORS = 2  # questions with fewer are not compared
DECIMALS = 12  # of comparisons with the thresholds: the last bit of a mean decides nothing
WORST_LISTED = 10


def annotators_agree(truth: GroundTruth) -> Check:
    """Check that the annotators of a dataset cite the same characters; an annotator has one annotation of a question.

    `jaccard` is the mean over questions of the mean over pairs of annotators; if no pair has one, `verdict` says why.
    """
    queries: defaultdict[str, dict[str, CitationAnnotation]] = defaultdict(dict)
    for annotation in truth.citation_annotations:
        queries[annotation.query_id][annotation.annotator_id] = annotation
    compared = {query: group for query, group in queries.items() if len(group) >= MIN_ANNOTATORS}
    means: dict[str, float] = {}
    n_pairs = 0
    for query, group in compared.items():
        segments = _marked_segments(group)
        pairs = [_jaccard(segments, *pair) for pair in combinations(group, 2)]
        known_pairs = [value for value in pairs if value is not None]
        n_pairs += len(known_pairs)
        if known_pairs:
            means[query] = fmean(known_pairs)
    jaccard = fmean(means.values()) if means else None
    verdict = "nothing_cited" if compared else "too_few_annotators"
    if jaccard is not None:
        verdict = _verdict(round(jaccard, DECIMALS))
    numbers = {
        "jaccard": jaccard,
        "verdict": verdict,
        "questions": len(means),
        "pairs": n_pairs,
        "least_agreed": sorted(means, key=lambda query: (means[query], query))[:WORST_LISTED],
    }
    return make_check("annotators_agree", jaccard is None or verdict == MEETS_TARGET, numbers, blocking=False)


class _Segment(NamedTuple):
    """Adjacent characters that the same annotators marked."""

    length: int
    marked_by: frozenset[str]


def _marked_segments(group: Mapping[str, CitationAnnotation]) -> list[_Segment]:
    """Return the marked characters of one question's documents, cut wherever anyone begins or ends."""
    changes: defaultdict[str, defaultdict[int, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    for annotator, annotation in group.items():
        for citation in annotation.citations:
            changes[citation.file_name][citation.start_char].append((annotator, 1))
            changes[citation.file_name][citation.end_char].append((annotator, -1))
    segments = []
    for marks in changes.values():
        depth: defaultdict[str, int] = defaultdict(int)  # an annotator's spans may overlap
        for here, following in pairwise(sorted(marks)):
            for annotator, change in marks[here]:
                depth[annotator] += change
            segments.append(_Segment(following - here, frozenset(name for name, spans in depth.items() if spans)))
    return segments


def _jaccard(segments: Iterable[_Segment], one: str, other: str) -> float | None:
    shared = either = 0
    for segment in segments:
        marks = (one in segment.marked_by) + (other in segment.marked_by)
        shared += segment.length * (marks == 2)
        either += segment.length * (marks > 0)
    return shared / either if either else None


def _verdict(jaccard: float) -> str:
    if jaccard > TARGET:
        return MEETS_TARGET
    return "recalibrate" if jaccard < RECALIBRATE_BELOW else "below_target"
