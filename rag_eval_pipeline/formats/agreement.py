"""Inter-annotator agreement: how far people who annotated the same questions cite the same characters and score alike.

Citations are compared character by character on intervals, so that long spans cost nothing. Each question counts once,
however many annotators it has. Two annotators who both cite nothing agree but share no character: such pairs are
counted and have no Jaccard.
Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85, blind re-annotation of 10 % of samples) and 6.2.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from statistics import fmean
from typing import Literal, NamedTuple

import krippendorff
import numpy as np

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.ground_truth import (
    DIMENSIONS,
    AnswerQualityAnnotation,
    CitationAnnotation,
    GroundTruth,
)

Verdict = Literal["meets_target", "below_target", "recalibrate"]
Level = Literal["nominal", "ordinal", "interval"]

DECIMALS = 12  # of comparisons with the thresholds: the last bit of a mean decides nothing
WORST_LISTED = 10
BLIND_SHARE = 0.10  # Citation Accuracy Evaluation 4.1
SEED = 42  # Evaluation Data Formats, evaluation_parameters.random_seed


class AgreementRules(NamedTuple):
    """When annotators agree well enough. Source: Citation Accuracy Evaluation 4.1 ("> 0.85") and 6.2."""

    target: float = 0.85  # reached by what is above it
    recalibrate_below: float = 0.8
    min_annotators: int = 2  # questions with fewer are not compared


RULES = AgreementRules()


@dataclass(frozen=True, slots=True)
class CitationAgreement:
    """Agreement on what to cite.

    Args:
        jaccard: Mean over questions of the mean over pairs of annotators, in [0, 1]; None when no pair has one.
        verdict: By the rules; None without a Jaccard.
        reason: Why there is no Jaccard: `too_few_annotators`, `nothing_cited`.
        n_queries: Questions behind the Jaccard.
        n_pairs: Pairs of annotations behind it.
        n_nothing_cited: Pairs that both cite nothing.
        n_too_few: Questions with fewer annotators than needed.
        worst: Up to ten questions with their Jaccard, least agreement first.
    """

    jaccard: float | None
    verdict: Verdict | None
    reason: str | None
    n_queries: int
    n_pairs: int
    n_nothing_cited: int
    n_too_few: int
    worst: tuple[tuple[str, float], ...]


class Alpha(NamedTuple):
    """Krippendorff's alpha: 1 is perfect agreement, 0 what chance gives, below 0 systematic disagreement.

    Args:
        value: At most 1; None with a reason: `nothing_to_compare` (no unit with two values) or `no_variation` (all
            values are equal, so that there is nothing to disagree about).
        reason: None with a value.
        n_units: Units with at least two values.
        n_values: Values in them.
    """

    value: float | None
    reason: str | None
    n_units: int
    n_values: int


class ScoreAgreement(NamedTuple):
    """Agreement on one dimension of answer quality: alpha by distance of the scores, and by their order only."""

    dimension: str
    interval: Alpha
    ordinal: Alpha


def krippendorff_alpha(units: Iterable[Sequence[float]], level: Level) -> Alpha:
    """Return alpha of the units' values, one per observer who gave one; units with fewer than two are skipped.

    Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.
    """
    compared = [unit for unit in units if len(unit) > 1]
    domain, codes = np.unique(np.array([value for unit in compared for value in unit], float), return_inverse=True)
    if not compared:
        return Alpha(None, "nothing_to_compare", 0, 0)
    if len(domain) == 1:
        return Alpha(None, "no_variation", len(compared), len(codes))
    counts = np.zeros((len(compared), len(domain)))
    np.add.at(counts, (np.repeat(np.arange(len(compared)), [len(unit) for unit in compared]), codes), 1)
    value = krippendorff.alpha(value_counts=counts, value_domain=domain, level_of_measurement=level)
    return Alpha(float(value), None, len(compared), len(codes))


def citation_agreement(truth: GroundTruth, *, rules: AgreementRules = RULES) -> CitationAgreement:
    """Return the agreement of a dataset's citation annotations."""
    queries: defaultdict[str, dict[str, CitationAnnotation]] = defaultdict(dict)
    for annotation in truth.citation_annotations:
        known = queries[annotation.query_id].setdefault(annotation.annotator_id, annotation)
        if known is not annotation:
            raise _duplicate(truth, annotation, known)
    compared = {query: group for query, group in queries.items() if len(group) >= max(2, rules.min_annotators)}
    means: dict[str, float] = {}
    n_pairs = n_nothing = 0
    for query, group in compared.items():
        segments = _marked_segments(group)
        pairs = [_jaccard(segments, *pair) for pair in combinations(group, 2)]
        known_pairs = [value for value in pairs if value is not None]
        n_pairs += len(known_pairs)
        n_nothing += len(pairs) - len(known_pairs)
        if known_pairs:
            means[query] = fmean(known_pairs)
    jaccard = fmean(means.values()) if means else None
    return CitationAgreement(
        jaccard=jaccard,
        verdict=None if jaccard is None else _verdict(jaccard, rules),
        reason=None if means else "nothing_cited" if compared else "too_few_annotators",
        n_queries=len(means),
        n_pairs=n_pairs,
        n_nothing_cited=n_nothing,
        n_too_few=len(queries) - len(compared),
        worst=tuple(sorted(means.items(), key=lambda item: (item[1], item[0]))[:WORST_LISTED]),
    )


def score_agreement(truth: GroundTruth) -> tuple[ScoreAgreement, ...]:
    """Return alpha of each quality score; a unit is one answer to one question, so different answers never compare."""
    answers: defaultdict[tuple[str, str], dict[str, AnswerQualityAnnotation]] = defaultdict(dict)
    for annotation in truth.quality_annotations:
        known = answers[annotation.query_id, annotation.answer_text].setdefault(annotation.annotator_id, annotation)
        if known is not annotation:
            raise _duplicate(truth, annotation, known)
    agreements = []
    for dimension in (*DIMENSIONS, "overall_score"):
        scores = [[_score(annotation, dimension) for annotation in group.values()] for group in answers.values()]
        units = [[score for score in group if score is not None] for group in scores]
        agreements.append(
            ScoreAgreement(dimension, krippendorff_alpha(units, "interval"), krippendorff_alpha(units, "ordinal"))
        )
    return tuple(agreements)


def blind_sample(query_ids: Iterable[str], *, share: float = BLIND_SHARE, seed: int = SEED) -> list[str]:
    """Return the questions to annotate once more, in the order given: those whose hash with the seed is smallest.

    Args:
        query_ids: Of the dataset; a repeated one counts once. A dataset that grows keeps most of its sample.
        share: In (0, 1]; the number is rounded up.
        seed: Another seed gives another sample.
    """
    if not 0 < share <= 1:
        raise ValueError(f"expected a share in (0, 1], found {share}")
    ids = list(dict.fromkeys(query_ids))
    count = math.ceil(Fraction(str(share)) * len(ids))  # 0.1 * 70 is 7.000000000000001 in floats
    chosen = set(sorted(ids, key=lambda one: hashlib.sha256(f"{seed}\0{one}".encode()).hexdigest())[:count])
    return [one for one in ids if one in chosen]


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
    for own in changes.values():
        depth: defaultdict[str, int] = defaultdict(int)  # an annotator's own spans may overlap
        for here, following in pairwise(sorted(own)):
            for annotator, change in own[here]:
                depth[annotator] += change
            segments.append(_Segment(following - here, frozenset(name for name, spans in depth.items() if spans)))
    return segments


def _jaccard(segments: Iterable[_Segment], one: str, other: str) -> float | None:
    """Return shared characters among those that either marked; None if both marked none."""
    shared = either = 0
    for segment in segments:
        marks = (one in segment.marked_by) + (other in segment.marked_by)
        shared += segment.length * (marks == 2)
        either += segment.length * (marks > 0)
    return shared / either if either else None


def _score(annotation: AnswerQualityAnnotation, dimension: str) -> float | None:
    if dimension == "overall_score":
        return annotation.overall_score
    score: float = getattr(annotation.quality_scores, dimension)
    return score


def _verdict(jaccard: float, rules: AgreementRules) -> Verdict:
    value = round(jaccard, DECIMALS)
    if value > rules.target:
        return "meets_target"
    return "recalibrate" if value < rules.recalibrate_below else "below_target"


def _duplicate(
    truth: GroundTruth,
    annotation: CitationAnnotation | AnswerQualityAnnotation,
    known: CitationAnnotation | AnswerQualityAnnotation,
) -> InputError:
    return InputError(
        "duplicate_annotation", f"ground truth of {truth.dataset_id}, annotation {annotation.annotation_id!r}",
        f"one annotation of query {annotation.query_id!r} by {annotation.annotator_id!r}",
        found=known.annotation_id, hint="Remove one of the two.",
    )  # fmt: skip
