"""Scores as trec_eval prints them: `%-22s`, a tab, the query or `all`, a tab, the value with four decimals."""

from collections.abc import Iterator
from typing import Any

from rag_eval_pipeline.metrics.retrieval.definition import Measure
from rag_eval_pipeline.metrics.retrieval.scores import Scores


def printed(scores: Scores, *, run_id: str | None, by_query: bool) -> Iterator[str]:
    """The lines.

    Args:
        scores: Of a run.
        run_id: The run's tag; None leaves its line out.
        by_query: Each query before what stands for all.
    """
    if by_query:
        shown = [
            (measure, values.tolist())
            for measure, values in zip(scores.measures, scores.values, strict=True)
            if measure.family.shown != "summary"
        ]
        for place, query in enumerate(scores.queries):
            for measure, column in shown:
                yield _line(measure, query, column[place])
    if run_id is not None:
        yield f"{'runid':22}\tall\t{run_id}"
    for measure in scores.measures:
        value = scores.summary(measure)
        if value is not None and measure.family.shown != "queries":
            yield _line(measure, "all", value)


def record(scores: Scores, *, run_id: str, by_query: bool) -> dict[str, Any]:
    """The same for machines: every digit, and what was missing."""
    found: dict[str, Any] = {
        "run_id": run_id,
        "measures": {measure.label: scores.summary(measure) for measure in scores.measures},
        "queries": len(scores.queries),
        "missing_queries": list(scores.missing),
        "queries_without_relevant_documents": list(scores.nothing_relevant),
        "unjudged_queries": scores.unjudged,
    }
    if by_query:
        labels = [measure.label for measure in scores.measures]
        rows = zip(*(values.tolist() for values in scores.values), strict=True)
        found["scores"] = {
            query: dict(zip(labels, row, strict=True)) for query, row in zip(scores.queries, rows, strict=False)
        }
    return found


def notes(scores: Scores) -> Iterator[str]:
    """What a reader of the numbers has to know, a line each."""
    n = len(scores.queries)
    if scores.missing:
        first = ", ".join(scores.missing[:3])
        yield f"{len(scores.missing)} of {n} judged queries are not in the run and count 0: {first}"
    if scores.nothing_relevant:
        first = ", ".join(scores.nothing_relevant[:3])
        yield f"{len(scores.nothing_relevant)} of {n} judged queries have no relevant document and count 0: {first}"
    if scores.unjudged:
        yield f"{scores.unjudged} queries of the run are not judged and are left out"


def _line(measure: Measure, query: str, value: Any) -> str:
    kind = measure.family.printed
    text = f"{value:d}" if kind == "integer" else f"{value:6.4f}" if kind == "decimal" else f"'{value}'"
    return f"{measure.label:22}\t{query}\t{text}"
