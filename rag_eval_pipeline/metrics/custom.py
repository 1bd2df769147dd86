"""Custom metrics: code of other packages that joins the built-in metrics.

    from rag_eval_pipeline.metrics.custom import AnsweredQuestion, MetricInfo, QuestionMetric

    def score(question: AnsweredQuestion) -> float | None:
        return min(1.0, 20 / max(1, len(question.text.split())))

    BREVITY = QuestionMetric(
        MetricInfo("brevity", "1 up to 20 words, then less.", "us", ("answer",), ("question",), category="answers"),
        score,
    )

The setting `custom_metrics: [my_package.my_module:BREVITY]` adds it to an evaluation. A `QuestionMetric` scores
questions; a `Family` of `retrieval.measures` is a retrieval measure. Both are found by import path, or by an entry
point of the group `rag_eval_pipeline.metrics`. An exception fails only that metric for that question.
"""

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from typing import Any, NamedTuple, Protocol

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationStatus
from rag_eval_pipeline.metrics.metric_info import MetricInfo as MetricInfo  # for authors of metrics
from rag_eval_pipeline.metrics.metric_info import Range as Range
from rag_eval_pipeline.metrics.spans import Citation

ENTRY_POINT_GROUP = "rag_eval_pipeline.metrics"
MESSAGE_CHARS = 200  # kept of an exception's message


class Passage(NamedTuple):
    """A retrieved passage: file in the corpus, 1-based page, text, and the system's score; None if not given."""

    document: str
    page: int | None
    text: str
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """Everything that a metric can see of a question and its answer.

    Args:
        query_id: The question's id.
        question: Its text.
        accepted_answers: Empty for an impossible question.
        is_impossible: The corpus has no answer.
        relevant_documents: File names.
        gold_citations: Where the gold texts are, in document offsets.
        metadata: The question's, as in the dataset.
        answer: As the system gave it, with citation marks.
        text: The answer without them; "" for an abstention.
        is_abstention: The system declined to answer.
        citations: Places that the answer cites.
        passages: Retrieved, best first.
        latency_ms: From asking to the whole answer; None if it was not measured.
        total_tokens: 0 if the system does not say.
        scores: Those of the built-in metrics of the same category, by key.
    """

    query_id: str
    question: str
    accepted_answers: Sequence[str]
    is_impossible: bool
    relevant_documents: Sequence[str]
    gold_citations: Sequence[Citation]
    metadata: Mapping[str, Any]
    answer: str
    text: str
    is_abstention: bool
    citations: Sequence[Citation]
    passages: Sequence[Passage]
    latency_ms: float | None
    total_tokens: int
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class QuestionMetric:
    """A metric that scores one question at a time.

    Args:
        metric: Its row. `needs` decides which questions it is asked for: accepted_answers, relevant, gold_spans, answer
            and judge leave out the questions without them. `category` decides beside which scores it is shown:
            retrieval, contexts, citations, answers, or claims, where it sees the judge's scores.
        score: Returns a score in the range of the row, an evaluation record with such a score, or None if the metric
            does not apply to the question.
    """

    metric: MetricInfo
    score: Callable[[AnsweredQuestion], float | Evaluation | None]


class CustomMetric(Protocol):
    """What an import path or entry point must name: a `QuestionMetric`, or a `Family` of retrieval measures."""

    @property
    def metric(self) -> MetricInfo:
        """Its row."""


class QuestionScore(NamedTuple):
    """What a custom metric gave for a question; both None if it does not apply."""

    value: float | None
    record: Evaluation | None = None


def score_question(definition: QuestionMetric, question: AnsweredQuestion) -> QuestionScore:
    """Score one question.

    Raises:
        InputError: `metric_raised` for an exception or a failed record, `bad_metric_score` for what is no number of the
            metric's range; both name metric and question.
    """
    info = definition.metric
    place = f"metric {info.name}, question {question.query_id}"
    try:
        score: Any = definition.score(question)
    except Exception as error:  # custom code may raise anything
        found = f"{type(error).__name__}: {error}".splitlines()[0][:MESSAGE_CHARS]
        raise InputError("metric_raised", place, "a score", found=found) from error
    record = score if isinstance(score, Evaluation) else None
    if record is not None:
        if record.status is EvaluationStatus.FAILED:
            message = record.error.message if record.error else "a failed evaluation"
            raise InputError("metric_raised", place, "a score", found=" ".join(message.split())[:MESSAGE_CHARS])
        score = record.score
    if score is None:
        return QuestionScore(None, record)
    is_number = isinstance(score, Real) and math.isfinite(score)
    if not is_number or not info.range.low <= float(score) <= info.range.high:
        raise InputError("bad_metric_score", place, f"a number from {info.range}, or None", found=score)
    return QuestionScore(float(score), record)


def load_metric(path: str) -> CustomMetric:
    """Load the custom metric at an import path, `package.module:NAME`; InputError `bad_metric`."""
    parts = re.fullmatch(r"([\w.]+):(\w+)", path)
    if parts is None:
        raise InputError("bad_metric", f"metric {path}", "an import path such as package.module:NAME", found=path)
    try:
        definition: CustomMetric = getattr(importlib.import_module(parts[1]), parts[2])
    except Exception as error:  # custom code may raise anything when it is imported
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError("bad_metric", f"metric {path}", "a metric that can be imported", found=found) from error
    if not isinstance(getattr(definition, "metric", None), MetricInfo):
        expected = "an object whose `metric` is a MetricInfo"
        raise InputError("bad_metric", f"metric {path}", expected, found=type(definition).__name__)
    return definition


def installed_metrics() -> list[CustomMetric]:
    """Load the custom metrics of installed packages, by the names of their entry points; errors as `load_metric`."""
    return [load_metric(point.value) for point in _entry_points()]


def find_metric(name: str) -> CustomMetric:
    """Find a custom metric by its import path, the name of its entry point, or its key."""
    if ":" in name:
        return load_metric(name)
    points = _entry_points()
    for point in points:
        if point.name == name:
            return load_metric(point.value)
    for point in points:
        if (found := load_metric(point.value)).metric.name == name:
            return found
    known = ", ".join(point.name for point in points) or "none is installed"
    raise InputError(
        "unknown_metric", "metrics",
        f"an import path such as package.module:NAME, or an entry point of {ENTRY_POINT_GROUP}",
        found=name, hint=f"Entry points: {known}.",
    )  # fmt: skip


def _entry_points() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
