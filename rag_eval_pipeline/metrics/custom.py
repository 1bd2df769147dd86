"""Custom metrics: code of other packages that joins the built-in metrics.

    from rag_eval_pipeline.metrics.custom import AnsweredQuestion, MetricInfo, QuestionMetric

    def score(question: AnsweredQuestion) -> float | None:
        return min(1.0, 20 / max(1, len(question.text.split())))

    BREVITY = QuestionMetric(
        MetricInfo("brevity", "1 up to 20 words, then less.", "us", ("answer",), ("question",), category="answers"),
        score,
    )

The setting `custom_metrics: [my_package.my_module:BREVITY]` adds it to an evaluation. A `QuestionMetric` scores
questions; a `Family` of `retrieval.families` is a retrieval measure. Both are found by import path, or by an entry
point of the group `rag_eval_pipeline.metrics`. An exception fails only that metric for that question.
"""

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.metric_info import ENTRY_POINT_GROUP
from rag_eval_pipeline.metrics.metric_info import MetricInfo as MetricInfo  # for authors of metrics
from rag_eval_pipeline.metrics.metric_info import Range as Range

if TYPE_CHECKING:
    from rag_eval_pipeline.metrics.spans import Citation

MESSAGE_CHARS = 200  # kept of an exception's message


class Passage(NamedTuple):
    """A retrieved passage: file in the corpus, 1-based page, text, and the system's score; None if not given."""

    document: str
    page: int | None
    text: str
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """A question and its answer, as a custom metric sees them."""

    query_id: str
    question: str
    accepted_answers: Sequence[str]  # empty for an impossible question
    is_impossible: bool  # the corpus has no answer
    relevant_documents: Sequence[str]  # file names
    gold_citations: "Sequence[Citation]"  # in document offsets
    metadata: Mapping[str, Any]  # the question's, as in the dataset
    answer: str  # with citation marks
    text: str  # without them; "" for an abstention
    is_abstention: bool
    citations: "Sequence[Citation]"
    passages: Sequence[Passage]  # best first
    latency_ms: float | None  # to the whole answer; None if it was not measured
    total_tokens: int  # 0 if the system does not report them
    scores: Mapping[str, float]  # of the built-in metrics of the same category, by key


@dataclass(frozen=True, slots=True)
class QuestionMetric:
    """A metric that scores one question at a time.

    `metric.needs` leaves out questions that lack accepted_answers, relevant, gold_spans, answer or judge;
    `metric.category` is the group of scores that it is shown with and can read. The function returns a score within
    `metric.range`, or None if the metric does not apply to the question.
    """

    metric: MetricInfo
    score: Callable[[AnsweredQuestion], float | None]


class CustomMetric(Protocol):
    """A metric that an import path or entry point names: a `QuestionMetric`, or a `Family` of retrieval measures."""

    @property
    def metric(self) -> MetricInfo:
        """Its row."""


def score_question(definition: QuestionMetric, question: AnsweredQuestion) -> float | None:
    """Score one question; None if the metric does not apply to it.

    Raises:
        InputError: `metric_raised` for an exception, `bad_metric_score` for a value that is not a number within the
            metric's range; both name metric and question.
    """
    info = definition.metric
    place = f"metric {info.name}, question {question.query_id}"
    try:
        score: Any = definition.score(question)
    except Exception as error:  # custom code may raise anything
        found = f"{type(error).__name__}: {error}".splitlines()[0][:MESSAGE_CHARS]
        raise InputError("metric_raised", place, "a score", found=found) from error
    if score is None:
        return None
    expected = f"a number from {info.range}, or None"
    try:
        number = float(score) if isinstance(score, Real) else math.nan
    except OverflowError:
        raise InputError("bad_metric_score", place, expected, found="a number that no float holds") from None
    if not math.isfinite(number) or not info.range.low <= number <= info.range.high:
        raise InputError("bad_metric_score", place, expected, found=score)
    return number


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
    """Find a custom metric by its import path or the name of its entry point."""
    if ":" in name:
        return load_metric(name)
    points = {point.name: point.value for point in _entry_points()}
    if name in points:
        return load_metric(points[name])
    expected = f"an import path such as package.module:NAME, or an entry point of {ENTRY_POINT_GROUP}"
    hint = f"Entry points: {', '.join(points) or 'none is installed'}."
    raise InputError("unknown_metric", "metrics", expected, found=name, hint=hint)


def _entry_points() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
