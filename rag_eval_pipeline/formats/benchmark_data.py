"""`*.benchmark.json`: the newest figures of every pair by what is measured.

Latency and throughput, retrieval quality and citation accuracy, each in a file of its own. Source: Evaluation Data
Formats 3.1, 3.2, whose tree leaves `.benchmark` out of the names: both names are read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pydantic

from rag_eval_pipeline.formats.findings import Finding, finding
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.formats.results import Level, ResourceUsage, SpanAccuracy

Share = Annotated[float, pydantic.Field(ge=0, le=1)]
Positive = Annotated[float, pydantic.Field(ge=0)]
Latency = Literal["mean", "p50", "p95", "p99", "min", "max"]
RISING: tuple[Latency, ...] = ("min", "p50", "p95", "p99", "max")
FORM = Form("benchmark file")


class _Entry(Model):
    """A pair's newest evaluation."""

    benchmark: str = pydantic.Field(min_length=1, description="Of the pair.")
    system: str = pydantic.Field(min_length=1, description="Of the pair.")
    system_version: str = pydantic.Field(description="As its file states it.")
    dataset_version: str = pydantic.Field(description="Of the questions.")
    evaluation_id: str = pydantic.Field(min_length=1, description="Whose figures these are.")
    timestamp: pydantic.AwareDatetime = pydantic.Field(description="When it was published.")
    queries: Positive = pydantic.Field(description="Questions asked.")
    failed: Positive = pydantic.Field(description="Of those, without an answer.")


class LatencyEntry(_Entry):
    """How long an answer takes."""

    latency_ms: dict[Latency, Positive | None] = pydantic.Field(description="Milliseconds a question.")
    reused_from: str | None = pydantic.Field(description="The evaluation in which they were measured.")


class ThroughputEntry(_Entry):
    """How many questions a second."""

    seconds: Positive | None = pydantic.Field(description="Wall-clock time of asking.")
    queries_per_second: Positive | None = pydantic.Field(description="Null where answers were copied.")
    reason: str | None = pydantic.Field(description="Why there is no rate.")
    resource_usage: dict[Literal["memory_mb", "cpu_percent"], ResourceUsage] = pydantic.Field(description="As sampled.")


class Figure(Model):
    """A mean over questions."""

    value: float | None = pydantic.Field(description="Null where nothing could be scored.")
    confidence_interval: tuple[float, float] | None = pydantic.Field(description="95 %.")
    n_scored: int = pydantic.Field(ge=0, description="Questions in the mean.")
    coverage: Share | None = pydantic.Field(description="Scored among scored and failed.")
    reason: str | None = pydantic.Field(description="Why value is null.")


class RetrievalEntry(_Entry):
    """How well documents and pages are found."""

    level: Level = pydantic.Field(description="What to look at first.")
    by_document: dict[str, Figure] = pydantic.Field(description="Measure -> mean.")
    by_page: dict[str, Figure] = pydantic.Field(description="Measure -> mean.")


class CitationEntry(_Entry):
    """How well is cited."""

    span_accuracy: SpanAccuracy = pydantic.Field(description="As in the results file.")


class _BenchmarkData(FileModel):
    form: ClassVar[Form] = FORM

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Of this file's form.")
    benchmark: str = pydantic.Field(description="What is measured: the file's name without its ending.")


class LatencyBenchmarks(_BenchmarkData):
    """`performance/latency_benchmarks.benchmark.json`."""

    entries: tuple[LatencyEntry, ...] = pydantic.Field(description="One a pair.")


class ThroughputBenchmarks(_BenchmarkData):
    """`performance/throughput_benchmarks.benchmark.json`."""

    entries: tuple[ThroughputEntry, ...] = pydantic.Field(description="One a pair.")


class RetrievalBenchmarks(_BenchmarkData):
    """`quality/retrieval_quality_benchmarks.benchmark.json`."""

    entries: tuple[RetrievalEntry, ...] = pydantic.Field(description="One a pair.")


class CitationBenchmarks(_BenchmarkData):
    """`quality/citation_accuracy_benchmarks.benchmark.json`."""

    entries: tuple[CitationEntry, ...] = pydantic.Field(description="One a pair.")


AnyBenchmarks = LatencyBenchmarks | ThroughputBenchmarks | RetrievalBenchmarks | CitationBenchmarks
BENCHMARK_DATA: Mapping[str, type[AnyBenchmarks]] = {
    "latency_benchmarks": LatencyBenchmarks,
    "throughput_benchmarks": ThroughputBenchmarks,
    "retrieval_quality_benchmarks": RetrievalBenchmarks,
    "citation_accuracy_benchmarks": CitationBenchmarks,
}


def check_benchmark_data(data: AnyBenchmarks, path: Path) -> Iterator[Finding]:
    """Faults of a file: its name, its pairs, its figures."""
    if path.name.partition(".")[0] != data.benchmark:
        expected = "the file's name without its ending"
        yield finding("error", "misnamed_file", path, expected, field="benchmark", found=data.benchmark)
    seen = set()
    for number, entry in enumerate(data.entries):
        place = f"entries[{number}]"
        pair = (entry.benchmark, entry.system)
        if pair in seen:
            yield finding("error", "duplicate_id", path, "each pair once", field=place, found=pair)
        seen.add(pair)
        if entry.failed > entry.queries:
            expected = f"at most queries, {entry.queries:g}"
            yield finding("error", "counts", path, expected, field=f"{place}.failed", found=entry.failed)
        yield from _figures(entry, path, place)


def _figures(entry: _Entry, path: Path, place: str) -> Iterator[Finding]:
    if isinstance(entry, LatencyEntry):
        rising = [value for name in RISING if (value := entry.latency_ms.get(name)) is not None]
        if rising != sorted(rising):
            expected = f"{' <= '.join(RISING)}"
            yield finding("error", "latency", path, expected, field=f"{place}.latency_ms", found=rising)
    if isinstance(entry, ThroughputEntry) and (entry.queries_per_second is None) == (entry.reason is None):
        expected = "a rate, or the reason why there is none"
        yield finding("error", "no_reason", path, expected, field=f"{place}.reason", found=entry.reason)
    if isinstance(entry, RetrievalEntry):
        for part, figures in (("by_document", entry.by_document), ("by_page", entry.by_page)):
            for name, figure in figures.items():
                yield from _figure(figure, path, f"{place}.{part}.{name}")


def _figure(figure: Figure, path: Path, place: str) -> Iterator[Finding]:
    if (figure.value is None) == (figure.reason is None):
        expected = "a value, or the reason why there is none"
        yield finding("error", "no_reason", path, expected, field=place, found=figure.reason)
    limits = figure.confidence_interval
    if limits is not None and figure.value is not None and not limits[0] <= figure.value <= limits[1]:
        expected = f"the value, {figure.value:g}, between its limits"
        yield finding("error", "interval", path, expected, field=f"{place}.confidence_interval", found=limits)
