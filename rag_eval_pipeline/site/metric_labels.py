"""Metrics as pages show them: label, unit and category, and the values of one run with what is in doubt about them."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.evaluation.compared_runs import TASKS
from rag_eval_pipeline.formats.results import CorrectedRate
from rag_eval_pipeline.metrics.claims import FACT_MEASURES
from rag_eval_pipeline.metrics.metric_info import Direction, label_from_key
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, find_metric_info, metric_label, scored_share
from rag_eval_pipeline.monitoring.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import Trust
from rag_eval_pipeline.site.display_text import milliseconds, milliseconds_range, number
from rag_eval_pipeline.site.run_data import CustomMetric, RunFile

Unit = Literal["share", "ms", "number"]

# Category -> heading, in the order of the pages.
CATEGORY_HEADINGS = {
    "retrieval": "Retrieval",
    "contexts": "Retrieved texts",
    "answers": "Answers",
    "abstention": "Abstaining",
    "citations": "Citations",
    "claims": "The judge",
    "performance": "Time",
    "other": "Further measures",
}


class MetricView(NamedTuple):
    """A metric as the registry or the results describe it.

    Args:
        meaning: One line; empty if unknown.
        unit: A share is in [0, 1]; a number has no limits.
        better: None if unknown.
        category: A key of `CATEGORY_HEADINGS`.
    """

    name: str
    label: str
    meaning: str
    unit: Unit = "share"
    better: Direction | None = "higher"
    category: str = "other"

    @property
    def is_share(self) -> bool:
        """Whether values are in [0, 1]."""
        return self.unit == "share"

    @property
    def way(self) -> str:
        """`higher is better` or `lower is better`; empty if neither is, or it is unknown."""
        return f"{self.better} is better" if self.better in ("higher", "lower") else ""


PAGE = PAGE_PREFIX


@lru_cache(4096)
def metric_view(name: str) -> MetricView:
    """Return a metric of the registry; with the label made from its name if it is unknown."""
    bare = name.removeprefix(PAGE)
    label, row = metric_label(bare), find_metric_info(bare)
    if row is None:
        return MetricView(name, label, "", "ms" if bare.endswith("_ms") else "share", None)
    category = row.category if row.category in CATEGORY_HEADINGS else "other"
    unit: Unit = "share" if (row.range.low, row.range.high) == (0, 1) else "number"
    if bare.endswith("_ms"):
        unit = "ms"
    meaning = re.sub(r"\btop k\b", f"top {bare.partition('@')[2]}", row.meaning)
    if name != bare:  # the registry describes retrieval of documents
        meaning = re.sub(r"\bdocument(s?)\b", r"page\1", meaning)
    return MetricView(name, label, meaning, unit, row.direction, category)


def custom_metric_view(name: str, row: CustomMetric) -> MetricView:
    """Return a custom metric as the results describe it."""
    unit: Unit = "share" if (row.low, row.high) == (0, 1) else "number"
    category = row.category if row.category in CATEGORY_HEADINGS else "other"
    return MetricView(name, label_from_key(name), row.meaning, unit, row.direction, category)


class MetricCell(NamedTuple):
    """A metric of one evaluation as a page shows it; `doubt` is why it must not be relied on."""

    view: MetricView
    metric: MetricHeader
    doubt: str | None
    questions: int  # asked
    corrected: CorrectedRate | None = None
    in_flight: int | None = None  # questions asked at once

    @property
    def scored(self) -> str:
        """`(27 of 60)`, if not all questions have the metric, and `(64 in flight)` of a latency."""
        if self.metric.value is None:
            return ""
        at_once = f" ({self.in_flight} in flight)" if self.in_flight and self.view.unit == "ms" else ""
        return f"{scored_share(self.metric.n_scored, self.questions)}{at_once}".strip()

    @property
    def text(self) -> str:
        """The value with its unit."""
        return milliseconds(self.metric.value) if self.view.unit == "ms" else number(self.metric.value)

    @property
    def interval(self) -> str | None:
        """`0.412 to 0.533`."""
        limits = self.metric.confidence_interval
        if limits is None:
            return None
        if self.view.unit == "ms":
            return milliseconds_range(limits, " to ")
        return " to ".join(map(number, limits))

    @property
    def short_interval(self) -> str | None:
        """`0.41–0.53`, for narrow columns."""
        limits = self.metric.confidence_interval
        if limits is None:
            return None
        if self.view.unit == "ms":
            return milliseconds_range(limits)
        return "–".join(number(limit, 2) for limit in limits)

    @property
    def note(self) -> str | None:
        """Why it is missing, or why it is in doubt."""
        if self.metric.value is None:
            return (self.metric.reason or "no value").replace("_", " ")
        return self.doubt


def shown(row: ResultsHeader, name: str, trust: Trust) -> MetricCell:
    """Return a metric of an evaluation, with a reason if it is in doubt."""
    metric = row.metric(name)
    is_page = row.retrieval_level == "page" and name in row.page_retrieval_metrics
    return MetricCell(
        metric_view(f"{PAGE}{name}" if is_page else name),
        metric,
        trust.doubt(row, name) if metric.value is not None else None,
        row.questions,
        trust.corrected(row, name),
        row.performance_metrics.get("in_flight"),
    )


_JUDGE = "claims"


class MetricGroup(NamedTuple):
    """Metrics under a heading."""

    heading: str
    rows: list[MetricCell]

    @property
    def doubt(self) -> str | None:
        """Why none of them may be relied on."""
        doubts = {row.doubt for row in self.rows if row.metric.value is not None}
        return doubts.pop() if len(doubts) == 1 else None


def metric_groups(header: ResultsHeader, file: RunFile, trust: Trust) -> list[MetricGroup]:
    """Return the metrics by category, without empty categories."""
    custom = {name: custom_metric_view(name, row) for name, row in file.custom_metrics.items()}
    categories: dict[str, list[MetricCell]] = {}
    seen: set[str] = set()
    for category, name, metric in _all(header, file.further_metrics, custom):
        if name in seen:
            continue
        seen.add(name)
        is_judged = category == _JUDGE and metric.value is not None
        doubt = trust.doubt(header, _labelled(name)) if is_judged else None
        view = custom.get(name) or metric_view(name)
        categories.setdefault(category, []).append(
            MetricCell(view, metric, doubt, header.questions, trust.corrected(header, name))
        )
    return [
        MetricGroup(heading, categories[category])
        for category, heading in _headings(header.retrieval_level)
        if category in categories
    ]


def _headings(level: str) -> list[tuple[str, str]]:
    retrieval = [("retrieval", "Retrieval, by document"), (PAGE, "Retrieval, by page")]
    rest = [(category, heading) for category, heading in CATEGORY_HEADINGS.items() if category != "retrieval"]
    return [*(reversed(retrieval) if level == "page" else retrieval), *rest]


def _all(
    header: ResultsHeader, further: Mapping[str, MetricHeader], custom: Mapping[str, MetricView]
) -> Iterator[tuple[str, str, MetricHeader]]:
    """Yield category, name and metric; a name may come twice."""
    yield from (("retrieval", name, metric) for name, metric in header.retrieval_metrics.items())
    yield from ((PAGE, f"{PAGE}{name}", metric) for name, metric in header.page_retrieval_metrics.items())
    quality = header.answer_quality_metrics
    for name, raw in quality.items():
        # The judge's means may have it too, with its interval.
        if name not in header.judge_metrics and (metric := _metric(raw)) is not None:
            yield (_JUDGE if metric_view(name).category == _JUDGE else "answers"), name, metric
    for name, raw in quality.get("abstention", {}).items():
        if (metric := _metric(raw)) is not None:
            yield "abstention", f"abstention_{name}", metric
    yield "citations", "citation_jaccard", header.metric("citation_jaccard")
    for name, raw in header.citation_metrics.get("span_accuracy", {}).items():
        if (metric := _metric(raw)) is not None:
            yield "citations", f"span_{name}", metric
    yield from ((_JUDGE, name, metric) for name, metric in header.judge_metrics.items())
    for name, raw in header.citation_metrics.items():
        if (metric := _metric(raw)) is not None:
            yield _JUDGE, name, metric
    for name, metric in further.items():
        category = (custom.get(name) or metric_view(name)).category
        # The built-in retrieval metrics of both levels come first: what is left is custom.
        yield "other" if category == "retrieval" else category, name, metric


def _metric(raw: Any) -> MetricHeader | None:
    try:
        return msgspec.convert(raw, MetricHeader) if isinstance(raw, dict) else None
    except msgspec.ValidationError:
        return None


def _labelled(name: str) -> str:
    """Return the metric of `TASKS` whose labels vouch for one of the judge's."""
    if name in FACT_MEASURES:
        return "strict_vital_score"
    return name if name in TASKS else "judged_correct" if name.startswith("judge") else "faithfulness"
