"""NVIDIA's evaluation root: `corpus/` with the documents, and `train.json`; `evaluate_rag.py --dataset-paths` reads it.

With an evaluation, also the files that the driver leaves: `rag_<label>_evaluation_{data,summary,results,metrics}.json`
below `results/<label>/`. Unlike the driver's, rows are in the dataset's order, failed questions have a null answer and
null scores, and `contexts` holds the gold texts.

Source: Dataset layout, `train.json`, and conversion.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.exports.folder import copy_checked
from rag_eval_pipeline.exports.source import Answers, ExportSource, Written
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.train_json import TrainRow, read_train_json
from rag_eval_pipeline.storage.atomic_files import atomic_write_json
from rag_eval_pipeline.systems.base import RagAnswer

# HTTP clients percent-encode these in the name of an uploaded file, and servers do not decode them.
ENCODED_BY_UPLOAD = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
LISTED_BY_DRIVER = 1000  # documents; the driver requests no more and uploads again what it does not see

JUDGED = ("nv_accuracy", "nv_context_relevance", "nv_response_groundedness")
TOKENS = ("total_tokens", "prompt_tokens", "completion_tokens")


def write_nvidia(source: ExportSource, folder: Path) -> Written:
    """Write `corpus/`, `train.json` and, with answers, `results/<label>/`."""
    rows = source.train_rows()
    names = [document.file_name for document in source.documents]
    (folder / "corpus").mkdir()
    for name, document in zip(names, source.documents, strict=True):
        copy_checked(source.paths.corpus / name, folder / "corpus" / name, document.pdf_sha256 or "")
    atomic_write_json(folder / "train.json", msgspec.to_builtins(rows))
    counts, notes = {"questions": len(rows), "documents": len(names)}, (*name_notes(names), *_impossible_note(rows))
    if source.answers is None:
        return Written(counts, notes=notes)
    results = _write_results(source, source.answers, rows, folder / "results" / source.label)
    return Written(counts | results.counts, results.lost, (*notes, *results.notes))


def read_nvidia(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions of an evaluation root."""
    return tuple(map(_query, read_train_json(folder / "train.json")))


def name_notes(names: Sequence[str]) -> Iterator[str]:
    """Yield what the driver and the ingestor do with these file names that a user has to know."""
    for name in names:
        uploaded = name.translate(ENCODED_BY_UPLOAD)
        if uploaded != name:
            yield f"{name!r} is uploaded as {uploaded!r}: answers will use that name"
    if len(names) > LISTED_BY_DRIVER:
        yield (
            f"evaluate_rag.py sees only {LISTED_BY_DRIVER} of {len(names)} ingested documents and uploads the others "
            "again; pass --skip_ingestion once they are ingested"
        )


def _impossible_note(rows: Sequence[TrainRow]) -> Iterator[str]:
    """Yield what the driver does with questions that have no answer: its metrics know no refusal."""
    if impossible := sum(row.is_impossible for row in rows):
        yield (
            f"{impossible} of {len(rows)} questions have no answer in the corpus; evaluate_rag.py compares a refusal "
            'with the answer "" and scores it as wrong; --answerable-only leaves them out'
        )


def _query(row: TrainRow) -> EvaluationQuery:
    answer = None if row.is_impossible else row.answer
    return EvaluationQuery(
        query_id=str(row.id),
        query_text=row.question,
        relevant_documents=tuple(dict.fromkeys(_file_names(row))),
        ground_truth_answer=answer,
        metadata={"is_impossible": row.is_impossible, "answers": [] if answer is None else [answer]},
    )


def _file_names(row: TrainRow) -> Iterator[str]:
    return (context.filename for context in row.contexts if not isinstance(context, str))


def _write_results(source: ExportSource, answers: Answers, rows: Sequence[TrainRow], folder: Path) -> Written:
    queries = source.dataset.queries
    asked = [(query, row) for query, row in zip(queries, rows, strict=True) if query.query_id in answers.given]
    usages = [_usage(answers.of(query)) for query, _ in asked]
    data = [_row(row, answers.of(query), usage) for (query, row), usage in zip(asked, usages, strict=True)]
    results: dict[str, Any] = {
        metric: [answers.scores.get(query.query_id, {}).get(metric) for query, _ in asked] for metric in JUDGED
    }
    means = {metric: _mean(results[metric]) for metric in JUDGED}
    summary: dict[str, Any] = {f"{metric}_mean": mean for metric, mean in means.items()}
    token_usage = _token_usage([usage for usage in usages if usage])
    if token_usage["sample_count"]:
        summary["token_usage"] = results["token_usage"] = token_usage
        results["token_usage_per_sample"] = usages
    metrics = {"ingestion_metrics_list": [], "evaluation_metrics": means, "token_usage": token_usage}
    for name, value in (("data", data), ("summary", summary), ("results", results), ("metrics", metrics)):
        atomic_write_json(folder / f"rag_{source.label}_evaluation_{name}.json", value)
    lost = {
        "answer.status": answers.failed,
        "answer.abstained": answers.abstained,
        "answer.citations": sum(len(answer.citations) for answer in answers.given.values()),
        "answer.latency_ms": sum(answer.latency_ms is not None for answer in answers.given.values()),
        "answer.contexts.score": answers.passage_scores,
    }
    return Written({"answers": len(asked) - answers.failed}, lost, answers.notes)


def _row(row: TrainRow, answer: RagAnswer | None, usage: dict[str, int] | None) -> dict[str, Any]:
    passages = () if answer is None else sorted(answer.contexts, key=lambda passage: passage.rank)
    gold = (context if isinstance(context, str) else context.text for context in row.contexts)
    return {
        "id": row.id,
        "question": row.question,
        "answer": row.answer,
        "generated_answer": None if answer is None or answer.answer is None else strip_citations(answer.answer),
        "contexts": [text for text in gold if text is not None],
        "generated_contexts": [passage.text for passage in passages],
        "retrieved_docs": [one.document if one.page is None else f"{one.document}_{one.page}" for one in passages],
        "usage": usage,
    }


def _usage(answer: RagAnswer | None) -> dict[str, int] | None:
    if answer is None:
        return None
    given = msgspec.to_builtins(answer.usage)
    counts = {name: given[name] for name in TOKENS if given.get(name) is not None}
    return counts if any(counts.values()) else None


def _token_usage(usages: Sequence[dict[str, int]]) -> dict[str, float | None]:
    known = {name: [usage[name] for usage in usages if name in usage] for name in TOKENS}
    totals = {name: sum(counts) if counts or not usages else None for name, counts in known.items()}
    means = {
        f"mean_{name}": None if total is None or not usages else total / len(usages)
        for name, total in totals.items()
        if name != "total_tokens"
    }
    return {**totals, "sample_count": len(usages), **means}


def _mean(scores: Sequence[float | None]) -> float | None:
    scored = [score for score in scores if score is not None]
    return sum(scored) / len(scored) if scored else None
