"""Cited places in document offsets, and the words of the documents that they stand in."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.metrics.span_columns import Citation, Span
from rag_eval_pipeline.metrics.span_tokens import Tokens, tokens_of
from rag_eval_pipeline.systems.corpus import PageText


class Place(Protocol):
    """A cited place, whoever names it."""

    @property
    def file_name(self) -> str: ...  # noqa: D102
    @property
    def start_char(self) -> int: ...  # noqa: D102
    @property
    def end_char(self) -> int: ...  # noqa: D102


def places(cited: Iterable[Place], files: CorpusFiles) -> list[Citation]:
    """Citations as the measures take them.

    Pages are left out: document offsets say where a span is, and a page says it again, less exactly.
    """
    return [Citation(files.canonical(c.file_name), None, Span(c.start_char, c.end_char)) for c in cited]


def cited_words(files: CorpusFiles, *sides: Sequence[Sequence[Citation]]) -> dict[str, Tokens]:
    """Words of the documents that are cited on any side, by file name."""
    cited = {citation.file_name for side in sides for one in side for citation in one}
    pages: dict[str, list[PageText]] = {}
    for page in files.pages():
        if page.document in cited:
            pages.setdefault(page.document, []).append(page)
    return {name: tokens_of(_whole(own)) for name, own in pages.items()}


def _whole(pages: Sequence[PageText]) -> str:
    """A document's text, its pages where their offsets say."""
    return "\f".join(page.text for page in sorted(pages, key=lambda page: page.start))
