"""Places in documents that a question has to do with: gold, cited and retrieved, and which of them meet."""

from collections.abc import Collection, Sequence

import msgspec

from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.judges.judgement import Support
from rag_eval_pipeline.reporting.site.inert import shortened
from rag_eval_pipeline.reporting.site.judged_claims import SupportShown, support_shown
from rag_eval_pipeline.reporting.site.page_pictures import PlacedSpan
from rag_eval_pipeline.reporting.site.texts import DocumentTexts
from rag_eval_pipeline.systems.answer import Citation, RagAnswer, RetrievedPassage

PASSAGE_LENGTH = 600  # code points; the whole passages are in the run's responses.parquet
NAME_LENGTH = 255  # what a file system takes; a server may say anything


class PassageShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A retrieved passage; `is_gold` when it overlaps a gold span, `is_relevant` when its document is relevant."""

    rank: int
    document: str
    text: str
    page: int | None = None
    score: float | None = None
    is_relevant: bool = False
    is_gold: bool = False


class CitationShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A citation with the text it points at and whether that is gold."""

    document: str
    start: int
    end: int
    text: str
    page: int | None = None
    is_gold: bool = False
    support: SupportShown | None = None


def placed_spans(answer: RagAnswer, query: EvaluationQuery | None) -> list[PlacedSpan]:
    """Gold and cited spans, to be drawn."""
    gold = (
        [PlacedSpan(span.file_name, span.start_char, span.end_char, True) for span in query.citations] if query else []
    )
    return gold + [PlacedSpan(span.file_name, span.start_char, span.end_char, False) for span in answer.citations]


def passage_shown(
    passage: RetrievedPassage, relevant: Collection[str], gold: Sequence[PlacedSpan], texts: DocumentTexts
) -> PassageShown:
    """A passage.

    Args:
        passage: As retrieved.
        relevant: The relevant documents' files.
        gold: Gold spans.
        texts: Of the corpus.
    """
    name = texts.canonical(passage.document)
    overlaps = passage.start is not None and _meets(name, passage.start, passage.end or 0, gold, texts)
    return PassageShown(
        rank=passage.rank,
        document=shortened(passage.document, NAME_LENGTH),
        text=shortened(passage.text, PASSAGE_LENGTH),
        page=passage.page,
        score=passage.score,
        is_relevant=name in relevant,
        is_gold=overlaps,
    )


def citation_shown(
    citation: Citation, support: Support | None, gold: Sequence[PlacedSpan], texts: DocumentTexts
) -> CitationShown:
    """A citation.

    Args:
        citation: Of the answer.
        support: What the judge says of it.
        gold: Gold spans.
        texts: Of the corpus.
    """
    name = texts.canonical(citation.file_name)
    return CitationShown(
        document=shortened(citation.file_name, NAME_LENGTH),
        start=citation.start_char,
        end=citation.end_char,
        text=shortened(texts.cut(name, citation.start_char, citation.end_char), PASSAGE_LENGTH),
        page=citation.page_number or texts.page_of(name, citation.start_char),
        is_gold=_meets(name, citation.start_char, citation.end_char, gold, texts),
        support=support_shown(support),
    )


def gold_place(span: PlacedSpan, texts: DocumentTexts) -> tuple[str, int | None, int, int, str]:
    """An expected citation: document, page, start, end, text."""
    text = shortened(texts.cut(span.document, span.start, span.end), PASSAGE_LENGTH)
    page = texts.page_of(span.document, span.start)
    return shortened(span.document, NAME_LENGTH), page, span.start, span.end, text


def _meets(name: str, start: int, end: int, gold: Sequence[PlacedSpan], texts: DocumentTexts) -> bool:
    return any(texts.canonical(span.document) == name and span.start < end and start < span.end for span in gold)
