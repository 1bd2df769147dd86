"""Samples for Inspect: `dataset.jsonl`, as `json_dataset` reads it, and with an evaluation `answers.json`.

`answers.json` is an eval log with the stored answers: `inspect score answers.json --scorer ...` scores them without
asking the system again. Citation marks are removed from them, as before our own scoring: `match` compares the end of an
answer. A question that failed is a sample with an error, which scorers count as wrong.

An unanswerable question has a sentence as its target, because Inspect's `includes` finds an empty target in any answer.

Source: Inspect, Datasets, and `inspect_ai.log.EvalLog` (version 2).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.exports.source import OURS, Answers, ExportSource, Written, answer_facts
from rag_eval_pipeline.formats.beir import pack_metadata, unpack_metadata
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.trec import read_json_lines, write_json_lines
from rag_eval_pipeline.storage.atomic_files import atomic_write_json
from rag_eval_pipeline.systems.base import RagAnswer

UNANSWERABLE = "The documents do not answer this question."
LOG_VERSION = 2


class InspectSample(msgspec.Struct, frozen=True):
    """A sample; any one of several targets is right."""

    id: str
    input: str
    target: str | list[str]
    metadata: dict[str, Any]


def write_inspect(source: ExportSource, folder: Path) -> Written:
    """Write `dataset.jsonl` and, with answers, `answers.json`."""
    queries = source.dataset.queries
    samples = {query.query_id: _sample(query) for query in queries}
    write_json_lines(folder / "dataset.jsonl", samples.values())
    notes = tuple(_notes(source))
    if source.answers is None:
        return Written({"questions": len(samples)}, notes=notes)
    asked = [(samples[query_id], answer) for query_id, answer in source.answers.given.items()]
    atomic_write_json(folder / "answers.json", _log(source, source.answers, asked))
    counts = {"questions": len(samples), "answers": len(asked) - source.answers.failed}
    return Written(counts, notes=(*notes, *source.answers.notes))


def read_inspect(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions of such a folder."""
    samples = read_json_lines(folder / "dataset.jsonl", InspectSample)
    return tuple(unpack_metadata(sample.id, sample.input, (), sample.metadata) for sample in samples)


def _sample(query: EvaluationQuery) -> InspectSample:
    target = UNANSWERABLE if query.is_impossible else query.accepted_answers or ""
    return InspectSample(query.query_id, query.query_text, target, pack_metadata(query, judged=()))


def _notes(source: ExportSource) -> Iterator[str]:
    queries = source.dataset.queries
    if impossible := sum(query.is_impossible for query in queries):
        yield (
            f"{impossible} of {len(queries)} questions are unanswerable: their target is {UNANSWERABLE!r}, which a "
            "model can grade; includes and match look for these very words; --answerable-only leaves them out"
        )
    if unlabelled := sum(not query.is_impossible and not query.accepted_answers for query in queries):
        yield (
            f"{unlabelled} of {len(queries)} questions have no accepted answer: their target is empty, which includes "
            "finds in any answer"
        )


def _log(source: ExportSource, answers: Answers, asked: list[tuple[InspectSample, RagAnswer]]) -> dict[str, Any]:
    name = source.dataset.dataset_id
    return {
        "version": LOG_VERSION,
        "status": "success",
        "eval": {
            "eval_id": answers.evaluation_id,
            "run_id": answers.evaluation_id,
            "task_id": name,
            "task": name,
            "created": answers.opened_at.isoformat(),
            "dataset": {"name": name, "samples": len(asked), "sample_ids": [sample.id for sample, _ in asked]},
            "model": f"none/{answers.system}",  # `none` has no interface, so that scoring never asks it
            "config": {},
        },
        "samples": [_logged(sample, answer, answers.system) for sample, answer in asked],
    }


def _logged(sample: InspectSample, answer: RagAnswer, system: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": sample.input}]
    logged: dict[str, Any] = msgspec.to_builtins(sample) | {
        "epoch": 1,
        "metadata": {**sample.metadata, OURS: answer_facts(answer)},
        "messages": messages,
        "output": {"model": system, "choices": []},
    }
    if answer.latency_ms is not None:
        logged["total_time"] = answer.latency_ms / 1000
    if answer.answer is None:
        logged["error"] = {"message": answer.error or answer.status, "traceback": "", "traceback_ansi": ""}
        return logged
    message = {"role": "assistant", "content": strip_citations(answer.answer)}
    usage = answer.usage
    messages.append(message)
    logged["output"]["choices"].append({"message": message, "stop_reason": "stop"})
    if usage.total_tokens:
        logged["output"]["usage"] = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }
    return logged
