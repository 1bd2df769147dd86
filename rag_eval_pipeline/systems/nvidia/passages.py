"""Retrieved chunks as the server lists them, read into the normal form."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rag_eval_pipeline.systems.answer import RetrievedPassage
from rag_eval_pipeline.systems.reading import AnswerReader


def read_passages(results: Iterable[Any], reader: AnswerReader, *, has_pages: bool) -> Iterator[RetrievedPassage]:
    """The passages in the server's order.

    Args:
        results: Of `citations`.
        reader: Of this system's answers.
        has_pages: The server's page numbers mean something.
    """
    listed = [result for result in results if isinstance(result, dict)]
    for rank, result in enumerate(listed, start=1):
        metadata = result.get("metadata")
        stated = metadata.get("page_number") if isinstance(metadata, dict) else None
        yield RetrievedPassage(
            document=reader.document(str(result.get("document_name") or "")),
            page=reader.page(stated) if has_pages else None,
            text=text_of(result),
            score=_score(result.get("score")),
            rank=rank,
            kind=str(result.get("document_type") or "text"),
        )


def text_of(result: Mapping[str, Any]) -> str:
    """What a chunk says: its content, or of a table, chart or picture, whose content is base64, the description."""
    metadata = result.get("metadata")
    description = metadata.get("description") if isinstance(metadata, dict) else None
    content = result.get("content")
    order = (content, description) if result.get("document_type") in (None, "", "text") else (description,)
    return next((text for text in order if isinstance(text, str) and text), "")


def _score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
