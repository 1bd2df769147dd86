"""What a results file says of citations: span accuracy, what the judge counts, and the overall score."""

from collections.abc import Sequence

from rag_eval_pipeline.evaluation.means import Means
from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.evaluation.scores_file import QueryScores
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.statistics import summarise

SPAN_COUNTS = frozenset({"perfect_matches", "good_matches", "true_spans", "predicted_spans"})
OVERALL = ("overall_citation_accuracy", "overall_coverage")


def citation_metrics(parts: Parts, means: Means, *, seed: int) -> form.CitationMetrics:
    """The figures of citations.

    Args:
        parts: Of the evaluation.
        means: With the groups `citations` and `overall`.
        seed: Of the resampling.
    """
    return form.CitationMetrics(
        span_accuracy=_span_accuracy(parts, means, seed),
        citation_completeness=parts.shares.completeness(),
        citation_correctness=parts.shares.correctness(),
        overall_citation_accuracy=means.one("overall", "overall_citation_accuracy"),
        overall_coverage=means.one("overall", "overall_coverage"),
    )


def _span_accuracy(parts: Parts, means: Means, seed: int) -> form.SpanAccuracy:
    rows = [row for row in parts.citations if row.outcome == "scored"]
    spans = _total(rows, "true_spans")

    def per_span(measure: str) -> float | None:
        """The specification's mean is over expected spans, not over questions."""
        return sum(row.scores[measure] * row.scores["true_spans"] for row in rows) / spans if spans else None

    def interval(measure: str) -> form.PooledInterval | None:
        # A question's spans are drawn together, as are the questions of a document.
        values = [row.scores[measure] for row in rows for _ in range(int(row.scores["true_spans"]))]
        names = [parts.clusters[row.query_id] for row in rows for _ in range(int(row.scores["true_spans"]))]
        found = summarise(values, clusters=names, seed=seed)
        if found.confidence_interval is None:
            return None
        low, high = found.confidence_interval
        return form.PooledInterval(low=low, high=high, method=found.method, n_clusters=found.n_clusters)

    pooled = ("exact_jaccard", "tolerance_jaccard")
    intervals = {f"mean_{measure}": found for measure in pooled if (found := interval(measure)) is not None}
    return form.SpanAccuracy(
        mean_exact_jaccard=per_span("exact_jaccard"),
        mean_tolerance_jaccard=per_span("tolerance_jaccard"),
        confidence_intervals=intervals,
        perfect_matches=_total(rows, "perfect_matches"),
        good_matches=_total(rows, "good_matches"),
        true_spans=spans,
        predicted_spans=_total(rows, "predicted_spans"),
        precision=means.one("citations", "span_precision"),
        recall=means.one("citations", "span_recall"),
        f1=means.one("citations", "span_f1"),
        reason=None if spans else "no_gold_spans",
    )


def _total(rows: Sequence[QueryScores], measure: str) -> int:
    return int(sum(row.scores[measure] for row in rows))
