"""Rows for ragas: `dataset.jsonl`, as `EvaluationDataset.from_jsonl` reads it, and `metadata.jsonl` beside it.

A row is a `SingleTurnSample` with a `query_id`, which ragas ignores. Further facts about a question are in
`metadata.jsonl`, because loaders that make a table of the rows need the same columns and types in every row.
"""

from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.exports.source import ExportSource, Written
from rag_eval_pipeline.formats.beir import pack_metadata, unpack_metadata
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.train_json import TrainRow
from rag_eval_pipeline.formats.trec import read_json_lines, write_json_lines
from rag_eval_pipeline.systems.base import RagAnswer


class RagasRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row; unknown values have no key, and passages are in rank order."""

    query_id: str
    user_input: str
    reference_context_ids: list[str]
    reference: str | None = None
    reference_contexts: list[str] | None = None
    retrieved_contexts: list[str] | None = None
    retrieved_context_ids: list[str] | None = None
    response: str | None = None


class _Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query_id: str
    metadata: dict[str, Any]


def write_ragas(source: ExportSource, folder: Path) -> Written:
    """Write both files; with an evaluation, only the questions that its system was asked."""
    answers = source.answers
    asked = [
        (query, row)
        for query, row in zip(source.dataset.queries, source.train_rows(), strict=True)
        if answers is None or query.query_id in answers.given
    ]
    rows = [_row(source, query, row, None if answers is None else answers.of(query)) for query, row in asked]
    metadata = [
        _Metadata(query.query_id, pack_metadata(query, judged=row.reference_context_ids))
        for (query, _), row in zip(asked, rows, strict=True)
    ]
    write_json_lines(folder / "dataset.jsonl", rows)
    write_json_lines(folder / "metadata.jsonl", metadata)
    unanswerable = sum(row.reference is None for row in rows)
    note = f"{unanswerable} of {len(rows)} questions are unanswerable and have no reference"
    notes = (note,) if unanswerable else ()
    if answers is None:
        return Written({"questions": len(rows)}, notes=notes)
    counts = {"questions": len(rows), "answers": sum(row.response is not None for row in rows)}
    lost = {
        "answer.status": answers.failed,
        "answer.abstained": answers.abstained,
        "answer.contexts.score": answers.passage_scores,
    }
    return Written(counts, lost, notes + answers.notes)


def read_ragas(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions of such a folder."""
    metadata = {line.query_id: line.metadata for line in read_json_lines(folder / "metadata.jsonl", _Metadata)}
    rows = read_json_lines(folder / "dataset.jsonl", RagasRow)
    return tuple(
        unpack_metadata(row.query_id, row.user_input, row.reference_context_ids, metadata[row.query_id]) for row in rows
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
        response=None if answer is None or answer.answer is None else strip_citations(answer.answer),
    )
