"""`questions.parquet`: the accepted questions, one row each, everything about them that train.json may not carry.

`read_questions(write_questions(x)) == x`. Metadata is JSON text in one column, so that benchmarks of any shape share
one schema.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rag_eval_pipeline.conversion.records import Context, Question
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import publishing

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_ROWS = 4_096  # questions in a row group; bounds the memory of a reader that goes through the file


def schema() -> "pa.Schema":
    """Columns of the file, in order."""
    import pyarrow as pa

    context = pa.struct(
        [
            ("document", pa.string()),
            ("file_name", pa.string()),
            ("text", pa.string()),
            ("page", pa.int64()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("relevance", pa.int64()),
            ("url", pa.string()),
        ]
    )
    return pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("question", pa.string(), nullable=False),
            pa.field("answer", pa.string(), nullable=False),
            pa.field("answers", pa.list_(pa.string()), nullable=False),
            pa.field("is_impossible", pa.bool_(), nullable=False),
            pa.field("contexts", pa.list_(context), nullable=False),
            ("source_id", pa.string()),
            ("query_type", pa.string()),
            ("difficulty", pa.string()),
            pa.field("metadata", pa.string(), nullable=False),
            ("source_file", pa.string()),
            ("source_row", pa.int64()),
        ]
    )


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Publishes the file atomically.

    Args:
        path: Where.
        questions: In order of their ids.
    """
    remaining = iter(questions)
    write_batches(path, (batch_of(group) for group in iter(lambda: list(islice(remaining, BATCH_ROWS)), [])))


def write_batches(path: Path, batches: "Iterable[pa.RecordBatch]") -> None:
    """Publishes questions that are columns already; equal batches give equal bytes."""
    with publishing(path) as file, writer(file) as table:
        for batch in batches:
            table.write_batch(batch)


def writer(file: BinaryIO) -> "pq.ParquetWriter":
    """Writes the file's columns; what `write_batch` is given becomes a row group."""
    import pyarrow.parquet as pq

    # Texts hardly repeat: dictionaries and statistics save nothing, and packing takes three times the writing.
    return pq.ParquetWriter(file, schema(), compression="none", use_dictionary=False, write_statistics=False)


def read_questions(path: Path) -> list[Question]:
    """All questions of the file, in its order.

    Raises:
        InputError: `bad_parquet`.
    """
    return list(iterate_questions(path))


def iterate_questions(path: Path) -> Iterator[Question]:
    """Questions one by one, a row group in memory at a time.

    Raises:
        InputError: `bad_parquet`.
    """
    for batch in iterate_batches(path):
        yield from questions_of(batch)


def iterate_batches(path: Path, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
    """Questions as columns, a row group at a time.

    Args:
        path: Of the file.
        columns: Which; of contexts also single fields, as `contexts.list.element.text`. None: all.

    Raises:
        InputError: `bad_parquet`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group, columns).combine_chunks().to_batches()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InputError(
            "bad_parquet",
            path,
            "a questions.parquet",
            found=str(error).splitlines()[0],
            hint="Convert the benchmark again.",
        ) from None


def batch_of(questions: Sequence[Question]) -> "pa.RecordBatch":
    """Questions as columns."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([_record(question) for question in questions], schema=schema())


def questions_of(batch: "pa.RecordBatch") -> list[Question]:
    """Columns as questions."""
    return [_question(record) for record in batch.to_pylist()]


def _record(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.question,
        "answer": question.answer,
        "answers": question.answers,
        "is_impossible": question.is_impossible,
        "contexts": [_fields(context) for context in question.contexts],
        "source_id": question.source_id,
        "query_type": question.query_type,
        "difficulty": question.difficulty,
        "metadata": json.dumps(question.metadata, ensure_ascii=False, allow_nan=False),
        "source_file": question.source_file,
        "source_row": question.source_row,
    }


def _fields(context: Context) -> dict[str, Any]:
    return {
        "document": context.document,
        "file_name": context.file_name,
        "text": context.text,
        "page": context.page,
        "start": context.start,
        "end": context.end,
        "relevance": context.relevance,
        "url": context.url,
    }


def _question(record: dict[str, Any]) -> Question:
    contexts: Sequence[dict[str, Any]] = record.pop("contexts")
    answers: Sequence[str] = record.pop("answers")
    metadata: str = record.pop("metadata")
    return Question(
        **record,
        answers=tuple(answers),
        contexts=tuple(Context(**context) for context in contexts),
        metadata=json.loads(metadata),
    )
