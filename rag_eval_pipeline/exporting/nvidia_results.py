"""The four files that NVIDIA's driver leaves of an evaluation, in its shapes, of answers that this project keeps.

`rag_<label>_evaluation_{data,summary,results,metrics}.json`. Unlike the driver's, rows stand in the dataset's order,
a failed question has a null for its answer and its scores and is no empty answer, and `contexts` holds the gold texts
that the driver always leaves out. Where no judge has scored, null stands. Nothing was ingested by the driver, so
`ingestion_metrics_list` is empty.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.exporting.answers import Answers
from rag_eval_pipeline.exporting.report import Written
from rag_eval_pipeline.exporting.source import ExportSource
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.formats.train_json import TrainRow
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage

JUDGED = ("nv_accuracy", "nv_context_relevance", "nv_response_groundedness")
TOKENS = ("total_tokens", "prompt_tokens", "completion_tokens")


def write_results(source: ExportSource, answers: Answers, rows: Sequence[TrainRow], folder: Path) -> Written:
    """Writes the four files for the questions that were asked.

    Args:
        source: What is exported.
        answers: One system's.
        rows: Of `train.json`, in the dataset's order.
        folder: As the driver's `<output_dir>/<label>`.
    """
    asked = [
        (query, row) for query, row in zip(source.dataset.queries, rows, strict=True) if query.query_id in answers.given
    ]
    usages = [_usage(answers.of(query)) for query, _ in asked]
    data = [_row(query, row, answers, usage) for (query, row), usage in zip(asked, usages, strict=True)]
    results: dict[str, Any] = {
        measure: [answers.scores.get(query.query_id, {}).get(measure) for query, _ in asked] for measure in JUDGED
    }
    means = {measure: _mean(results[measure]) for measure in JUDGED}
    summary: dict[str, Any] = {f"{measure}_mean": mean for measure, mean in means.items()}
    token_usage = _token_usage([usage for usage in usages if usage])
    if token_usage["sample_count"]:
        summary["token_usage"] = results["token_usage"] = token_usage
        results["token_usage_per_sample"] = usages
    metrics = {"ingestion_metrics_list": [], "evaluation_metrics": means, "token_usage": token_usage}
    for name, value in (("data", data), ("summary", summary), ("results", results), ("metrics", metrics)):
        atomic_write_json(folder / f"rag_{source.label}_evaluation_{name}.json", value)
    return Written({"answers": len(asked) - answers.failed}, _lost(answers), tuple(answers.notes()))


def _row(query: EvaluationQuery, row: TrainRow, answers: Answers, usage: dict[str, int] | None) -> dict[str, Any]:
    answer = answers.of(query)
    passages = () if answer is None else sorted(answer.contexts, key=lambda passage: passage.rank)
    gold = (context if isinstance(context, str) else context.text for context in row.contexts)
    return {
        "id": row.id,
        "question": row.question,
        "answer": row.answer,
        "generated_answer": None if answer is None else answer.answer,
        "contexts": [text for text in gold if text is not None],
        "generated_contexts": [passage.text for passage in passages],
        "retrieved_docs": [_retrieved(passage) for passage in passages],
        "usage": usage,
    }


def _retrieved(passage: RetrievedPassage) -> str:
    """As the driver names it: the page behind the last underscore, where it is known."""
    return passage.document if passage.page is None else f"{passage.document}_{passage.page}"


def _usage(answer: RagAnswer | None) -> dict[str, int] | None:
    """Token counts that the system gave; None when it gave none, as the driver has it for zeros."""
    if answer is None:
        return None
    given = msgspec.to_builtins(answer.usage)
    counts = {name: given[name] for name in TOKENS if given.get(name) is not None}
    return counts if any(counts.values()) else None


def _token_usage(usages: Sequence[dict[str, int]]) -> dict[str, float | None]:
    """Sums and means over the answers with usage; null where none says."""

    def total(name: str) -> int | None:
        known = [usage[name] for usage in usages if name in usage]
        return sum(known) if known or not usages else None

    prompt, completion = total("prompt_tokens"), total("completion_tokens")
    return {
        "total_tokens": total("total_tokens"),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "sample_count": len(usages),
        "mean_prompt_tokens": None if prompt is None or not usages else prompt / len(usages),
        "mean_completion_tokens": None if completion is None or not usages else completion / len(usages),
    }


def _mean(scores: Sequence[float | None]) -> float | None:
    scored = [score for score in scores if score is not None]
    return sum(scored) / len(scored) if scored else None


def _lost(answers: Answers) -> dict[str, int]:
    """What the driver's rows have no key for."""
    counts = {
        "answer.status": answers.failed,
        "answer.abstained": sum(answer.abstained for answer in answers.given.values()),
        "answer.citations": sum(len(answer.citations) for answer in answers.given.values()),
        "answer.latency_ms": len(answers.given),
        "answer.contexts.score": sum(p.score is not None for a in answers.given.values() for p in a.contexts),
    }
    return {name: number for name, number in counts.items() if number}
