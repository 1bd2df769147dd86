"""Gold texts of a benchmark and the places where the corpus has them.

Where the source says that a text stands in its own body, and the body has it there, the same place is looked for in the
corpus. Offsets of that body are never written out, because they do not count what printing adds and takes away.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.catalogue import text_of_file
from rag_eval_pipeline.conversion.questions_file import questions_of
from rag_eval_pipeline.conversion.records import Context, Question
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.text.alignment import Hint, Stated, TextIndex
from rag_eval_pipeline.corpus.text.pages import Page, pages_by_document
from rag_eval_pipeline.storage import parquet
from rag_eval_pipeline.storage.atomic import publishing

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """A gold text and its place; a text that printing has torn apart has one of these for each piece.

    Args:
        question_id: Whose.
        file_name: Document that should have it.
        text: As the source has it; of a piece, what it has of the text.
        method: How it was found (`exact`, `normalised`, `citations`, `fuzzy`, `pieces`); None when it was not, and the
            offsets are 0.
        score: Similarity, 0 to 100; of pieces, the share of the gold text that they hold together.
        page: 1-based page on which it starts.
        start: First code point in the document's text; `end` is one past the last.
        page_start: The same counted from the page's first character.
        piece: Number of the piece, from 0; a gold text is counted by its piece 0.
    """

    question_id: int
    file_name: str
    text: str
    method: str | None
    score: float
    page: int
    start: int
    end: int
    page_start: int
    page_end: int
    piece: int = 0


def with_gold(batches: "Iterable[pa.RecordBatch]") -> Iterator[Question]:
    """The questions that have a gold text with a document.

    Args:
        batches: Columns of `questions.parquet`.
    """
    import pyarrow.compute as pc

    for batch in batches:
        items = batch.column("contexts").flatten()
        gold = pc.and_(items.field("file_name").is_valid(), items.field("text").is_valid())
        if gold.true_count:
            yield from questions_of(batch)


def locate_gold(
    questions: Iterable[Question], planned: Sequence[PlannedDocument], pages: Sequence[Page]
) -> list[GoldSpan]:
    """Every gold text with a document, located or not, in the questions' order; pieces of one follow each other."""
    texts = {name: [page.text for page in own] for name, own in pages_by_document(pages).items()}
    documents = {document.key: document for document in planned}
    indexes: dict[str, TextIndex] = {}

    @functools.cache
    def body_of(key: str) -> TextIndex | None:
        text = _body_text(documents.get(key))
        return TextIndex([text]) if text else None

    spans = []
    for question in questions:
        for context in question.contexts:
            if context.file_name is None or context.text is None:
                continue
            if context.file_name not in indexes:
                indexes[context.file_name] = TextIndex(texts.get(context.file_name, []))
            spans.extend(_locate(question.id, context.file_name, context, indexes[context.file_name], body_of))
    return spans


def _body_text(document: PlannedDocument | None) -> str | None:
    if document is None:
        return None
    return document.content or text_of_file(document.body, document.path)


def _locate(
    question_id: int,
    file_name: str,
    context: Context,
    index: TextIndex,
    body_of: Callable[[str], TextIndex | None],
) -> list[GoldSpan]:
    text = context.text or ""
    hint = Hint(page=context.page)
    body = body_of(context.document) if context.document is not None and context.start is not None else None
    if body is not None and context.start is not None:
        stated = None if context.end is None else Stated(body, context.start, context.end)
        hint = Hint(context.page, context.start / len(body.text), stated)
    found = index.locate(text, hint)
    if not found:
        return [GoldSpan(question_id, file_name, text, None, 0.0, 1, 0, 0, 0, 0)]
    return [
        GoldSpan(
            question_id, file_name, at.text if len(found) > 1 else text, at.method, at.score, at.page, at.start, at.end,
            at.page_start, at.page_end, piece,
        )
        for piece, at in enumerate(found)
    ]  # fmt: skip


def write_gold_spans(path: Path, spans: Sequence[GoldSpan]) -> None:
    """Publishes the spans, one row each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        {
            "question_id": pa.int64(),
            "file_name": pa.string(),
            "text": pa.string(),
            "method": pa.string(),
            "score": pa.float64(),
            **{name: pa.int64() for name in ("page", "start", "end", "page_start", "page_end", "piece")},
        }
    )
    with publishing(path) as file:
        pq.write_table(pa.Table.from_pylist([asdict(span) for span in spans], schema=schema), file)


def read_gold_spans(path: Path) -> list[GoldSpan]:
    """The spans of a file."""
    return [GoldSpan(**row) for row in parquet.read_rows(path)]
