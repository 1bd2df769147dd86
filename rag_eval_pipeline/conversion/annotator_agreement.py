"""Inter-annotator agreement: how far people who annotated the same questions cite the same characters.

Each question counts once, however many annotators it has. Two annotators who both cite nothing are counted and have no
Jaccard. Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85), 6.2.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from typing import Literal, NamedTuple

from rag_eval_pipeline.formats.ground_truth import CitationAnnotation, GroundTruth

Verdict = Literal["meets_target", "below_target", "recalibrate"]

TARGET = 0.85  # agreement must exceed this
RECALIBRATE_BELOW = 0.8
MIN_ANNOTATORS = 2  # questions with fewer are not compared
DECIMALS = 12  # of comparisons with the thresholds: the last bit of a mean decides nothing
WORST_LISTED = 10


@dataclass(frozen=True, slots=True)
class CitationAgreement:
    """Agreement on what to cite.

    Args:
        jaccard: Mean over questions of the mean over pairs of annotators, in [0, 1]; None when no pair has one.
        verdict: None without a Jaccard.
        reason: Why there is no Jaccard: `too_few_annotators`, `nothing_cited`.
        n_queries: Questions behind the Jaccard.
        n_pairs: Pairs of annotations behind it.
        worst: Up to ten questions with their Jaccard, least agreement first.
    """

    jaccard: float | None
    verdict: Verdict | None
    reason: str | None
    n_queries: int
    n_pairs: int
    worst: tuple[tuple[str, float], ...]


def citation_agreement(truth: GroundTruth) -> CitationAgreement:
    """Return the agreement of a dataset's citation annotations; an annotator has one for each question."""
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
    return CitationAgreement(
        jaccard=jaccard,
        verdict=None if jaccard is None else _verdict(round(jaccard, DECIMALS)),
        reason=None if means else "nothing_cited" if compared else "too_few_annotators",
        n_queries=len(means),
        n_pairs=n_pairs,
        worst=tuple(sorted(means.items(), key=lambda item: (item[1], item[0]))[:WORST_LISTED]),
    )


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


def _verdict(jaccard: float) -> Verdict:
    if jaccard > TARGET:
        return "meets_target"
    return "recalibrate" if jaccard < RECALIBRATE_BELOW else "below_target"
