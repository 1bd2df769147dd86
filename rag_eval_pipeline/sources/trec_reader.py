"""TREC qrels and topics as relations: `query_id, document_id, relevance`, and `query_id, title, ...`."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.trec import checked_qrels
from rag_eval_pipeline.formats.trec_topics import Topic, checked_topics
from rag_eval_pipeline.sources.decoded import Piece, SourceFile, UnreadRow, object_piece

PIECE_ROWS = 20_000


def read_qrels(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """Judgements: `query_id`, `document_id`, `relevance`, a grade."""
    return _pieces(
        file, checked_qrels, lambda q: {"query_id": q.query_id, "document_id": q.document_id, "relevance": q.grade}
    )


def read_topics(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """Topics: `query_id`, `title`, `description`, `narrative`; null where a topic has none."""
    return _pieces(file, checked_topics, lambda topic: _topic_row(topic))


def _topic_row(topic: Topic) -> dict[str, str | None]:
    return {
        "query_id": topic.query_id,
        "title": topic.text,
        "description": topic.description,
        "narrative": topic.narrative,
    }


def _pieces(
    file: SourceFile, checked: Callable[[Path], Iterable[Any]], row: Callable[[Any], dict[str, Any]]
) -> Iterator[Piece]:
    records = enumerate(checked(file.path), start=1)
    while group := list(islice(records, PIECE_ROWS)):
        good = [(number, record) for number, record in group if not isinstance(record, InputError)]
        unread = [
            UnreadRow(file.name, number, error.row, error.code, error.expected, error.found, error.field)
            for number, error in group
            if isinstance(error, InputError)
        ]
        yield object_piece([row(record) for _, record in good], [number for number, _ in good], (), unread, file.kinds)
