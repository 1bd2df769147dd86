"""Evaluations by the evaluation data models: of answers, and those that compare systems, people and nights.

`length` counts words. `factual_accuracy` takes the claims from the judgement; `quality`, `relevance` and `toxicity`
take the ratings of the model judge, which has to be asked for them (`ratings` of its settings). Metrics of your own are
`custom_metrics` of the evaluation settings.
Source: Evaluation Data Models. Where its examples follow from no formula, the definitions are those stated here.
"""

import math
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import pydantic
import regex
from scipy.stats import t as student_t

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    BatchMetadata,
    BatchStatus,
    ComparisonData,
    ComparisonEvaluation,
    Evaluation,
    EvaluationBatch,
    EvaluationConfig,
    EvaluationStatus,
    HumanEvaluation,
    HumanModelEvaluation,
    ModelEvaluation,
    MultiEvaluationResult,
    SummaryMethod,
    TemporalEvaluation,
    Trend,
    batch_status,
    new_evaluation_id,
    read_evaluation,
)
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.judges.judgement import Case, Claim, Judgement
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, SEED, Interval, summarise
from rag_eval_pipeline.metrics.performance import latency_stats
from rag_eval_pipeline.text.normalise import FILLER, mask_citations, plain
from rag_eval_pipeline.text.refusals import find_refusal
from rag_eval_pipeline.text.sentences import pieces
from rag_eval_pipeline.text.tokens import CHARACTER, RUN

Value = bool | int | float | str
IdMaker = Callable[[], str]
Band = Literal["high_confidence", "medium_confidence", "low_confidence"]

SUFFIX = ".evaluations.json"
CONTEXTS = "retrieved contexts"  # a claim's source: passages reach judges without their documents
VERSION = "1.0.0"  # of the comparing evaluations
CONTENT_WARNING = 0.5  # score of a toxicity category from which on it is a content warning
RANGE_END_SCORE = 0.5  # of a length at the end of the expected range, if an optimum is stated
HIGH_CONFIDENCE = 0.8  # from here up
MEDIUM_CONFIDENCE = 0.5
MIN_EVENTS = 3  # of a correlation; two points correlate perfectly, whatever they are
TIE = 1e-9  # scores nearer than this are equal: sums of floats differ in their last digits
EVEN = 0.5  # neither variant is preferred
_WORD = regex.compile(rf"{CHARACTER}|{RUN}(?:['’.,-]{RUN})*+")  # 1,000 and well-known count once
_CITATION_GAP = re.compile(rf"[ \t]*{FILLER}+")


# --- scales


@dataclass(frozen=True, slots=True)
class Scale:
    """What an evaluator's scores mean.

    Args:
        low: Least possible score.
        high: Greatest possible score.
        better: Which of the two is good.
        categories: The number that each text stands for, in [low, high]; a text without one is an error.
    """

    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    categories: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"expected low < high, found {self.low}, {self.high}")


SHARE = Scale()
SCALES: Mapping[str, Scale] = {
    "quality": SHARE,
    "factual_accuracy": SHARE,
    "relevance": SHARE,
    "length": SHARE,
    "toxicity": Scale(better="lower"),
}


def normalised(score: Value, scale: Scale | None, evaluator_name: str) -> float:
    """Return a score in [0, 1], higher being better; toxicity 0.05 is 0.95.

    Args:
        score: True is 1 and false 0, whatever the range.
        scale: May be None for true and false only.
        evaluator_name: For messages.

    Raises:
        InputError: `no_scale`, `unknown_category`, `score_out_of_range`.
    """
    if isinstance(score, bool):
        return float(score) if scale is None or scale.better == "higher" else float(not score)
    if scale is None:
        raise InputError("no_scale", evaluator_name, "a declared range and direction for its scores", found=score)
    if isinstance(score, str):
        if scale.categories is None or score not in scale.categories:
            known = ", ".join(scale.categories or ()) or "none declared"
            raise InputError("unknown_category", evaluator_name, f"a declared category ({known})", found=score)
        score = scale.categories[score]
    if not scale.low <= score <= scale.high:
        raise InputError(
            "score_out_of_range", evaluator_name, f"a score from {scale.low:g} to {scale.high:g}", found=score
        )
    share = (score - scale.low) / (scale.high - scale.low)
    return share if scale.better == "higher" else 1 - share


# --- evaluators


class Event(NamedTuple):
    """One answered question: what evaluations name as their target, the answer, and its judgement if there is one."""

    event_id: str
    case: Case
    judgement: Judgement | None = None


class LengthOptions(Model):
    """How many words are expected."""

    min_words: int = pydantic.Field(1, ge=0, description="At least.")
    max_words: int = pydantic.Field(200, ge=1, description="At most.")
    optimal_words: int | None = pydantic.Field(None, ge=0, description="At best; none by default.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        best = self.min_words if self.optimal_words is None else self.optimal_words
        if not self.min_words <= best <= self.max_words:
            raise ValueError("min_words <= optimal_words <= max_words")
        return self


class NoOptions(Model):
    """Options of an evaluator that has none."""


class _SkippedError(Exception):
    """The evaluator has nothing to say of this event; the text is the reason."""


class _FailedError(Exception):
    """The evaluation could not be made."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Evaluator(NamedTuple):
    """One evaluator.

    Args:
        version: Semantic; raised whenever the same event may be scored differently.
        options: Model of its part of `evaluator_configs`.
        evaluate: Event and options to the fields of its evaluation; raises `_SkippedError` or `_FailedError`.
    """

    version: str
    options: type[Model]
    evaluate: Callable[[Event, Any], Mapping[str, Any]]


def length_score(count: int, options: LengthOptions) -> float:
    """Return the score of a number of words, in [0, 1].

    It is 1 within the expected range; with `optimal_words` it falls evenly from 1 there to 0.5 at the range's ends.
    Outside it is the ratio of the length to the nearer end (its inverse above), halved if an optimum is stated, so that
    it has no jump.
    """
    low, high, best = options.min_words, options.max_words, options.optimal_words
    edge = 1.0 if best is None else RANGE_END_SCORE
    if count < low:
        return edge * count / low
    if count > high:
        return edge * high / count
    if best is None or count == best:
        return 1.0
    width = best - low if count < best else high - best
    return 1.0 - (1.0 - RANGE_END_SCORE) * abs(count - best) / width


def _evaluate_length(event: Event, options: LengthOptions) -> Mapping[str, Any]:
    text = plain(event.case.answer, _marks(event)).strip()
    count = len(_WORD.findall(text))
    verdict = "too_short" if count < options.min_words else "too_long" if count > options.max_words else "appropriate"
    expected = f"{options.min_words} to {options.max_words}"
    return {
        "score": length_score(count, options),
        "explanation": f"{count} words, expected {expected}: {verdict.replace('_', ' ')}",
        "confidence": 1.0,  # counted, not estimated
        "character_count": len(text),
        "word_count": count,
        "sentence_count": len(_sentences(event)),
        "expected_length_range": options.model_dump(exclude_none=True),
        "length_appropriateness": verdict,
    }


def _evaluate_factual_accuracy(event: Event, options: NoOptions) -> Mapping[str, Any]:
    """Share of verified claims among those checked; a claim without a judge's word on its support is not checked."""
    judgement = event.judgement
    if judgement is None:
        is_refusal = find_refusal(plain(event.case.answer, _marks(event))).is_refusal
        unchecked = [] if is_refusal else [{"claim": sentence} for sentence in _sentences(event)]
        return {"factual_claims": unchecked, "explanation": "no judge: nothing was checked"}
    _require_completed(judgement)
    claims = [_factual_claim(event, claim) for claim in judgement.claims]
    checked = [claim for claim in claims if claim["verified"] is not None]
    verified = sum(claim["verified"] for claim in checked)
    supports = [support.outcome == "supported" for support in judgement.citation_support if support is not None]
    if not claims:
        explanation = "the answer claims nothing"
    elif not checked:
        explanation = f"none of {len(claims)} claims checked"
    else:
        left = f", {len(claims) - len(checked)} not checked" if len(claims) > len(checked) else ""
        explanation = f"{verified} of {len(checked)} checked claims supported{left}"
    fields: dict[str, Any] = {
        "factual_claims": claims,
        "citation_accuracy": sum(supports) / len(supports) if supports else None,
        "explanation": explanation,
        "metadata": {"evaluator_model": judgement.model} if judgement.model else None,
    }
    if checked:
        fields["score"] = verified / len(checked)
        fields["confidence"] = sum(claim["confidence"] for claim in checked) / len(checked)
    return fields


def _factual_claim(event: Event, claim: Claim) -> dict[str, Any]:
    supports = [support for support in (claim.by_citations, claim.by_contexts) if support is not None]
    verified = any(support.outcome == "supported" for support in supports) if supports else None
    strongest = max((support.score for support in supports), default=None)
    cited = [event.case.citations[number].document for number in claim.citations]
    sources = (cited if claim.by_citations is not None else []) + ([CONTEXTS] if claim.by_contexts is not None else [])
    return {
        "claim": plain(event.case.answer[claim.start : claim.end]).strip(),
        "verified": verified,
        "confidence": None if strongest is None else strongest if verified else 1 - strongest,
        "sources": list(dict.fromkeys(sources)),
    }


def _evaluate_quality(event: Event, options: NoOptions) -> Mapping[str, Any]:
    score, dimensions, metadata = _rating(event, "quality")
    low = min(sorted(dimensions), key=dimensions.__getitem__)
    return {
        "score": score,
        "explanation": f"lowest: {low} {dimensions[low]:.2f}",
        "dimensions": dimensions,
        "metadata": metadata,
    }


def _evaluate_relevance(event: Event, options: NoOptions) -> Mapping[str, Any]:
    score, dimensions, metadata = _rating(event, "relevance")
    explanation = ", ".join(f"{name} {value:.2f}" for name, value in dimensions.items())
    return {"score": score, "explanation": explanation, "metadata": metadata, **dimensions}


def _evaluate_toxicity(event: Event, options: NoOptions) -> Mapping[str, Any]:
    score, categories, metadata = _rating(event, "toxicity")
    warnings = [name for name, value in categories.items() if value >= CONTENT_WARNING]
    return {
        "score": score,
        "explanation": ", ".join(warnings) or "no category at 0.5 or above",
        "toxicity_categories": categories,
        "overall_toxicity": score,
        "content_warnings": warnings,
        "metadata": metadata,
    }


EVALUATORS: Mapping[str, Evaluator] = {
    "quality": Evaluator("2.0.0", NoOptions, _evaluate_quality),
    "factual_accuracy": Evaluator("1.1.0", NoOptions, _evaluate_factual_accuracy),
    "toxicity": Evaluator("2.0.0", NoOptions, _evaluate_toxicity),
    "relevance": Evaluator("2.0.0", NoOptions, _evaluate_relevance),
    "length": Evaluator("1.1.0", LengthOptions, _evaluate_length),
}


def _rating(event: Event, name: str) -> tuple[float, dict[str, float], dict[str, Any] | None]:
    """Return the judge's rating, its dimensions, and metadata that name the model."""
    judgement = event.judgement
    if judgement is not None:
        _require_completed(judgement)
        if f"rating_failed:{name}" in judgement.flags:
            raise _FailedError("rating_failed", f"the judge's rating of {name} could not be read")
        dimensions = {
            key.partition("/")[2]: value for key, value in judgement.ratings.items() if key.startswith(f"{name}/")
        }
        if name in judgement.ratings and dimensions:
            metadata = {"evaluator_model": judgement.model} if judgement.model else None
            return judgement.ratings[name], dimensions, metadata
    raise _SkippedError(f"needs the rating {name} of a model judge: `ratings` of the judge's settings")


def _require_completed(judgement: Judgement) -> None:
    if judgement.status != "completed":
        raise _FailedError(judgement.error_code or "judge_failed", judgement.error or "the judge failed")


def _marks(event: Event) -> list[tuple[int, int]]:
    return [(citation.marker_start, citation.marker_end) for citation in event.case.citations]


def _sentences(event: Event) -> list[str]:
    masked = mask_citations(event.case.answer, _marks(event))
    found = (_CITATION_GAP.sub("", masked[piece.start : piece.end]).strip() for piece in pieces(masked))
    return [sentence for sentence in found if sentence]


# --- batches


def evaluate_events(
    events: Iterable[Event],
    config: EvaluationConfig,
    *,
    evaluation_id: str,
    now: datetime,
    new_id: IdMaker = new_evaluation_id,
) -> EvaluationBatch:
    """Run evaluators on events; a failure is an evaluation with an error, and the others go on.

    The evaluators ask no server (the judge has done that), so `parallel_execution`, `timeout_ms` and `retry_config` of
    the configuration have no effect.

    Args:
        events: Of one evaluation.
        config: Which evaluators, with which options.
        evaluation_id: Id of the batch.
        now: Aware; the time of every evaluation.
        new_id: Called once an evaluation, in the order of the events and then of the configuration.

    Raises:
        InputError: `unknown_evaluator`, or `bad_format` for an option.
    """
    for name in (*config.evaluators, *config.evaluator_configs):
        if name not in EVALUATORS:
            raise InputError(
                "unknown_evaluator", "evaluators", f"one of {', '.join(EVALUATORS)}", found=name,
                hint="Metrics of your own belong into `custom_metrics`.",
            )  # fmt: skip
    if unused := sorted(config.evaluator_configs.keys() - set(config.evaluators)):
        raise InputError("unknown_evaluator", "evaluator_configs", "an evaluator that is run", found=unused[0])
    options = {name: _options(name, config) for name in config.evaluators}
    started = time.perf_counter()
    evaluations = tuple(
        _evaluate(event, name, options[name], new_id(), now) for event in events for name in config.evaluators
    )
    results = summarise_events(evaluations)
    metadata = {
        "batch_size": len(evaluations),
        "created_at": now,
        "evaluator_versions": {name: EVALUATORS[name].version for name in config.evaluators},
        "processing_time_ms": (time.perf_counter() - started) * 1000,
        **_batch_statistics(evaluations),
        "summary_method": "simple_average",
        "summary_scores": {result.target_event_id: result.summary_score for result in results},
    }
    return EvaluationBatch(
        batch_id=evaluation_id,
        evaluations=evaluations,
        batch_metadata=BatchMetadata.model_validate(metadata),
        status=batch_status(one.status for one in evaluations) if evaluations else BatchStatus.COMPLETED,
    )


def evaluations_path(folder: Path, evaluation_id: str) -> Path:
    """Return `<evaluation_id>.evaluations.json` in a folder."""
    return folder / f"{evaluation_id}{SUFFIX}"


def _options(name: str, config: EvaluationConfig) -> Model:
    try:
        return EVALUATORS[name].options.model_validate(config.evaluator_configs.get(name, {}))
    except pydantic.ValidationError as error:
        raise bad_format(f"evaluator_configs of {name}", error) from error


def _evaluate(event: Event, name: str, options: Model, evaluation_id: str, now: datetime) -> Evaluation:
    evaluator = EVALUATORS[name]
    started = time.perf_counter()
    stated: dict[str, Any] = {
        "evaluation_id": evaluation_id,
        "target_event_id": event.event_id,
        "evaluator_name": name,
        "evaluator_version": evaluator.version,
        "timestamp": now,
    }
    if not event.case.answer.strip():
        return Evaluation(
            **stated, status=EvaluationStatus.SKIPPED, explanation="needs answer, which the event does not have"
        )
    try:
        fields = evaluator.evaluate(event, options)
    except _SkippedError as reason:
        return Evaluation(**stated, status=EvaluationStatus.SKIPPED, explanation=str(reason))
    except _FailedError as error:
        failure = {
            "type": "JudgeFailed", "message": str(error), "code": error.code, "context": {"evaluator": name}
        }  # fmt: skip
        return Evaluation(**stated, status=EvaluationStatus.FAILED, error=failure)
    duration = {"duration_ms": (time.perf_counter() - started) * 1000}
    criteria = {"criteria": options.model_dump(mode="json") or None}
    return read_evaluation({**criteria, **fields, **stated, **duration, "status": EvaluationStatus.COMPLETED})


# --- summaries of an event's evaluations


class SummaryScore(NamedTuple):
    """One score for one event.

    Args:
        value: In [0, 1], higher is better; None if no evaluation has a score.
        reason: Why there is none: `nothing_completed`, `no_weight` (all that completed weigh nothing).
        weights: Of the evaluators behind the value; they add up to 1. Of `minimum`, equal.
        coverage: Weight of the completed evaluators / weight of all; None without any.
        left_out: Evaluator -> its status (`failed`, `skipped`, `pending`), or `no_score`.
    """

    value: float | None
    reason: str | None
    weights: Mapping[str, float]
    coverage: float | None
    left_out: Mapping[str, str]


def summary_score(
    evaluations: Sequence[Evaluation],
    method: SummaryMethod,
    *,
    weights: Mapping[str, float] | None = None,
    scales: Mapping[str, Scale] = SCALES,
) -> SummaryScore:
    """Return the summary of one event's evaluations; those that were not completed do not count, and are named.

    Args:
        evaluations: One an evaluator.
        method: `weighted_average`, `simple_average` or `minimum`; what is `custom` is its owner's to compute.
        weights: By evaluator's name, 0 or more; every evaluator has one. Only for `weighted_average`.
        scales: By evaluator's name.

    Raises:
        InputError: `duplicate_evaluator`, `missing_weight`, `bad_weight`, `unknown_method`; those of `normalised`.

    Source: Evaluation Data Models, MultiEvaluationResult; its own summary (0.89) follows from no reading of its
    numbers.
    """
    names = [evaluation.evaluator_name for evaluation in evaluations]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError("duplicate_evaluator", "the evaluations", "each evaluator once", found=repeated)
    if method == "custom":
        raise InputError(
            "unknown_method", "summary_method", "weighted_average, simple_average or minimum", found=method
        )
    weight = _weights(names, weights) if method == "weighted_average" else dict.fromkeys(names, 1.0)
    scores: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for evaluation in evaluations:
        name = evaluation.evaluator_name
        if evaluation.status is not EvaluationStatus.COMPLETED:
            left_out[name] = str(evaluation.status)
        elif evaluation.score is None:
            left_out[name] = "no_score"
        else:
            scores[name] = normalised(evaluation.score, scales.get(name), name)
    whole, part = math.fsum(weight.values()), math.fsum(weight[name] for name in scores)
    coverage = part / whole if whole else None
    if not part:
        return SummaryScore(None, "no_weight" if scores else "nothing_completed", {}, coverage, left_out)
    if method == "minimum":
        value = min(scores.values())
    else:
        value = math.fsum(weight[name] * score for name, score in scores.items()) / part
    return SummaryScore(value, None, {name: weight[name] / part for name in scores}, coverage, left_out)


def summarise_events(
    evaluations: Iterable[Evaluation],
    method: SummaryMethod = "simple_average",
    *,
    weights: Mapping[str, float] | None = None,
    scales: Mapping[str, Scale] = SCALES,
) -> tuple[MultiEvaluationResult, ...]:
    """Return one result an event, in order, with its summary score.

    Evaluators without a declared scale have no part in the summary, nor have evaluations without a score. Errors and
    arguments are those of `summary_score`.
    """
    by_event: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        by_event.setdefault(evaluation.target_event_id, []).append(evaluation)
    results = []
    for event_id, own in by_event.items():
        compared = [one for one in own if one.evaluator_name in scales or isinstance(one.score, bool)]
        summary = summary_score(compared, method, weights=weights, scales=scales)
        results.append(
            MultiEvaluationResult(
                target_event_id=event_id,
                evaluations=tuple(own),
                summary_score=summary.value,
                summary_method=method,
                weights=dict(summary.weights) if method == "weighted_average" and summary.weights else None,
            )
        )
    return tuple(results)


def _weights(names: Iterable[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    own = {}
    for name in names:
        if weights is None or name not in weights:
            raise InputError("missing_weight", "weights", f"a weight of {name!r}", hint="0 leaves an evaluator out.")
        if not 0 <= weights[name] < math.inf:
            raise InputError("bad_weight", "weights", "a number of 0 or more", field=name, found=weights[name])
        own[name] = weights[name]
    return own


# --- statistics of many evaluations


@dataclass(frozen=True, slots=True)
class EvaluationPerformance:
    """How evaluating went; what nothing was reported for is None, and sums say how many parts they lack.

    Args:
        success_rate: Completed / (completed + failed); None without either.
        average_duration_ms: Of completed ones that report it.
        p95_duration_ms: The same, interpolated linearly.
        total_cost_usd: Sum of the costs reported, of failed ones too.
        n_without_duration: Completed evaluations that report none.
        n_without_cost: Completed or failed evaluations whose cost is missing from the sum.
    """

    total_evaluations: int
    successful_evaluations: int
    failed_evaluations: int
    skipped_evaluations: int
    pending_evaluations: int
    success_rate: float | None
    average_duration_ms: float | None
    p95_duration_ms: float | None
    total_cost_usd: float | None
    n_without_duration: int
    n_without_cost: int


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r of two evaluators over the events that both scored.

    Args:
        value: In [-1, 1]; None with a reason.
        n: Events.
        reason: `too_few_events` (below three), `constant` (one of them always gave the same score).
    """

    value: float | None
    n: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class EvaluationQuality:
    """How far the evaluators agree, and how sure they are.

    Args:
        evaluator_agreement: Mean over pairs of evaluators of the mean over their common events of 1 - |difference| of
            the normalised scores, in [0, 1]; None if no two evaluators share an event.
        inter_evaluator_correlation: By `a_vs_b`, names sorted.
        confidence_distribution: Shares of high (0.8 and above), medium (0.5 and above) and low; None if no evaluation
            states its confidence.
        n_without_confidence: Completed evaluations that do not.
        n_without_scale: Scores that are not compared, because their evaluator has no declared scale.
    """

    evaluator_agreement: float | None
    inter_evaluator_correlation: Mapping[str, Correlation]
    confidence_distribution: Mapping[Band, float] | None
    n_without_confidence: int
    n_without_scale: int


def evaluation_performance(evaluations: Iterable[Evaluation]) -> EvaluationPerformance:
    """Return counts, times and costs."""
    every = list(evaluations)
    states = Counter(evaluation.status for evaluation in every)
    completed, failed = states[EvaluationStatus.COMPLETED], states[EvaluationStatus.FAILED]
    ended = [e for e in every if e.status in (EvaluationStatus.COMPLETED, EvaluationStatus.FAILED)]
    durations = [e.duration_ms for e in every if e.duration_ms is not None and e.status is EvaluationStatus.COMPLETED]
    costs = [e.cost_usd for e in ended if e.cost_usd is not None]
    latency = latency_stats(durations)
    return EvaluationPerformance(
        total_evaluations=len(every),
        successful_evaluations=completed,
        failed_evaluations=failed,
        skipped_evaluations=states[EvaluationStatus.SKIPPED],
        pending_evaluations=states[EvaluationStatus.PENDING],
        success_rate=completed / len(ended) if ended else None,
        average_duration_ms=latency.mean,
        p95_duration_ms=latency.p95,
        total_cost_usd=math.fsum(costs) if costs else None,
        n_without_duration=completed - len(durations),
        n_without_cost=len(ended) - len(costs),
    )


def evaluation_quality(evaluations: Iterable[Evaluation], *, scales: Mapping[str, Scale] = SCALES) -> EvaluationQuality:
    """Return agreement, correlation and confidence of completed evaluations; of repeated ones the mean counts.

    Raises:
        InputError: `unknown_category`, `score_out_of_range`.
    """
    completed = [e for e in evaluations if e.status is EvaluationStatus.COMPLETED]
    scores: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    n_without_scale = 0
    for evaluation in completed:
        scale = scales.get(evaluation.evaluator_name)
        if evaluation.score is None:
            continue
        if scale is None and not isinstance(evaluation.score, bool):
            n_without_scale += 1
            continue
        share = normalised(evaluation.score, scale, evaluation.evaluator_name)
        scores[evaluation.evaluator_name][evaluation.target_event_id].append(share)
    means = {name: {event: statistics.fmean(own) for event, own in events.items()} for name, events in scores.items()}
    common = {
        (one, other): [(means[one][event], means[other][event]) for event in means[one] if event in means[other]]
        for one, other in combinations(sorted(means), 2)
    }
    agreements = [statistics.fmean(1 - abs(a - b) for a, b in pairs) for pairs in common.values() if pairs]
    confidences = [e.confidence for e in completed if e.confidence is not None]
    bands = Counter(confidence_band(confidence) for confidence in confidences)
    names: tuple[Band, ...] = ("high_confidence", "medium_confidence", "low_confidence")
    return EvaluationQuality(
        evaluator_agreement=statistics.fmean(agreements) if agreements else None,
        inter_evaluator_correlation={f"{a}_vs_{b}": _correlation(pairs) for (a, b), pairs in common.items() if pairs},
        confidence_distribution={band: bands[band] / len(confidences) for band in names} if confidences else None,
        n_without_confidence=len(completed) - len(confidences),
        n_without_scale=n_without_scale,
    )


def confidence_band(confidence: float) -> Band:
    """Return high from 0.8, medium from 0.5, else low."""
    if confidence >= HIGH_CONFIDENCE:
        return "high_confidence"
    return "medium_confidence" if confidence >= MEDIUM_CONFIDENCE else "low_confidence"


def _batch_statistics(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    return {
        "evaluation_performance": asdict(evaluation_performance(evaluations)),
        "evaluation_quality": asdict(evaluation_quality(evaluations)),
    }


def _correlation(pairs: Sequence[tuple[float, float]]) -> Correlation:
    if len(pairs) < MIN_EVENTS:
        return Correlation(None, len(pairs), "too_few_events")
    one, other = zip(*pairs, strict=True)
    if len(set(one)) == 1 or len(set(other)) == 1:
        return Correlation(None, len(pairs), "constant")
    return Correlation(statistics.correlation(one, other), len(pairs), None)


# --- evaluations that compare


def compare_systems(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    *,
    variant_a: str,
    variant_b: str,
    now: datetime,
    new_id: IdMaker = new_evaluation_id,
    tie_within: float = TIE,
    seed: int = SEED,
) -> ComparisonEvaluation:
    """Compare two systems question by question: the share of questions on which A scores higher.

    Args:
        a: Question -> score of variant A, higher being better; None if there is none.
        b: The same of variant B.
        variant_a: Names all events of A, such as its evaluation's id.
        variant_b: Of B.
        now: Aware.
        new_id: Called once.
        tie_within: Scores that differ by no more are a tie, half a win for each.
        seed: Of the bootstrap that gives the interval if there are ties; without ties it is Wilson's.

    Raises:
        InputError: `nothing_to_compare` if no question has both scores.

    Source: Evaluation Data Models, Common Evaluation Patterns. The difference is significant if the interval leaves out
    0.5; that is not decided if all comparisons are ties.
    """
    pairs = [(one, other) for name in sorted(a) if (one := a[name]) is not None and (other := b.get(name)) is not None]
    preferences = [EVEN if abs(one - other) <= tie_within else float(one > other) for one, other in pairs]
    summary = summarise(preferences, seed=seed)
    if summary.value is None:
        raise InputError("nothing_to_compare", f"{variant_a} and {variant_b}", "a question that both have a score of")
    interval = summary.confidence_interval
    data = ComparisonData(
        variant_a_event_id=variant_a,
        variant_b_event_id=variant_b,
        preference_score=summary.value,
        confidence_interval=interval,
        sample_size=len(preferences),
        statistical_significance=None if interval is None else not interval.low <= EVEN <= interval.high,
    )
    return ComparisonEvaluation(
        evaluation_id=new_id(),
        target_event_id=variant_a,
        evaluator_name="ab_test_comparison",
        evaluator_version=VERSION,
        score=data.preference_score,
        explanation=f"Variant A preferred in {data.preference_score:.0%} of {data.sample_size} comparisons",
        metadata={"ties": preferences.count(EVEN), "left_out": len(a.keys() | b.keys()) - len(pairs)},
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        comparison_data=data,
    )


def compare_with_human(
    human: HumanEvaluation,
    evaluation: Evaluation,
    *,
    now: datetime,
    new_id: IdMaker = new_evaluation_id,
    scales: Mapping[str, Scale] = SCALES,
) -> HumanModelEvaluation:
    """Compare a person's verdict and an evaluator's on one event: 1 - |difference| / range of the scale.

    Args:
        human: The person's.
        evaluation: The evaluator's; `metadata.evaluator_model` names its model, else it stands by its own name.
        now: Aware.
        new_id: Called once.
        scales: By evaluator's name; without one only true and false can be compared.

    Raises:
        InputError: `no_scale`, `unknown_category`, `score_out_of_range`.
    """
    name = evaluation.evaluator_name
    agreement, discrepancy = None, "one of the two has no score"
    if human.score is not None and evaluation.score is not None:
        scale = scales.get(name)
        if scale is None and isinstance(human.score, bool) and isinstance(evaluation.score, bool):
            scale = SHARE
        difference = normalised(evaluation.score, scale, name) - normalised(human.score, scale, name)
        agreement = 1 - abs(difference)
        how = "more lenient" if difference > 0 else "stricter"
        discrepancy = "none" if abs(difference) <= TIE else (
            f"{name} is {abs(difference):.2f} of its scale {how} than the person"
        )  # fmt: skip
    model = (evaluation.metadata or {}).get("evaluator_model")
    return HumanModelEvaluation(
        evaluation_id=new_id(),
        target_event_id=evaluation.target_event_id,
        evaluator_name="human_ai_comparison",
        evaluator_version=VERSION,
        score=agreement,
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        human_evaluation=human,
        ai_evaluation=ModelEvaluation(
            model=model if isinstance(model, str) and model else name,
            score=evaluation.score,
            explanation=evaluation.explanation,
        ),
        agreement_score=agreement,
        discrepancy_analysis=discrepancy,
    )


def evaluate_over_time(
    evaluator_name: str,
    scores: Sequence[float],
    *,
    target_event_id: str,
    now: datetime,
    new_id: IdMaker = new_evaluation_id,
    scale: Scale = SHARE,
) -> TemporalEvaluation:
    """Describe the trend of one evaluator's or metric's scores over several nights.

    Args:
        evaluator_name: Whose scores.
        scores: One a night, oldest first, the current one last.
        target_event_id: What was evaluated every night, such as a question's id or `<benchmark>|<system>`.
        now: Aware.
        new_id: Called once.
        scale: Range, and which end is better.

    Raises:
        InputError: `no_scores`, `score_out_of_range`.
    """
    if not scores:
        raise InputError("no_scores", evaluator_name, "one score or more")
    for score in scores:
        normalised(score, scale, evaluator_name)
    found = development(scores, is_lower_better=scale.better == "lower")
    return TemporalEvaluation(
        evaluation_id=new_id(),
        target_event_id=target_event_id,
        evaluator_name=f"temporal_{evaluator_name}",
        evaluator_version=VERSION,
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        current_score=scores[-1],
        historical_scores=tuple(scores),
        trend=found.trend,
        change_rate=found.change_rate,
        stability_score=found.stability_score,
    )


class Development(NamedTuple):
    """Scores over runs.

    Args:
        trend: By the interval of the slope: `improving` or `declining` if it leaves out 0, `stable` if all scores are
            equal, else `no_clear_trend`. None below three scores.
        change_rate: Slope of the least-squares line, score a run; None below two.
        slope_interval: 95 %, Student's t with n - 2 degrees of freedom; None below three.
        stability_score: 1 - sample standard deviation / mean: 1 if nothing changes, negative if the spread exceeds the
            mean; None below two scores or if the mean is not above 0.
    """

    trend: Trend | None
    change_rate: float | None
    slope_interval: Interval | None
    stability_score: float | None


def development(scores: Sequence[float], *, is_lower_better: bool = False) -> Development:
    """Return trend, rate and stability of scores, oldest first; the rate does not depend on which end is better."""
    n = len(scores)
    if n < 2:
        return Development(None, None, None, None)
    mean = math.fsum(scores) / n
    if len(set(scores)) == 1:
        interval = Interval(0.0, 0.0) if n > 2 else None
        return Development("stable" if n > 2 else None, 0.0, interval, 1.0 if mean > 0 else None)
    squares = math.fsum((score - mean) ** 2 for score in scores)
    stability = 1 - math.sqrt(squares / (n - 1)) / mean if mean > 0 else None
    middle = (n - 1) / 2
    spread = n * (n * n - 1) / 12  # sum of squared distances of 0, 1, ..., n - 1 from their middle
    slope = math.fsum((run - middle) * score for run, score in enumerate(scores)) / spread
    if n < 3:
        return Development(None, slope, None, stability)
    residuals = math.fsum((score - mean - slope * (run - middle)) ** 2 for run, score in enumerate(scores))
    half = float(student_t.ppf((1 + CONFIDENCE) / 2, n - 2)) * math.sqrt(residuals / (n - 2) / spread)
    interval = Interval(slope - half, slope + half)
    return Development(_trend(interval, is_lower_better), slope, interval, stability)


def _trend(interval: Interval, is_lower_better: bool) -> Trend:
    if interval.low <= 0 <= interval.high:
        return "no_clear_trend"
    return "improving" if (interval.low > 0) != is_lower_better else "declining"
