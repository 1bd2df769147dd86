"""What an evaluation measured beside its scores: time, memory, tokens, and where it ran."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version

from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS, verdict_file
from rag_eval_pipeline.evaluation.judged_results import judge_usage
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation, EvaluationRecord, load_evaluation
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.performance import CallUsage, api_usage, latency_intervals, latency_stats, resource_usage
from rag_eval_pipeline.systems.answer import RagAnswer
from rag_eval_pipeline.workspace import Workspace

NO_BASELINE = "no_baseline"
IN_VERDICTS = "in_verdict_file"


def performance(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, answers: Sequence[RagAnswer]
) -> form.PerformanceMetrics:
    """Figures of the evaluation that measured them: reused answers keep the time and the memory they took then."""
    sources = {answer.reused_from for answer in answers}
    source = sources.pop() if len(sources) == 1 else None  # answers of which some were measured now stand for now
    try:
        measured = load_evaluation(workspace, source) if source else evaluation
    except InputError:
        measured = evaluation  # that run was removed: its latencies stand with the answers, its samples are gone
    samples = json.loads(measured.resources.read_bytes()) if measured.resources.exists() else {}
    latencies = measured_latencies(answers)
    latency = latency_stats(latencies)
    is_free = pair.system_file.traits.is_free
    usage = api_usage(_call(answer, is_free=is_free) for answer in answers)

    def resource(name: str) -> form.ResourceUsage:
        used = resource_usage(samples.get(name, []))
        return form.ResourceUsage(mean=used.mean, peak=used.peak, std=used.std)

    return form.PerformanceMetrics(
        latency_stats={
            "mean": latency.mean, "p50": latency.p50, "p95": latency.p95, "p99": latency.p99, "min": latency.min,
            "max": latency.max,
        },
        latency_reason=latency.reason,
        latency_intervals=latency_intervals(latencies, seed=evaluation.record.settings.random_seed),
        resource_usage={"memory_mb": resource("memory_mb"), "cpu_percent": resource("cpu_percent")},
        resource_usage_of="evaluation" if _endpoints(pair) else "evaluation_and_system",
        api_usage={
            "total_tokens": usage.total_tokens,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_requests": usage.total_requests,
            "estimated_cost_usd": usage.estimated_cost_usd,
            "answers_without_tokens": usage.n_without_tokens,
        },
        judge_usage=judge_usage(read_judgements(evaluation)),
        reused_from=source,
    )  # fmt: skip


def measured_latencies(answers: Sequence[RagAnswer]) -> list[float]:
    """Of the answered questions, as far as their time was measured."""
    return [answer.latency_ms for answer in answers if answer.status == "ok" and answer.latency_ms is not None]


def against_baseline(workspace: Workspace, record: EvaluationRecord) -> form.SignificanceTest:
    """Name the file that will hold the verdict: an evaluation is compared with others only after it is published."""
    try:
        path = verdict_file(workspace, record.benchmark, record.system)
    except InputError as error:  # results are published all the same; the comparison says what is wrong with the file
        return form.SignificanceTest(reason=error.code)
    reason = NO_BASELINE if path.name == REGRESSIONS else IN_VERDICTS
    return form.SignificanceTest(reason=reason, verdicts=path.relative_to(workspace.root).as_posix())


def _call(answer: RagAnswer, *, is_free: bool) -> CallUsage:
    """What an answer took; its tokens are unknown where a paid system was asked and nobody counted any."""
    usage = answer.usage
    is_counted = is_free or usage.total_tokens > 0 or usage.requests == 0
    return CallUsage(
        total_tokens=usage.total_tokens if is_counted else None,
        requests=usage.requests,
        cost_usd=usage.estimated_cost_usd,
        prompt_tokens=usage.prompt_tokens if is_counted else None,
        completion_tokens=usage.completion_tokens if is_counted else None,
    )


def _limits(pair: Pair) -> dict[str, float | int]:
    """How long a question may take and how often it is asked, by the file of the system."""
    endpoints = _endpoints(pair)
    if not endpoints:  # a system in this process is asked once; a failure there is a fault, not the weather
        return {"timeout_seconds": pair.settings.timeout_seconds, "max_retries": 0}
    asked = endpoints[0]  # a blueprint has another, that takes in documents
    return {
        "timeout_seconds": asked.total_seconds,
        "attempt_timeout_seconds": asked.attempt_seconds,
        "max_retries": asked.max_retries,
    }


def _endpoints(pair: Pair) -> list[EndpointSettings]:
    """Servers of the system, the one that is asked first; none for a system that runs in this process."""
    return [one for _, one in pair.system_file.settings if isinstance(one, EndpointSettings)]


def metadata(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> form.ResultsMetadata:
    """Environment, parameters, and what was checked."""
    settings = evaluation.record.settings
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return form.ResultsMetadata(
        evaluation_environment={
            "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
            "software": f"Python {platform.python_version()}, rag-eval-pipeline {version('rag-eval-pipeline')}",
            "system_load": f"{load:.2f} a core",
        },
        evaluation_parameters={
            **_limits(pair),
            "random_seed": settings.random_seed,
            "tolerance_chars": settings.tolerance_chars,
            "min_coverage": settings.min_coverage,
        },
        quality_assurance={
            "data_validation": "passed",  # a dataset that does not validate is never stamped, hence never evaluated
            "metric_calculation": f"{len(SCORE_FILES)} score files of {evaluation.record.evaluation_id}",
            "statistical_tests": against_baseline(workspace, evaluation.record).verdicts,
        },
    )
