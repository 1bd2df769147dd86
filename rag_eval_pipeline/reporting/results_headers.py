"""A results file without its questions: the figures that leaderboard, comparison and report choose from."""

import functools
import zlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, overload

import msgspec
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import fault_line
from rag_eval_pipeline.formats.model import check_schema_version
from rag_eval_pipeline.formats.results import EvaluationResults

ALWAYS = ("f1", "abstention_f1", "citation_jaccard", "latency_p50_ms")  # figures that every results file has
KEPT_UNPACKED = 256  # headers, of some 40 kB each


class HeaderFault(Exception):
    """A results file that cannot be read, in a line."""


class MetricHeader(msgspec.Struct, frozen=True):
    """A figure with its interval."""

    value: float | None
    confidence_interval: tuple[float, float] | None = None
    n_scored: int = 0
    n_failed: int = 0
    coverage: float | None = None
    reason: str | None = None


class ResultsHeader(msgspec.Struct, frozen=True):
    """A results file without `query_results`, which msgspec passes over without building it."""

    evaluation_id: str
    timestamp: datetime
    benchmark: str
    system: str
    system_version: str
    dataset_version: str
    fingerprints: dict[str, str | None]
    summary: dict[str, float | None]
    retrieval_level: str
    retrieval_metrics: dict[str, MetricHeader]
    page_retrieval_metrics: dict[str, MetricHeader]
    citation_metrics: dict[str, dict[str, Any]]
    answer_quality_metrics: dict[str, Any]
    performance_metrics: dict[str, Any]
    judge_metrics: dict[str, MetricHeader] = {}

    def metric(self, name: str) -> MetricHeader:
        """A figure by its name on the leaderboard, of retrieval at the level to look at first.

        One without value and with a reason where the file has none.
        """
        retrieval = self.page_retrieval_metrics if self.retrieval_level == "page" else self.retrieval_metrics
        if name in retrieval:
            return retrieval[name]
        if name == "abstention_f1":
            return msgspec.convert(self.answer_quality_metrics["abstention"]["f1"], MetricHeader)
        if name == "citation_jaccard":
            spans = self.citation_metrics["span_accuracy"]
            limits = spans.get("confidence_intervals", {}).get("mean_tolerance_jaccard")
            interval = (limits["low"], limits["high"]) if limits else None
            scored = (spans.get("recall") or {}).get("n_scored", 0)  # questions with gold spans
            return MetricHeader(spans["mean_tolerance_jaccard"], interval, scored, reason=spans.get("reason"))
        if name == "latency_p50_ms":
            limits = self.performance_metrics.get("latency_intervals", {}).get("p50")
            value = self.performance_metrics["latency_stats"]["p50"]
            answered = int((self.summary["total_queries"] or 0) - (self.summary["failed_queries"] or 0))
            if value is None:
                return MetricHeader(None, reason=self.performance_metrics.get("latency_reason") or "no_latencies")
            found = {"value": value, "confidence_interval": limits, "n_scored": answered}
            return msgspec.convert(found, MetricHeader)
        if name in self.answer_quality_metrics:
            return msgspec.convert(self.answer_quality_metrics[name], MetricHeader)
        if name in self.judge_metrics:
            return self.judge_metrics[name]
        return MetricHeader(None, reason="not_measured")


class _Stated(msgspec.Struct):
    schema_version: str | None = None


class Headers(Sequence[ResultsHeader]):
    """Headers that are unpacked when they are looked at: eleven thousand take 20 MB, not half a gigabyte.

    Args:
        packed: Each as `packed` made it.
    """

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = packed

    @overload
    def __getitem__(self, place: int) -> ResultsHeader: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> ResultsHeader | Self:
        if isinstance(place, slice):
            return type(self)(self._packed[place])
        return _unpacked(self._packed[place])

    def __len__(self) -> int:
        return len(self._packed)


def packed(header: ResultsHeader) -> bytes:
    """A header in few bytes."""
    return zlib.compress(msgspec.msgpack.encode(header), 1)


@functools.lru_cache(KEPT_UNPACKED)
def _unpacked(data: bytes) -> ResultsHeader:
    return msgspec.msgpack.decode(zlib.decompress(data), type=ResultsHeader)


def read_header(path: Path) -> ResultsHeader:
    """One results file without its questions.

    Raises:
        HeaderFault: The file is no results file of its name, or a figure is not in it that every one has.
        OSError: It cannot be read.
    """
    return read_header_of(path, path.read_bytes())


def read_header_of(path: Path, data: bytes) -> ResultsHeader:
    """The same of its bytes."""
    try:
        stated = msgspec.json.decode(data, type=_Stated).schema_version
        if stated is not None:
            check_schema_version(stated, EvaluationResults.file_type, EvaluationResults.current_version)
        header = msgspec.json.decode(data, type=ResultsHeader)
        for name in ALWAYS:
            header.metric(name)  # these parts are only decoded when asked for: a damaged one is found here, by its file
    except PydanticCustomError as error:  # another schema version
        hint = "Read it with the release that wrote it."
        line = fault_line(error.type, str(path), error.message(), field="schema_version", found=repr(stated), hint=hint)
        raise HeaderFault(line) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise HeaderFault(_line(path, str(error))) from error
    if header.timestamp.tzinfo is None:
        raise HeaderFault(_line(path, f"timestamp {header.timestamp} without its zone"))
    if path.name != f"{header.evaluation_id}.results.json":
        raise HeaderFault(_line(path, f"the evaluation {header.evaluation_id}, which the file's name does not say"))
    return header


def _line(path: Path, found: str) -> str:
    hint = "Restore it, or score its answers again (rag-eval rescore) and remove it."
    return f"{path}: expected a results file, found: {found} [corrupt_result]. {hint}"
