"""Published evaluations in a folder: their headers, which of them are wanted, and what differs between them.

Source: Evaluation Data Formats 4.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset_headers import decoded
from rag_eval_pipeline.formats.file_kinds import AB_TEST, WEEKLY
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.formats.results_versions import RESULTS
from rag_eval_pipeline.formats.versions import split_version

Values = dict[str, dict[str, float | None]]


class ResultsHeader(msgspec.Struct, frozen=True):
    """A results file without its figures."""

    evaluation_id: str
    timestamp: datetime
    benchmark: str
    system: str
    system_version: str
    dataset_id: str
    dataset_version: str


@dataclass(frozen=True, slots=True)
class PublishedResults:
    """A header, and the file it stands in."""

    header: ResultsHeader
    path: Path


@dataclass(frozen=True, slots=True)
class ResultsFilter:
    """Which evaluations are wanted; None wants all.

    Args:
        dataset: A dataset's id, with or without its version, or a benchmark's name.
        system: Name of a system.
        since: First day, UTC.
        until: Last day, UTC, itself included.
    """

    dataset: str | None = None
    system: str | None = None
    since: date | None = None
    until: date | None = None

    def takes(self, header: ResultsHeader) -> bool:
        """Whether an evaluation is among them."""
        day = header.timestamp.astimezone(UTC).date()
        return (
            (self.dataset is None or _is_of(header, self.dataset))
            and (self.system is None or header.system == self.system)
            and (self.since is None or day >= self.since)
            and (self.until is None or day <= self.until)
        )


@dataclass(frozen=True, slots=True)
class ResultsComparison:
    """The figures of several evaluations side by side; whether a difference means something is not said here.

    Args:
        evaluations: Their ids; the first is the one that the others are measured against.
        metrics: Measure -> evaluation -> value; None where it has none, and no key where the measure was not taken.
        metric_deltas: The same as differences to the first; None where either has no value.
        performance: Figure -> evaluation -> value, such as `latency_stats.p50` in milliseconds.
        performance_deltas: As differences.
        differing: Fingerprints that are not the same in all: with `dataset`, `corpus` or `metrics` among them, the
            figures do not compare.
    """

    evaluations: tuple[str, ...]
    metrics: Values
    metric_deltas: Values
    performance: Values
    performance_deltas: Values
    differing: tuple[str, ...]


def read_results_header(path: Path) -> ResultsHeader:
    """The header of a results file.

    Raises:
        InputError: The file's fault, or `bad_format`.
    """
    form = None if path.name.startswith((WEEKLY, AB_TEST)) else RESULTS  # those have their own, with this header
    header: ResultsHeader = decoded(path, ResultsHeader, form)
    if header.timestamp.tzinfo is None:
        raise InputError("bad_format", path, "a time with its zone", field="timestamp", found=str(header.timestamp))
    return header


def compare_results(results: Sequence[EvaluationResults]) -> ResultsComparison:
    """Several evaluations side by side.

    Args:
        results: The first is measured against.
    """
    metrics = _by_name((one.evaluation_id, dict(_metrics(one))) for one in results)
    performance = _by_name((one.evaluation_id, dict(_performance(one))) for one in results)
    prints = [one.fingerprints.model_dump() for one in results]
    first = results[0].evaluation_id if results else ""
    return ResultsComparison(
        evaluations=tuple(one.evaluation_id for one in results),
        metrics=metrics,
        metric_deltas=_deltas(metrics, first),
        performance=performance,
        performance_deltas=_deltas(performance, first),
        differing=tuple(name for name in (prints[0] if prints else ()) if len({one[name] for one in prints}) > 1),
    )


def _is_of(header: ResultsHeader, dataset: str) -> bool:
    wanted = split_version(dataset)
    ids = {header.dataset_id, split_version(header.dataset_id).dataset_id, header.benchmark}
    return dataset in ids or (wanted.dataset_id in ids and wanted.version == header.dataset_version)


def _metrics(results: EvaluationResults) -> Iterator[tuple[str, float | None]]:
    """Every figure that has a mean: retrieval by the specification's names, others by their path."""
    for name, metric in results.retrieval_metrics.items():
        yield name, metric.value
    for name, metric in results.page_retrieval_metrics.items():
        yield f"page_retrieval_metrics.{name}", metric.value
    spans = results.citation_metrics.span_accuracy
    yield "citation_metrics.span_accuracy.mean_exact_jaccard", spans.mean_exact_jaccard
    yield "citation_metrics.span_accuracy.mean_tolerance_jaccard", spans.mean_tolerance_jaccard
    yield "citation_metrics.citation_completeness", results.citation_metrics.citation_completeness.value
    yield "citation_metrics.citation_correctness", results.citation_metrics.citation_correctness.value
    quality = results.answer_quality_metrics
    yield "answer_quality_metrics.factual_consistency", quality.factual_consistency.value
    yield "answer_quality_metrics.hallucination_rate", quality.hallucination_rate.value
    for name, metric in quality:
        if isinstance(metric, Metric):
            yield f"answer_quality_metrics.{name}", metric.value
    for name, metric in quality.abstention:
        if isinstance(metric, Metric):
            yield f"answer_quality_metrics.abstention.{name}", metric.value


def _performance(results: EvaluationResults) -> Iterator[tuple[str, float | None]]:
    figures = results.performance_metrics
    for name, value in figures.latency_stats.items():
        yield f"latency_stats.{name}", value
    for resource, usage in figures.resource_usage.items():
        for part in ("mean", "peak", "std"):
            yield f"resource_usage.{resource}.{part}", getattr(usage, part)


def _by_name(evaluations: Iterable[tuple[str, Mapping[str, float | None]]]) -> Values:
    values: Values = {}
    for evaluation_id, figures in evaluations:
        for name, value in figures.items():
            values.setdefault(name, {})[evaluation_id] = value
    return values


def _deltas(values: Values, first: str) -> Values:
    deltas: Values = {}
    for name, by_evaluation in values.items():
        base = by_evaluation.get(first)
        deltas[name] = {
            evaluation_id: None if base is None or value is None else value - base
            for evaluation_id, value in by_evaluation.items()
            if evaluation_id != first
        }
    return deltas
