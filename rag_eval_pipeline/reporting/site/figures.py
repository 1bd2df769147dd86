"""The figures of one evaluation as pages show them: value, interval, and why one is missing or in doubt."""

from typing import NamedTuple

from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.reporting.site.known_figures import Figure
from rag_eval_pipeline.reporting.site.meanings import figure_of
from rag_eval_pipeline.reporting.site.numbers import milliseconds, number
from rag_eval_pipeline.reporting.trust import Trust


class Shown(NamedTuple):
    """A figure of one evaluation as a page shows it.

    Args:
        figure: Which.
        metric: Value, interval and counts.
        doubt: Why it may not be relied on, where that is so.
    """

    figure: Figure
    metric: MetricHeader
    doubt: str | None

    @property
    def text(self) -> str:
        """The value."""
        return milliseconds(self.metric.value) if self.figure.unit == "ms" else number(self.metric.value)

    @property
    def interval(self) -> str | None:
        """`0.412 to 0.533`."""
        limits = self.metric.confidence_interval
        return f"{number(limits[0])} to {number(limits[1])}" if limits else None

    @property
    def note(self) -> str | None:
        """What a reader has to know of it: why it is missing, or why it is in doubt."""
        if self.metric.value is None:
            return (self.metric.reason or "no value").replace("_", " ")
        return self.doubt


def shown(row: ResultsHeader, name: str, trust: Trust) -> Shown:
    """A figure of an evaluation with its doubts."""
    metric = row.metric(name)
    return Shown(figure_of(name), metric, trust.doubt(row, name) if metric.value is not None else None)
