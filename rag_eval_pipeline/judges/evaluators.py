"""Evaluators of the evaluation data models, run on judged answers: records, a batch, and its statistics.

`length` counts words, `factual_accuracy` takes the claims of the judgement; `quality`, `relevance` and `toxicity` take
the model judge's ratings.
Source: Evaluation Data Models. Where its examples follow from no formula, the definitions are those stated here.
"""

import math
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Self

import pydantic
import regex

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.formats.evaluations import (
    BatchMetadata,
    BatchStatus,
    Evaluation,
    EvaluationBatch,
    EvaluationConfig,
    EvaluationStatus,
    batch_status,
    new_evaluation_id,
    read_evaluation,
)
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.judges.judgement import RATING_FAILED, Case, Claim, Judgement
from rag_eval_pipeline.metrics.performance import latency_stats
from rag_eval_pipeline.text.folding import FILLER, mask_citations, plain
from rag_eval_pipeline.text.refusals import find_refusal
from rag_eval_pipeline.text.sentences import pieces
from rag_eval_pipeline.text.tokens import CHARACTER, RUN

SUFFIX = ".evaluations.json"
CONTEXTS = "retrieved contexts"  # a claim's source: passages reach judges without their documents
CONTENT_WARNING = 0.5  # score of a toxicity category from which on it is a content warning
RANGE_END_SCORE = 0.5  # of a length at the end of the expected range, if an optimum is stated
HIGH_CONFIDENCE = 0.8  # from here up
MEDIUM_CONFIDENCE = 0.5
MIN_EVENTS = 3  # of a correlation; two points correlate perfectly, whatever they are
LOWER_IS_BETTER = frozenset({"toxicity"})
_WORD = regex.compile(rf"{CHARACTER}|{RUN}(?:['’.,-]{RUN})*+")  # 1,000 and well-known count once
_CITATION_GAP = re.compile(rf"[ \t]*{FILLER}+")


class Event(NamedTuple):
    """One answered question under the id that evaluations name as their target."""

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
    """The evaluator does not apply to this event; the message is the reason."""


class _FailedError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Evaluator(NamedTuple):
    """One evaluator; `evaluate` returns the fields of its evaluation.

    What is read from a judgement states no duration: the judge's time and cost are those of all that it judged.
    """

    version: str
    options: type[Model]
    evaluate: Callable[[Event, Any], Mapping[str, Any]]
    reads_judgement: bool = True


def length_score(count: int, options: LengthOptions) -> float:
    """Return the score of a number of words, in [0, 1].

    It is 1 within the expected range; with `optimal_words` it falls evenly from 1 there to 0.5 at the range's ends.
    Outside it is the ratio of the length to the nearer end (its inverse above), halved if an optimum is stated.
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
        "explanation": f"{counted(count, 'word')}, expected {expected}: {verdict.replace('_', ' ')}",
        "confidence": 1.0,  # counted, not estimated
        "character_count": len(text),
        "word_count": count,
        "sentence_count": len(_sentences(event)),
        "expected_length_range": options.model_dump(exclude_none=True),
        "length_appropriateness": verdict,
    }


def _evaluate_factual_accuracy(event: Event, options: NoOptions) -> Mapping[str, Any]:
    """Score the share of verified claims among those on whose support the judge has a verdict."""
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
        "metadata": _metadata(judgement),
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
    fields, dimensions = _rating(event, "quality")
    low = min(sorted(dimensions), key=dimensions.__getitem__)
    return fields | {"explanation": f"lowest: {low} {dimensions[low]:.2f}", "dimensions": dimensions}


def _evaluate_relevance(event: Event, options: NoOptions) -> Mapping[str, Any]:
    fields, dimensions = _rating(event, "relevance")
    explanation = ", ".join(f"{name} {value:.2f}" for name, value in dimensions.items())
    return fields | dimensions | {"explanation": explanation}


def _evaluate_toxicity(event: Event, options: NoOptions) -> Mapping[str, Any]:
    fields, categories = _rating(event, "toxicity")
    warnings = [name for name, value in categories.items() if value >= CONTENT_WARNING]
    return fields | {
        "explanation": ", ".join(warnings) or "no category at 0.5 or above",
        "toxicity_categories": categories,
        "overall_toxicity": fields["score"],
        "content_warnings": warnings,
    }


EVALUATORS: Mapping[str, Evaluator] = {
    "quality": Evaluator("2.0.0", NoOptions, _evaluate_quality),
    "factual_accuracy": Evaluator("1.1.0", NoOptions, _evaluate_factual_accuracy),
    "toxicity": Evaluator("2.0.0", NoOptions, _evaluate_toxicity),
    "relevance": Evaluator("2.0.0", NoOptions, _evaluate_relevance),
    "length": Evaluator("1.1.0", LengthOptions, _evaluate_length, reads_judgement=False),
}


def _rating(event: Event, name: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the judge's rating and model as fields of an evaluation, and the rating's dimensions."""
    judgement = event.judgement
    if judgement is not None:
        _require_completed(judgement)
        if f"{RATING_FAILED}:{name}" in judgement.flags:
            raise _FailedError(RATING_FAILED, f"the judge's rating of {name} could not be read")
        dimensions = {
            key.partition("/")[2]: value for key, value in judgement.ratings.items() if key.startswith(f"{name}/")
        }
        if name in judgement.ratings and dimensions:
            return {"score": judgement.ratings[name], "metadata": _metadata(judgement)}, dimensions
    raise _SkippedError(f"needs the rating {name} of a model judge: `ratings` of the judge's settings")


def _metadata(judgement: Judgement) -> dict[str, Any] | None:
    return {"evaluator_model": judgement.model} if judgement.model else None


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
) -> EvaluationBatch:
    """Run evaluators on events; a failure is an evaluation with an error.

    Raises:
        InputError: `unknown_evaluator`, or `bad_format` for an option.
    """
    for name in (*config.evaluators, *config.evaluator_configs):
        if name not in EVALUATORS:
            raise InputError(
                "unknown_evaluator", "evaluators", f"one of {', '.join(EVALUATORS)}", found=name,
                hint="Custom metrics belong in `custom_metrics`.",
            )  # fmt: skip
    if unused := sorted(config.evaluator_configs.keys() - set(config.evaluators)):
        raise InputError("unknown_evaluator", "evaluator_configs", "an evaluator that is run", found=unused[0])
    options = {name: _options(name, config) for name in config.evaluators}
    started = time.perf_counter()
    evaluations = tuple(_evaluate(event, name, options[name], now) for event in events for name in config.evaluators)
    metadata = {
        "batch_size": len(evaluations),
        "created_at": now,
        "evaluator_versions": {name: EVALUATORS[name].version for name in config.evaluators},
        "processing_time_ms": (time.perf_counter() - started) * 1000,
        "evaluation_performance": evaluation_performance(evaluations),
        "evaluation_quality": evaluation_quality(evaluations),
        "summary_method": "simple_average",
        "summary_scores": event_summaries(evaluations),
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
        raise bad_format(f"evaluator_configs of {name}", error, EVALUATORS[name].options) from error


def _evaluate(event: Event, name: str, options: Model, now: datetime) -> Evaluation:
    evaluator = EVALUATORS[name]
    started = time.perf_counter()
    stated: dict[str, Any] = {
        "evaluation_id": new_evaluation_id(),
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
    duration = {} if evaluator.reads_judgement else {"duration_ms": (time.perf_counter() - started) * 1000}
    criteria = {"criteria": options.model_dump(mode="json") or None}
    return read_evaluation({**criteria, **fields, **stated, **duration, "status": EvaluationStatus.COMPLETED})


# --- statistics of a batch


def goodness(name: str, score: float) -> float:
    """Return an evaluator's score in [0, 1], higher being better; toxicity 0.05 is 0.95."""
    return 1 - score if name in LOWER_IS_BETTER else score


def event_summaries(evaluations: Iterable[Evaluation]) -> dict[str, float | None]:
    """Return the mean of each event's completed scores, higher being better; None for an event without any."""
    scores: dict[str, list[float]] = {}
    for one in evaluations:
        known = scores.setdefault(one.target_event_id, [])
        if one.status is EvaluationStatus.COMPLETED and one.score is not None:
            known.append(goodness(one.evaluator_name, float(one.score)))
    return {event: math.fsum(known) / len(known) if known else None for event, known in scores.items()}


def evaluation_performance(evaluations: Sequence[Evaluation]) -> dict[str, float | None]:
    """Return counts, times and costs; what nothing was stated for is None.

    `success_rate` is completed / (completed + failed). Times are of completed evaluations, costs of failed ones too.
    """
    states = Counter(evaluation.status for evaluation in evaluations)
    done = [e for e in evaluations if e.status is EvaluationStatus.COMPLETED]
    ended = [e for e in evaluations if e.status in (EvaluationStatus.COMPLETED, EvaluationStatus.FAILED)]
    durations = [e.duration_ms for e in done if e.duration_ms is not None]
    costs = [e.cost_usd for e in ended if e.cost_usd is not None]
    latency = latency_stats(durations)
    return {
        "total_evaluations": len(evaluations),
        "successful_evaluations": len(done),
        "failed_evaluations": states[EvaluationStatus.FAILED],
        "skipped_evaluations": states[EvaluationStatus.SKIPPED],
        "pending_evaluations": states[EvaluationStatus.PENDING],
        "success_rate": len(done) / len(ended) if ended else None,
        "average_duration_ms": latency.mean,
        "p95_duration_ms": latency.p95,
        "total_cost_usd": math.fsum(costs) if costs else None,
        "n_without_duration": len(done) - len(durations),
        "n_without_cost": len(ended) - len(costs),
    }


def evaluation_quality(evaluations: Iterable[Evaluation]) -> dict[str, Any]:
    """Return agreement, correlation and confidence of completed evaluations.

    `evaluator_agreement` is the mean over pairs of evaluators of the mean over their common events of 1 - |difference|
    of the scores, higher being better; None if no two evaluators share an event. `confidence_distribution` has the
    shares of high (0.8 and above), medium (0.5 and above) and low.
    """
    completed = [e for e in evaluations if e.status is EvaluationStatus.COMPLETED]
    scores: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for one in completed:
        if one.score is not None:
            scores[one.evaluator_name][one.target_event_id] = goodness(one.evaluator_name, float(one.score))
    common = {
        f"{one}_vs_{other}": [
            (scores[one][event], scores[other][event]) for event in scores[one].keys() & scores[other]
        ]
        for one, other in combinations(sorted(scores), 2)
    }
    agreements = [statistics.fmean(1 - abs(a - b) for a, b in pairs) for pairs in common.values() if pairs]
    confidences = [e.confidence for e in completed if e.confidence is not None]
    names = ("low_confidence", "medium_confidence", "high_confidence")
    bands = Counter(names[(one >= MEDIUM_CONFIDENCE) + (one >= HIGH_CONFIDENCE)] for one in confidences)
    return {
        "evaluator_agreement": statistics.fmean(agreements) if agreements else None,
        "inter_evaluator_correlation": {name: _correlation(pairs) for name, pairs in common.items() if pairs},
        "confidence_distribution": {name: bands[name] / len(confidences) for name in reversed(names)}
        if confidences
        else None,
        "n_without_confidence": len(completed) - len(confidences),
    }


def _correlation(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return Pearson's r of two evaluators over the events that both scored."""
    value, reason = None, None
    one, other = zip(*pairs, strict=True)
    if len(pairs) < MIN_EVENTS:
        reason = "too_few_events"
    elif len(set(one)) == 1 or len(set(other)) == 1:
        reason = "constant"
    else:
        value = statistics.correlation(one, other)
    return {"value": value, "n": len(pairs), "reason": reason}
