"""Published evaluations, without their questions: what leaderboard, comparison and report choose from.

The registry decides what is shown: results of benchmarks and systems that are gone stay on disk and out of the report.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.reporting.seals import fault_of
from rag_eval_pipeline.workspace import Workspace

SEVERAL = ("benchmark_weekly_", "ab_test_")  # files of several evaluations, which are in none's history


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
            return MetricHeader(spans["mean_tolerance_jaccard"], reason=spans["reason"])
        if name == "latency_p50_ms":
            return MetricHeader(self.performance_metrics["latency_stats"]["p50"])
        if name in self.answer_quality_metrics:
            return msgspec.convert(self.answer_quality_metrics[name], MetricHeader)
        if name in self.judge_metrics:
            return self.judge_metrics[name]
        return MetricHeader(None, reason="not_measured")


class History(msgspec.Struct, frozen=True):
    """Published evaluations of the present benchmarks and systems.

    Args:
        by_pair: (benchmark, system) -> evaluations, oldest first.
        damaged: A line for each results file that could not be read, or is not what was published.
    """

    by_pair: dict[tuple[str, str], list[ResultsHeader]]
    damaged: list[str]

    def newest(self) -> list[ResultsHeader]:
        """The last evaluation of each pair, by benchmark and system."""
        return [self.by_pair[pair][-1] for pair in sorted(self.by_pair)]


def read_history(workspace: Workspace) -> History:
    """The published results of registered benchmarks and systems."""
    benchmarks, systems = set(workspace.benchmarks()), set(workspace.systems())
    by_pair: dict[tuple[str, str], list[ResultsHeader]] = {}
    damaged = []
    for path in sorted(workspace.results.glob("*.results.json")):
        if path.name.startswith(SEVERAL):
            continue
        try:
            data = path.read_bytes()
            header = _header(path, data)
        except (msgspec.MsgspecError, OSError, KeyError) as error:
            damaged.append(f"{path}: expected a results file, found: {error} [corrupt_result]")
            continue
        if fault := fault_of(workspace, path, data):
            damaged.append(fault)  # named, and shown all the same: who looks shall know what there is
        if header.benchmark in benchmarks and header.system in systems:
            by_pair.setdefault((header.benchmark, header.system), []).append(header)
    for headers in by_pair.values():
        headers.sort(key=lambda header: (header.timestamp, header.evaluation_id))
    return History(by_pair, damaged)


def read_header(path: Path) -> ResultsHeader:
    """One results file without its questions.

    Raises:
        msgspec.MsgspecError: The file is no results file.
        KeyError: A figure that the leaderboard shows is not in it.
    """
    return _header(path, path.read_bytes())


def _header(path: Path, data: bytes) -> ResultsHeader:
    header = msgspec.json.decode(data, type=ResultsHeader)
    for name in ("f1", "abstention_f1", "citation_jaccard", "latency_p50_ms"):
        header.metric(name)  # these parts are only decoded when asked for: a damaged one is found here, by its file
    if path.name != f"{header.evaluation_id}.results.json":
        raise msgspec.ValidationError(f"the evaluation {header.evaluation_id}, which the file's name does not say")
    return header
