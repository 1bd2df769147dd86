"""Gold against predicted citations of many questions: scores per question, and means with intervals made from them.

A question whose prediction is missing or failed has no score and lowers the coverage. One without gold spans is left
out. The specification's four totals are over gold spans, everything else is over questions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rag_eval_pipeline.metrics.intervals import Scores, Summary, summarise_all
from rag_eval_pipeline.metrics.span_files import CitedQuestion
from rag_eval_pipeline.metrics.span_matching import (
    SPAN_COUNTS,
    SPAN_MEASURES,
    TOKEN_MEASURES,
    add_tokens,
    score_columns,
)
from rag_eval_pipeline.metrics.spans import TokenOffsets, count_out_of_bounds, number_files, to_columns

QuestionScores = dict[str, float]


@dataclass(frozen=True, slots=True)
class SpanReport:
    """Scores of a file of predictions.

    Args:
        scores: Question -> its scores by measure, in the order of the gold file.
        failed: Question with gold spans -> why it has no prediction: `missing`, or the status of its answer.
        skipped: Question -> why it is left out: `impossible`, `no_gold_spans`, `nothing_to_cite`.
        unknown: Predicted questions that are not in the gold file.
        documents: Cited documents without a text; None if no texts were given.
        out_of_bounds: Predicted spans that end after their document's text; None if no texts were given.
        tolerance: In characters.
    """

    scores: Mapping[str, QuestionScores]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]
    unknown: tuple[str, ...]
    documents: tuple[str, ...] | None
    out_of_bounds: int | None
    tolerance: int

    def summaries(self) -> dict[str, Summary]:
        """Return the means over questions by measure, without counts."""
        names = [name for name in SPAN_MEASURES if name not in SPAN_COUNTS]
        if self.documents is not None:
            names += TOKEN_MEASURES
        found = {}
        for name in names:
            values = [scores[name] for scores in self.scores.values() if name in scores]
            skipped = len(self.skipped) + len(self.scores) - len(values)
            found[name] = Scores(values, failed=len(self.failed), skipped=skipped)
        return summarise_all(found)

    def span_accuracy(self) -> dict[str, float | int | None]:
        """Return the specification's four totals over all gold spans, and how many spans there are."""
        rows = list(self.scores.values())
        totals = {name: int(sum(row[name] for row in rows)) for name in SPAN_MEASURES if name in SPAN_COUNTS}
        n_gold = totals["true_spans"]

        def per_span(measure: str) -> float | None:
            return sum(row[measure] * row["true_spans"] for row in rows) / n_gold if n_gold else None

        return {
            "mean_exact_jaccard": per_span("exact_jaccard"),
            "mean_tolerance_jaccard": per_span("tolerance_jaccard"),
            **totals,
        }


def compare_spans(
    gold: Mapping[str, CitedQuestion],
    predicted: Mapping[str, CitedQuestion],
    *,
    tolerance: int,
    texts: Mapping[str, TokenOffsets] | None = None,
) -> SpanReport:
    """Score predicted citations against gold ones.

    Args:
        gold: By question.
        predicted: By question.
        tolerance: How far an end may be off, in characters.
        texts: Tokens by file name; None scores no words.
    """
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    asked = []
    for query_id, wanted in gold.items():
        given = predicted.get(query_id)
        if wanted.citations is None:
            skipped[query_id] = wanted.reason or "no_gold_spans"
        elif given is None or given.citations is None:
            failed[query_id] = "missing" if given is None else given.reason or "error"
        elif not wanted.citations and not given.citations:
            skipped[query_id] = "nothing_to_cite"
        else:
            asked.append((query_id, wanted.citations, given.citations))
    sides = [own[1] for own in asked], [own[2] for own in asked]
    files = number_files(*sides)
    expected, cited = (to_columns(side, files) for side in sides)
    scores = score_columns(expected, cited, len(asked), tolerance=tolerance)
    if texts is not None:
        scores = add_tokens(scores, expected, cited, files, texts)
    return SpanReport(
        scores=dict(zip((own[0] for own in asked), scores.rows(), strict=True)),
        failed=failed,
        skipped=skipped,
        unknown=tuple(query_id for query_id in predicted if query_id not in gold),
        documents=None if texts is None else tuple(name for name in files if name not in texts),
        out_of_bounds=None if texts is None else count_out_of_bounds(cited, files, texts),
        tolerance=tolerance,
    )


def report_lines(report: SpanReport, *, by_query: bool) -> Iterator[str]:
    """Yield the report as a table."""
    if by_query:
        for query_id, scores in report.scores.items():
            yield from (f"{name:24}\t{query_id}\t{value:.4f}" for name, value in scores.items())
    yield f"{'measure':24} {'mean':>7}  {'95 % interval':>16} {'n':>7} {'failed':>7} {'left out':>8}"
    for name, summary in report.summaries().items():
        counts = f"{summary.n_scored:>7} {summary.n_failed:>7} {summary.n_skipped:>8}"
        if summary.value is None:
            yield f"{name:24} {'-':>7}  {summary.reason or '':>16} {counts}"
            continue
        interval = summary.confidence_interval
        shown = "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}"
        yield f"{name:24} {summary.value:7.4f}  {shown:>16} {counts}"
    totals = report.span_accuracy()
    yield "over gold spans: " + ", ".join(
        f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {'-' if value is None else value}"
        for name, value in totals.items()
    )


def notes(report: SpanReport) -> Iterator[str]:
    """Yield what a reader of the numbers has to know, one line each."""
    if report.failed:
        yield f"{len(report.failed)} questions have no prediction and no score: {_first(report.failed)}"
    if report.skipped:
        yield f"{len(report.skipped)} questions have nothing to score and are left out: {_first(report.skipped)}"
    if report.unknown:
        yield f"{len(report.unknown)} predicted questions are not in the gold file: {', '.join(report.unknown[:3])}"
    if report.documents:
        yield f"{len(report.documents)} cited documents have no text: {', '.join(report.documents[:3])}"
    if report.out_of_bounds:
        yield f"{report.out_of_bounds} predicted spans end after their document's text"


def to_json(report: SpanReport, *, by_query: bool) -> dict[str, Any]:
    """Return the report with every digit, and why questions have no score."""
    found: dict[str, Any] = {
        "tolerance_chars": report.tolerance,
        "questions": {
            "scored": len(report.scores),
            "failed": dict(report.failed),
            "skipped": dict(report.skipped),
            "unknown": list(report.unknown),
        },
        "measures": {name: asdict(summary) for name, summary in report.summaries().items()},
        "span_accuracy": report.span_accuracy(),
    }
    if report.documents is not None:
        found["documents"] = {"without_text": list(report.documents), "spans_out_of_bounds": report.out_of_bounds}
    if by_query:
        found["scores"] = dict(report.scores)
    return found


def _first(reasons: Mapping[str, str]) -> str:
    return ", ".join(f"{query_id} ({reason})" for query_id, reason in list(reasons.items())[:3])
