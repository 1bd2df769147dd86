"""Inter-annotator agreement: how far people who annotated the same questions cite the same characters and score alike.

Citations are compared character by character on intervals, so that long spans cost nothing. Each question counts once,
however many annotators it has. Two annotators who both cite nothing agree, but share no character: such pairs are
counted and have no Jaccard. What cannot be computed is None with a reason, never 0.0.
Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85, character-level Jaccard) and 6.2.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.annotation_records import DIMENSIONS, AnswerQualityAnnotation, CitationAnnotation
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.krippendorff import Alpha, Unit, krippendorff_alpha
from rag_eval_pipeline.formats.stretches import files_of, jaccard_of, stretches_of, units_of

Verdict = Literal["meets_target", "below_target", "recalibrate"]

PLACES = 12  # decimals in comparisons with the thresholds: the last bit of a mean decides nothing
WORST_LISTED = 10


@dataclass(frozen=True, slots=True)
class AgreementRules:
    """When annotators agree well enough.

    Args:
        target: Reached by what is above it.
        recalibrate_below: From here down the annotators have to be calibrated anew.
        min_annotators: Questions with fewer are not compared.

    Source: Citation Accuracy Evaluation 4.1 ("> 0.85") and 6.2.
    """

    target: float = 0.85
    recalibrate_below: float = 0.8
    min_annotators: int = 2


RULES = AgreementRules()


class PairAgreement(NamedTuple):
    """Two annotators, or one with all others.

    Args:
        annotators: Their ids, sorted.
        jaccard: Mean over the questions that both annotated, in [0, 1].
        n_queries: Those questions.
    """

    annotators: tuple[str, ...]
    jaccard: float
    n_queries: int


class QueryAgreement(NamedTuple):
    """One question.

    Args:
        query_id: Which.
        jaccard: Mean over its pairs of annotators, in [0, 1].
        worst_pair: Who agreed least, and how far.
        worst_jaccard: Of that pair.
    """

    query_id: str
    jaccard: float
    worst_pair: tuple[str, str]
    worst_jaccard: float


@dataclass(frozen=True, slots=True)
class CitationAgreement:
    """Agreement on what to cite.

    Args:
        jaccard: Mean over questions of the mean over pairs, in [0, 1]; None when no pair has one.
        verdict: By the rules; None without a Jaccard.
        reason: Why there is none: `too_few_annotators`, `nothing_cited`.
        alpha: Krippendorff's, nominal, a character being a unit; see `citation_agreement`.
        n_queries: Questions behind the Jaccard.
        n_pairs: Pairs of annotations behind it.
        n_nothing_cited: Pairs that both cite nothing.
        n_too_few: Questions with fewer annotators than needed.
        pairs: Those who agree least come first.
        annotators: Each with all others; those who agree least come first.
        worst: Up to ten questions, least agreement first.
    """

    jaccard: float | None
    verdict: Verdict | None
    reason: str | None
    alpha: Alpha
    n_queries: int
    n_pairs: int
    n_nothing_cited: int
    n_too_few: int
    pairs: tuple[PairAgreement, ...]
    annotators: tuple[PairAgreement, ...]
    worst: tuple[QueryAgreement, ...]


@dataclass(frozen=True, slots=True)
class ScoreAgreement:
    """Agreement on one dimension of answer quality.

    Args:
        dimension: `completeness`, ..., `overall_score`.
        interval: Alpha by distance of the scores.
        ordinal: Alpha by their order only.
    """

    dimension: str
    interval: Alpha
    ordinal: Alpha


def citation_agreement(
    truth: GroundTruth, *, lengths: Mapping[str, int] | None = None, rules: AgreementRules = RULES
) -> CitationAgreement:
    """Agreement of the citation annotations.

    A unit of alpha is one character of one document for one question, marked or not by each of the question's
    annotators. With `lengths` the units are all characters of every document that anyone marked for the question.
    Without, only characters that someone marked: the agreement on what nobody marked is then missing, so this alpha is
    lower, and None (`no_variation`) when everyone marked the same.

    Args:
        truth: Of one dataset.
        lengths: Characters of each document, by file name; a marked document without an entry counts by its marked
            characters alone.
        rules: Thresholds.

    Raises:
        InputError: `duplicate_annotation`: one annotator has two annotations of one question.
    """
    queries = _by_query(truth)
    compared = {query: group for query, group in queries.items() if len(group) >= max(2, rules.min_annotators)}
    units: list[Unit] = []
    by_query: dict[str, dict[tuple[str, str], float]] = {}
    n_nothing = 0
    for query, group in compared.items():
        stretches = {name: list(stretches_of(group, name)) for name in files_of(group)}
        marked = [stretch for own in stretches.values() for stretch in own]
        units += units_of(stretches, len(group), lengths or {})
        pairs = {pair: jaccard_of(marked, *pair) for pair in combinations(sorted(group), 2)}
        n_nothing += sum(value is None for value in pairs.values())
        if known := {pair: value for pair, value in pairs.items() if value is not None}:
            by_query[query] = known
    means = {query: _mean(pairs.values()) for query, pairs in by_query.items()}
    jaccard = _mean(means.values()) if means else None
    return CitationAgreement(
        jaccard=jaccard,
        verdict=None if jaccard is None else _verdict(jaccard, rules),
        reason=None if means else "nothing_cited" if compared else "too_few_annotators",
        alpha=krippendorff_alpha(units, "nominal"),
        n_queries=len(means),
        n_pairs=sum(len(pairs) for pairs in by_query.values()),
        n_nothing_cited=n_nothing,
        n_too_few=len(queries) - len(compared),
        pairs=_ranked(((pair, value) for pairs in by_query.values() for pair, value in pairs.items())),
        annotators=_ranked(
            ((name,), _mean(value for pair, value in pairs.items() if name in pair))
            for pairs in by_query.values()
            for name in sorted({name for pair in pairs for name in pair})
        ),
        worst=tuple(
            QueryAgreement(query, means[query], *min(by_query[query].items(), key=lambda item: (item[1], item[0])))
            for query in sorted(means, key=lambda query: (means[query], query))[:WORST_LISTED]
        ),
    )


def score_agreement(truth: GroundTruth) -> tuple[ScoreAgreement, ...]:
    """Alpha of each quality score; a unit is one answer to one question, so that different answers are not compared.

    Raises:
        InputError: `duplicate_annotation`: one annotator has two judgements of one answer.
    """
    answers: defaultdict[tuple[str, str], dict[str, AnswerQualityAnnotation]] = defaultdict(dict)
    for annotation in truth.quality_annotations:
        known = answers[annotation.query_id, annotation.answer_text].setdefault(annotation.annotator_id, annotation)
        if known is not annotation:
            raise _duplicate(truth, annotation, known)
    judged = [list(group.values()) for group in answers.values()]
    agreements = []
    for dimension in (*DIMENSIONS, "overall_score"):
        scores = ([_score(annotation, dimension) for annotation in group] for group in judged)
        units = [Unit(tuple(score for score in group if score is not None)) for group in scores]
        agreements.append(
            ScoreAgreement(dimension, krippendorff_alpha(units, "interval"), krippendorff_alpha(units, "ordinal"))
        )
    return tuple(agreements)


def _score(annotation: AnswerQualityAnnotation, dimension: str) -> float | None:
    if dimension == "overall_score":
        return annotation.overall_score
    score: float = getattr(annotation.quality_scores, dimension)
    return score


def _by_query(truth: GroundTruth) -> dict[str, dict[str, CitationAnnotation]]:
    queries: defaultdict[str, dict[str, CitationAnnotation]] = defaultdict(dict)
    for annotation in truth.citation_annotations:
        known = queries[annotation.query_id].setdefault(annotation.annotator_id, annotation)
        if known is not annotation:
            raise _duplicate(truth, annotation, known)
    return queries


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


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)


def _verdict(jaccard: float, rules: AgreementRules) -> Verdict:
    value = round(jaccard, PLACES)
    if value > rules.target:
        return "meets_target"
    return "recalibrate" if value < rules.recalibrate_below else "below_target"


def _ranked(values: Iterable[tuple[tuple[str, ...], float]]) -> tuple[PairAgreement, ...]:
    grouped: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for annotators, value in values:
        grouped[annotators].append(value)
    ranked = [PairAgreement(annotators, _mean(own), len(own)) for annotators, own in grouped.items()]
    return tuple(sorted(ranked, key=lambda pair: (pair.jaccard, pair.annotators)))
