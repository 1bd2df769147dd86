"""`data/benchmarks/**.benchmark.json`: the newest figures of every pair by what is measured, for other programs.

Latency and throughput under `performance/`, retrieval quality and citation accuracy under `quality/`. Source:
Evaluation Data Formats 3.1.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rag_eval_pipeline.formats.model import SCHEMA_VERSION
from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader, read_history
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.workspace import Workspace


def write_benchmark_files(workspace: Workspace) -> list[Path]:
    """Publishes the four files; equal results give equal bytes."""
    rows = read_history(workspace).newest()
    paths = []
    for name, (folder, figures) in FILES.items():
        path = workspace.root / "data" / "benchmarks" / folder / f"{name}.benchmark.json"
        entries = [{**_head(row), **figures(row)} for row in rows]
        atomic_write_json(path, {"schema_version": SCHEMA_VERSION, "benchmark": name, "entries": entries})
        paths.append(path)
    return paths


def _head(row: ResultsHeader) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark,
        "system": row.system,
        "system_version": row.system_version,
        "dataset_version": row.dataset_version,
        "evaluation_id": row.evaluation_id,
        "timestamp": row.timestamp.isoformat(),
        "queries": row.summary["total_queries"],
        "failed": row.summary["failed_queries"],
    }


def _latency(row: ResultsHeader) -> dict[str, Any]:
    figures = row.performance_metrics
    return {"latency_ms": figures["latency_stats"], "reused_from": figures.get("reused_from")}


def _throughput(row: ResultsHeader) -> dict[str, Any]:
    seconds, answered = row.summary["total_evaluation_time_seconds"], row.summary["successful_queries"]
    # Answers that were copied took no time: their rate would say nothing of the system.
    is_measured = bool(seconds) and not row.performance_metrics.get("reused_from")
    return {
        "seconds": seconds,
        "queries_per_second": (answered or 0) / seconds if is_measured and seconds else None,
        "reason": None if is_measured else "answers_were_reused",
        "resource_usage": row.performance_metrics["resource_usage"],
    }


def _retrieval(row: ResultsHeader) -> dict[str, Any]:
    return {
        "level": row.retrieval_level,
        "by_document": _metrics(row.retrieval_metrics),
        "by_page": _metrics(row.page_retrieval_metrics),
    }


def _citations(row: ResultsHeader) -> dict[str, Any]:
    return {"span_accuracy": row.citation_metrics["span_accuracy"]}


def _metrics(metrics: Mapping[str, MetricHeader]) -> dict[str, Any]:
    return {
        name: {
            "value": metric.value,
            "confidence_interval": metric.confidence_interval,
            "n_scored": metric.n_scored,
            "coverage": metric.coverage,
            "reason": metric.reason,
        }
        for name, metric in metrics.items()
    }


# Name -> folder, and what of a results file stands in it.
FILES: dict[str, tuple[str, Callable[[ResultsHeader], dict[str, Any]]]] = {
    "latency_benchmarks": ("performance", _latency),
    "throughput_benchmarks": ("performance", _throughput),
    "retrieval_quality_benchmarks": ("quality", _retrieval),
    "citation_accuracy_benchmarks": ("quality", _citations),
}
