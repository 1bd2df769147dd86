"""Rows for ragas: `dataset.jsonl`, as `EvaluationDataset.from_jsonl` takes it, and `metadata.jsonl` beside it.

A row is a `SingleTurnSample` and our `query_id`, a key that ragas passes over. Further facts of a question stand in
`metadata.jsonl`, one `{query_id, metadata}` a line, because loaders that make a table of the rows need every row to
have the same columns with the same types.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.report import Written
from rag_eval_pipeline.exporting.source import ExportSource
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.json_text import each_key_once
from rag_eval_pipeline.formats.query_metadata import pack, unpack
from rag_eval_pipeline.formats.train_json import TrainRow
from rag_eval_pipeline.formats.trec_lines import lines
from rag_eval_pipeline.storage.atomic import publishing
from rag_eval_pipeline.systems.answer import RagAnswer


class RagasRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row; what is not known has no key.

    Args:
        query_id: Ours; ragas passes it over.
        user_input: The question.
        reference: The expected answer; absent when the question is impossible.
        reference_contexts: Gold texts.
        reference_context_ids: Relevant documents; empty when the source names none.
        retrieved_contexts: Passages in rank order; absent unless the system answered.
        retrieved_context_ids: The document of each passage.
        response: The answer as the system gave it, citations included; absent unless it answered.
    """

    query_id: str
    user_input: str
    reference_context_ids: list[str]
    reference: str | None = None
    reference_contexts: list[str] | None = None
    retrieved_contexts: list[str] | None = None
    retrieved_context_ids: list[str] | None = None
    response: str | None = None


def write_ragas(source: ExportSource, folder: Path) -> Written:
    """Writes both files; with an evaluation, one system's answers to the questions that it was asked.

    Not carried: the dataset's name, version, description and metadata; of an answer its status, citations, latency and
    the scores of passages.
    """
    queries, answers = source.dataset.queries, source.answers
    rows = [
        _row(source, query, row, None if answers is None else answers.of(query))
        for query, row in zip(queries, source.train_rows(), strict=True)
        if answers is None or query.query_id in answers.given
    ]
    judged = {row.query_id: row.reference_context_ids for row in rows}
    _write_lines(folder / "dataset.jsonl", (msgspec.to_builtins(row) for row in rows))
    _write_lines(
        folder / "metadata.jsonl",
        (
            {"query_id": query.query_id, "metadata": pack(query, judged=judged[query.query_id])}
            for query in queries
            if query.query_id in judged
        ),
    )
    counts = {"questions": len(rows)}
    notes = []
    if impossible := sum(row.reference is None for row in rows):
        notes.append(f"{impossible} of {len(rows)} questions are unanswerable and have no reference")
    if answers is None:
        return Written(counts, notes=tuple(notes))
    counts["answers"] = sum(row.response is not None for row in rows)
    lost = {
        "answer.status": answers.failed,
        "answer.abstained": sum(answer.abstained for answer in answers.given.values()),
        "answer.contexts.score": sum(p.score is not None for a in answers.given.values() for p in a.contexts),
    }
    return Written(counts, {name: number for name, number in lost.items() if number}, (*notes, *answers.notes()))


def read_ragas_rows(path: Path) -> Iterator[RagasRow]:
    """The rows of a `dataset.jsonl`.

    Raises:
        InputError: `missing_file`, or `bad_format` with the line.
    """
    return (_converted(path, number, value) for number, value in _read_lines(path))


def read_ragas(folder: Path, identity: Identity) -> EvaluationDataset:
    """The questions of such a folder.

    Raises:
        InputError: `missing_file`, `bad_format`.
    """
    path, rows = folder / "metadata.jsonl", folder / "dataset.jsonl"
    metadata: dict[str, dict[str, Any]] = {}
    for number, value in _read_lines(path):
        if set(value) != {"query_id", "metadata"} or not isinstance(value["metadata"], dict):
            raise InputError("bad_format", path, "query_id and metadata", row=number, found=value)
        metadata[value["query_id"]] = value["metadata"]
    return identity.dataset(
        rows,
        (
            unpack(row.query_id, row.user_input, row.reference_context_ids, metadata.get(row.query_id, {}))
            for row in read_ragas_rows(rows)
        ),
    )


def _row(source: ExportSource, query: EvaluationQuery, row: TrainRow, answer: RagAnswer | None) -> RagasRow:
    gold = [context if isinstance(context, str) else context.text for context in row.contexts]
    passages = None if answer is None else sorted(answer.contexts, key=lambda passage: passage.rank)
    return RagasRow(
        query_id=query.query_id,
        user_input=query.query_text,
        reference_context_ids=list(dict.fromkeys(map(source.names.canonical, query.relevant_documents))),
        reference=query.ground_truth_answer,
        reference_contexts=[text for text in gold if text is not None] or None,
        retrieved_contexts=None if passages is None else [passage.text for passage in passages],
        retrieved_context_ids=None if passages is None else [source.names.canonical(p.document) for p in passages],
        response=None if answer is None else answer.answer,
    )


def _converted(path: Path, number: int, value: dict[str, Any]) -> RagasRow:
    try:
        return msgspec.convert(value, RagasRow)
    except msgspec.ValidationError as error:
        raise InputError("bad_format", path, "a row as the export writes it", row=number, found=str(error)) from error


def _read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines(path):
        try:
            value = json.loads(line, object_pairs_hook=each_key_once)
        except (ValueError, RecursionError) as error:
            raise InputError("bad_format", path, "one JSON object a line", row=number, found=str(error)) from error
        if not isinstance(value, dict):
            raise InputError("bad_format", path, "one JSON object a line", row=number, found=value)
        yield number, value


def _write_lines(path: Path, values: Iterable[dict[str, Any]]) -> None:
    with publishing(path) as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n")
