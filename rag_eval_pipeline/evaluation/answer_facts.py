"""Latency, memory, tokens and costs of the answers of one evaluation."""

import json
import math
from array import array
from typing import Literal

import numpy as np

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.answer_notes import AnswerNotes
from rag_eval_pipeline.evaluation.corpus_names import RetrievedDocuments
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.judging import JudgementCounts
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.performance import latency_intervals, latency_stats, resource_usage
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.workspace import Workspace

FIRST_KEPT = 5  # results of questions, for a preview


class AnswerFacts:
    """What results state of the answers of a run, gathered answer by answer."""

    def __init__(self, pair: Pair) -> None:
        self.questions = 0
        self.answered = 0
        self.latencies = array("d")  # measured ones, of answered questions
        self.sources: set[str | None] = set()  # the evaluations that measured them; None for this one
        # By column: objects that stay would keep the memory of the rows that were made between them.
        self._usage = tuple(array("d") for _ in range(5))
        self.passages = RetrievedDocuments(pair.files, pair.system_file.kind)
        self.notes = AnswerNotes(pair.files)
        self.first: list[form.QueryResult] = []
        self._is_free = pair.system_file.traits.is_free

    def add(self, answer: RagAnswer, result: form.QueryResult | None = None) -> None:
        """Note one answer, with its result if the first ones are to be kept."""
        self.questions += 1
        if answer.status == "ok":
            self.answered += 1
            if answer.latency_ms is not None:
                self.latencies.append(answer.latency_ms)
        self.sources.add(answer.reused_from)
        for column, used in zip(self._usage, _usage(answer, is_free=self._is_free), strict=True):
            column.append(used)
        self.passages.add(answer)
        self.notes.add(answer)
        if result is not None and len(self.first) < FIRST_KEPT:
            self.first.append(result)

    @property
    def api_usage(self) -> dict[form.ApiUsageName, float | None]:
        """Sums of what the answers used; None where no answer reports it."""
        known = (np.asarray(column)[~np.isnan(column)] for column in self._usage)
        tokens, requests, costs, prompts, completions = known
        return {
            "total_tokens": int(tokens.sum()) if tokens.size else None,
            "prompt_tokens": int(prompts.sum()) if prompts.size else None,
            "completion_tokens": int(completions.sum()) if completions.size else None,
            "total_requests": int(requests.sum()),
            "estimated_cost_usd": math.fsum(costs) if costs.size else None,
            "answers_without_tokens": self.questions - tokens.size,
        }


def performance(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, facts: AnswerFacts, judgements: JudgementCounts
) -> form.PerformanceMetrics:
    """Measure time, memory and tokens; reused answers keep the values of the evaluation that measured them."""
    # If some were measured now, all count as measured now.
    source = next(iter(facts.sources)) if len(facts.sources) == 1 else None
    try:
        measured = load_evaluation(workspace, source) if source else evaluation
    except InputError:
        measured = evaluation  # that run was removed: its latencies are in the answers, its samples are lost
    samples = json.loads(measured.resources.read_bytes()) if measured.resources.exists() else {}
    latency = latency_stats(facts.latencies)
    names: tuple[Literal["memory_mb", "cpu_percent"], ...] = ("memory_mb", "cpu_percent")
    return form.PerformanceMetrics(
        latency_stats={name: getattr(latency, name) for name in ("mean", "p50", "p95", "p99", "min", "max")},
        latency_reason=latency.reason,
        latency_intervals=latency_intervals(facts.latencies, seed=evaluation.record.settings.random_seed),
        resource_usage={name: form.ResourceUsage(**resource_usage(samples.get(name, []))) for name in names},
        resource_usage_of="evaluation" if system_endpoints(pair) else "evaluation_and_system",
        api_usage=facts.api_usage,
        judge_usage=judgements.usage,
        in_flight=evaluation.record.in_flight,
        reused_from=source,
    )


def _usage(answer: RagAnswer, *, is_free: bool) -> tuple[float, ...]:
    """Return tokens, requests (retries included), cost, and the tokens by kind; NaN where they are not known.

    Tokens and cost are unknown if a paid system was asked and neither is above 0.
    """
    usage = answer.usage
    is_counted = is_free or usage.total_tokens > 0 or usage.requests == 0
    is_priced = is_free or usage.estimated_cost_usd > 0 or usage.requests == 0
    tokens = (usage.total_tokens, usage.prompt_tokens, usage.completion_tokens) if is_counted else (math.nan,) * 3
    return (tokens[0], usage.requests, usage.estimated_cost_usd if is_priced else math.nan, *tokens[1:])


def system_endpoints(pair: Pair) -> list[EndpointSettings]:
    """Return the servers of a system, the one that answers questions first."""
    return [one for _, one in pair.system_file.settings if isinstance(one, EndpointSettings)]
