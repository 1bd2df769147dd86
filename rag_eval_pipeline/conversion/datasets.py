"""Questions to the three product files: `train.json`, `.eval.json`, `.gt.json`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.gold_spans import GoldSpan
from rag_eval_pipeline.conversion.spec import BenchmarkSpec
from rag_eval_pipeline.formats.evaluation_dataset import DatasetMetadata, EvaluationDataset, SourceDocument
from rag_eval_pipeline.formats.ground_truth import AnnotatedCitation, CitationAnnotation, GroundTruth
from rag_eval_pipeline.formats.query_rows import QueryCheck

if TYPE_CHECKING:
    import pyarrow as pa

ANNOTATOR = "source"  # gold texts that came with the benchmark


def dataset_head(spec: BenchmarkSpec, *, size: int, characters: int) -> EvaluationDataset:
    """The evaluation dataset without its queries; `created_at` is the source's day of release, never the clock.

    Args:
        spec: Of the benchmark.
        size: Number of queries.
        characters: Code points of all questions together.
    """
    return EvaluationDataset(
        dataset_id=spec.name,
        name=spec.title or spec.name,
        version=spec.version,
        description=spec.description,
        created_at=None if spec.released is None else datetime.combine(spec.released, time(), UTC),
        metadata=DatasetMetadata(
            domain=spec.domain,
            language=spec.language,
            size=size,
            avg_query_length=round(characters / size, 2) if size else None,
            source=spec.title or spec.name,
        ),
        queries=(),
    )


def write_evaluation_dataset(
    path: Path,
    head: EvaluationDataset,
    batches: "Iterable[pa.RecordBatch]",
    spans: Iterable[GoldSpan],
    documents: Sequence[SourceDocument] = (),
) -> list[str]:
    """Publishes an `.eval.json`, and says what is wrong with what was written; nothing, unless something went wrong.

    Args:
        path: Where.
        head: The dataset without its queries.
        batches: Settled questions, columns of `questions.parquet`.
        spans: Gold texts, located or not.
        documents: Inline, where they are asked for.
    """
    from rag_eval_pipeline.conversion.dataset_columns import QUERY_DEPTH, query_rows
    from rag_eval_pipeline.formats.rows_file import write_rows

    located: dict[int, list[GoldSpan]] = {}
    for span in spans:
        if span.method is not None:
            located.setdefault(span.question_id, []).append(span)
    # The key `queries` is followed by `documents` or by nothing.
    whole = head.model_copy(update={"documents": tuple(documents) or None})
    before, array, after = whole.model_dump_json(indent=2, exclude_none=True).partition('"queries": []')
    assert array
    check = QueryCheck()
    write_rows(
        path,
        batches,
        lambda batch: query_rows(batch, located),
        depth=QUERY_DEPTH,
        head=(before + '"queries": ').encode(),
        tail=after.encode() + b"\n",
        check=check.add,
    )
    return check.findings


def ground_truth(spec: BenchmarkSpec, spans: Iterable[GoldSpan]) -> GroundTruth | None:
    """The located gold texts as annotations, one a question; None when nothing was located."""
    by_question: dict[int, list[GoldSpan]] = {}
    for span in spans:
        if span.method is not None:
            by_question.setdefault(span.question_id, []).append(span)
    if not by_question:
        return None
    annotations = tuple(_annotation(question_id, found) for question_id, found in by_question.items())
    return GroundTruth(dataset_id=spec.name, version=spec.version, annotations=annotations)


def _annotation(question_id: int, spans: Sequence[GoldSpan]) -> CitationAnnotation:
    return CitationAnnotation(
        annotation_id=f"{ANNOTATOR}_{question_id}",
        query_id=str(question_id),
        annotator_id=ANNOTATOR,
        citations=tuple(
            AnnotatedCitation(
                citation_id=f"{ANNOTATOR}_{question_id}_{number}",
                file_name=span.file_name,
                page_number=span.page,
                start_char=span.start,
                end_char=span.end,
                page_start=span.page_start,
                page_end=span.page_end,
                text=span.text,
                annotation_confidence=span.score / 100,
                justification=_why(span),
            )
            for number, span in enumerate(spans)
        ),
        quality_checks={"text_extraction": "successful"},
    )


def _why(span: GoldSpan) -> str:
    piece = f", piece {span.piece + 1}" if span.method == "pieces" else ""
    return f"located in the corpus: {span.method}{piece}"
