"""The figures of the report: what each is called, how it is written, and which way is better."""

from typing import NamedTuple

from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.reporting.trust import Trust

DASH = "–"


class Figure(NamedTuple):
    """A figure with its name for people.

    Args:
        name: As on the leaderboard.
        label: For a heading.
        meaning: One line.
        is_share: In [0, 1]; else milliseconds.
    """

    name: str
    label: str
    meaning: str
    is_share: bool = True


_KNOWN = {
    figure.name: figure
    for figure in (
        Figure("hit@1", "Hit@1", "Questions whose first retrieved document is relevant."),
        Figure("hit@5", "Hit@5", "Questions with a relevant document among the first five."),
        Figure("ndcg@10", "nDCG@10", "How high the relevant documents stand among the first ten."),
        Figure("mrr", "MRR", "One over the rank of the first relevant document."),
        Figure("exact_match", "Exact match", "Answers equal to a gold answer, as SQuAD compares them."),
        Figure("f1", "F1", "Words that answer and gold answer share, as SQuAD counts them."),
        Figure(
            "abstention_f1", "Abstention F1", "Whether the system abstains on unanswerable questions, and only there."
        ),
        Figure("citation_jaccard", "Citation Jaccard", "Overlap of cited and gold spans."),
        Figure("judged_correct", "Judged correct", "Answers that the judge finds right."),
        Figure("faithfulness", "Faithfulness", "Claims that the retrieved texts support, by the judge."),
        Figure("latency_p50_ms", "Latency p50", "Milliseconds to an answer, the median.", is_share=False),
    )
}


# Spellings of the field; other names are written as words.
_SPELLINGS = {"ndcg": "nDCG", "map": "MAP", "mrr": "MRR", "f1": "F1"}


def figure_of(name: str) -> Figure:
    """What is known of a figure; its own name in words where nothing is."""
    return _KNOWN.get(name) or Figure(name, _label(name), "", is_share=not name.endswith("_ms"))


def metric_label(metric: str) -> str:
    """A compared metric for people: `Hit@1 by page`."""
    name = metric.removeprefix("page/")
    label = "Citation Jaccard" if name == "tolerance_jaccard" else figure_of(name).label
    return f"{label} by page" if metric.startswith("page/") else label


def _label(name: str) -> str:
    words, at, depth = name.replace("_", " ").partition("@")
    spelt = " ".join(_SPELLINGS.get(word, word) for word in words.split())
    return spelt + at + depth if spelt in _SPELLINGS.values() else spelt[:1].upper() + spelt[1:] + at + depth


def number(value: float | None, digits: int = 3) -> str:
    """To three digits; a dash where there is none."""
    return DASH if value is None else f"{value:.{digits}f}"


def milliseconds(value: float | None) -> str:
    """`0.42 ms`, `12 ms`, `1.34 s`."""
    if value is None:
        return DASH
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def dollars(value: float | None) -> str:
    """`$0.0012`, `$1.34`; a dash where nothing is known."""
    if value is None:
        return DASH
    return f"${value:.4f}" if 0 < value < 0.01 else f"${value:,.2f}"


def count(value: float | None) -> str:
    """`12,345`."""
    return DASH if value is None else f"{value:,.0f}"


def points(change: float | None) -> str:
    """A change of a share in points with its sign, a true minus."""
    return DASH if change is None else f"{round(100 * change, 1) + 0.0:+.1f}".replace("-", "−")


def p_value(value: float | None) -> str:
    """To three digits, and `<0.001` below them; a dash where there is none."""
    return "<0.001" if value is not None and value < 0.001 else number(value)


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
        return number(self.metric.value) if self.figure.is_share else milliseconds(self.metric.value)

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
