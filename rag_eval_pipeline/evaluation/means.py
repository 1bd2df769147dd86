"""Means of per-question scores with their intervals, all at once: questions are resampled once for all measures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rag_eval_pipeline.evaluation.retrieved_documents import NOTHING_KNOWN
from rag_eval_pipeline.evaluation.scores_file import QueryScores
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.statistics import Scores, Summary, summarise_all


class Scored(NamedTuple):
    """The rows that some measures are averaged over.

    Args:
        rows: One a question.
        measures: Name in the results -> name in the rows.
        level: Of retrieval.
        left_out: Questions that have no row here; they are skipped.
        own: Names in the rows of metrics that decide themselves whether a question without an answer is theirs.
    """

    rows: Sequence[QueryScores]
    measures: Mapping[str, str]
    level: form.Level | None = None
    left_out: int = 0
    own: frozenset[str] = frozenset()


class Means:
    """The mean of every measure of every group, by the names of both.

    Args:
        groups: Name -> what is averaged.
        clusters: Question -> its documents, by which intervals are made.
        seed: Of the resampling.
    """

    def __init__(self, groups: Mapping[str, Scored], clusters: Mapping[str, str], *, seed: int) -> None:
        scores = {
            f"{group}\n{name}": _scores(scored, measure, clusters)
            for group, scored in groups.items()
            for name, measure in scored.measures.items()
        }
        self._groups = groups
        self._summaries = summarise_all(scores, seed=seed)

    def one(self, group: str, name: str) -> form.Metric:
        """A measure's mean."""
        return metric_of(self._summaries[f"{group}\n{name}"], self._groups[group].level)

    def all_of(self, group: str) -> dict[str, form.Metric]:
        """Every mean of a group, in the order in which they were asked for."""
        return {name: self.one(group, name) for name in self._groups[group].measures}

    def own_of(self, group: str) -> frozenset[str]:
        """Names of the metrics of one's own in a group."""
        return self._groups[group].own


def named(measures: Iterable[str]) -> dict[str, str]:
    """Measures that the results call as the rows do."""
    return {name: name for name in measures}


def metric_of(summary: Summary, level: form.Level | None = None) -> form.Metric:
    """A summary as it stands in the results."""
    interval = summary.confidence_interval
    return form.Metric(
        value=summary.value,
        confidence_interval=None if interval is None else (interval.low, interval.high),
        method=summary.method,
        n_clusters=summary.n_clusters,
        n_scored=summary.n_scored,
        n_failed=summary.n_failed,
        n_skipped=summary.n_skipped,
        coverage=summary.coverage,
        level=level,
        reason=summary.reason,
    )


def _scores(scored: Scored, measure: str, clusters: Mapping[str, str]) -> Scores:
    """A question without this measure is skipped, unless it failed: as a whole, or in this measure."""
    values: list[float | None] = []
    names: list[str] = []
    skipped = scored.left_out
    fails_with_the_answer = measure not in scored.own
    for row in scored.rows:
        value = row.scores.get(measure)
        if value is None and not (measure in row.faults or (fails_with_the_answer and row.outcome == "failed")):
            skipped += 1
            continue
        values.append(value)
        names.append(clusters[row.query_id])
    return Scores(values, skipped=skipped, clusters=names, reason=_common_reason(scored.rows))


def _common_reason(rows: Sequence[QueryScores]) -> str | None:
    """Why nothing of a run's retrieval could be known, where that left no question to score."""
    if any(row.outcome == "scored" for row in rows):
        return None
    found = Counter(row.reason for row in rows if row.reason in NOTHING_KNOWN)
    return found.most_common(1)[0][0] if found else None
