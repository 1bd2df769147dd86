"""Every figure of one run, in rooms: retrieval, retrieved texts, answers, abstaining, citations, the judge, further.

What a results file has is shown whether this module has heard of it or not; a measure stands once, in its first room.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.reporting.site.figures import Shown
from rag_eval_pipeline.reporting.site.known_figures import HEADINGS, Figure
from rag_eval_pipeline.reporting.site.meanings import PAGE, figure_of, own_figure
from rag_eval_pipeline.reporting.site.run_sources import RunFile
from rag_eval_pipeline.reporting.trust import TASKS, Trust

_JUDGE = "claims"


class FigureGroup(NamedTuple):
    """Figures with a heading."""

    heading: str
    rows: list[Shown]

    @property
    def doubt(self) -> str | None:
        """Why none of them may be relied on, where that is so."""
        doubts = {row.doubt for row in self.rows if row.metric.value is not None}
        return doubts.pop() if len(doubts) == 1 else None


def figure_groups(header: ResultsHeader, file: RunFile, trust: Trust) -> list[FigureGroup]:
    """The figures by room; rooms without figures are left out.

    Args:
        header: Of the run.
        file: The rest of its results; an empty one where they are not read.
        trust: Of judges.
    """
    own = {name: own_figure(name, row) for name, row in file.own_metrics.items()}
    rooms: dict[str, list[Shown]] = {}
    seen: set[str] = set()
    for room, name, metric in _all(header, file.further_metrics, own):
        if name in seen:
            continue
        seen.add(name)
        is_judged = room == _JUDGE and metric.value is not None
        doubt = trust.doubt(header, _vouching(name)) if is_judged else None
        rooms.setdefault(room, []).append(Shown(own.get(name) or figure_of(name), metric, doubt))
    return [FigureGroup(heading, rooms[room]) for room, heading in _headings(header.retrieval_level) if room in rooms]


def _headings(level: str) -> list[tuple[str, str]]:
    retrieval = [("retrieval", "Retrieval, by document"), (PAGE, "Retrieval, by page")]
    rest = [(room, heading) for room, heading in HEADINGS.items() if room != "retrieval"]
    return [*(reversed(retrieval) if level == "page" else retrieval), *rest]


def _all(
    header: ResultsHeader, further: Mapping[str, MetricHeader], own: Mapping[str, Figure]
) -> Iterator[tuple[str, str, MetricHeader]]:
    """Room, name and metric; names may come twice."""
    yield from (("retrieval", name, metric) for name, metric in header.retrieval_metrics.items())
    yield from ((PAGE, f"{PAGE}{name}", metric) for name, metric in header.page_retrieval_metrics.items())
    quality = header.answer_quality_metrics
    for name, raw in quality.items():
        # A share of claims may stand among the judge's means too, with its interval.
        if name not in header.judge_metrics and (metric := _metric(raw)) is not None:
            yield (_JUDGE if figure_of(name).room == _JUDGE else "answers"), name, metric
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
        room = (own.get(name) or figure_of(name)).room
        # Retrieval has its own measures of both levels above: what is left is somebody's own.
        yield "other" if room == "retrieval" else room, name, metric


def _metric(raw: Any) -> MetricHeader | None:
    """A figure as results have it; None for a count, and for parts that are none."""
    try:
        return msgspec.convert(raw, MetricHeader) if isinstance(raw, dict) else None
    except msgspec.ValidationError:
        return None


def _vouching(name: str) -> str:
    """The figure whose labels vouch for one of the judge's."""
    return name if name in TASKS else "judged_correct" if name.startswith("judge") else "faithfulness"
