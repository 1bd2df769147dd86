"""Questions to the three product files: `train.json`, `.eval.json`, `.gt.json`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time

from rag_eval_pipeline.conversion.gold_spans import GoldSpan
from rag_eval_pipeline.conversion.records import Question
from rag_eval_pipeline.conversion.spec import BenchmarkSpec
from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.evaluation_dataset import (
    DatasetMetadata,
    EvaluationDataset,
    EvaluationQuery,
)
from rag_eval_pipeline.formats.ground_truth import AnnotatedCitation, CitationAnnotation, GroundTruth
from rag_eval_pipeline.formats.train_json import TrainContext, TrainRow

RESERVED = frozenset({"is_impossible", "answers", "hops", "source_id"})
ANNOTATOR = "source"  # gold texts that came with the benchmark


def train_row(question: Question) -> TrainRow:
    """A question as `train.json` may carry it; gold texts without a document are plain strings."""
    contexts: list[TrainContext | str] = []
    for context in question.contexts:
        if context.file_name is not None:
            contexts.append(TrainContext(context.file_name, context.text))
        elif context.text is not None:
            contexts.append(context.text)
    return TrainRow(
        id=question.id,
        question=question.question,
        answer=question.answer,
        is_impossible=question.is_impossible,
        contexts=contexts,
    )


def evaluation_dataset(
    spec: BenchmarkSpec,
    questions: Sequence[Question],
    spans: Iterable[GoldSpan],
) -> EvaluationDataset:
    """The evaluation dataset; `created_at` is the source's day of release, never the clock.

    Args:
        spec: Of the benchmark.
        questions: Settled ones.
        spans: Gold texts, located or not.
    """
    located: dict[int, list[GoldSpan]] = {}
    for span in spans:
        if span.method is not None:
            located.setdefault(span.question_id, []).append(span)
    lengths = [len(question.question) for question in questions]
    return EvaluationDataset(
        dataset_id=spec.name,
        name=spec.title or spec.name,
        version=spec.version,
        description=spec.description,
        created_at=None if spec.released is None else datetime.combine(spec.released, time(), UTC),
        metadata=DatasetMetadata(
            domain=spec.domain,
            language=spec.language,
            size=len(questions),
            avg_query_length=round(sum(lengths) / len(lengths), 2) if lengths else None,
            source=spec.title or spec.name,
        ),
        queries=tuple(_query(question, located.get(question.id, [])) for question in questions),
    )


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


def _query(question: Question, spans: Sequence[GoldSpan]) -> EvaluationQuery:
    relevant = tuple(dict.fromkeys(c.file_name for c in question.contexts if c.file_name is not None))
    # The source's own columns give way to the names that mean something here, and are kept beside them.
    metadata = {f"source_{k}" if k in RESERVED else k: value for k, value in question.metadata.items()}
    metadata["is_impossible"] = question.is_impossible
    metadata["answers"] = list(question.answers)
    metadata["hops"] = len({c.document for c in question.contexts if c.document is not None})
    if question.source_id is not None:
        metadata["source_id"] = question.source_id
    return EvaluationQuery.model_validate(
        {
            "query_id": str(question.id),
            "query_text": question.question,
            "relevant_documents": relevant,
            "query_type": question.query_type,
            "difficulty": question.difficulty,
            "ground_truth_answer": None if question.is_impossible else question.answer,
            "citations": tuple(_citation(span) for span in spans),
            "metadata": metadata,
        }
    )


def _citation(span: GoldSpan) -> CitationSpan:
    return CitationSpan(
        file_name=span.file_name,
        start_char=span.start,
        end_char=span.end,
        page_number=span.page,
        page_start=span.page_start,
        page_end=span.page_end,
        confidence_score=span.score / 100,
        context_text=span.text,
    )


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
                justification=f"located in the corpus: {span.method}",
            )
            for number, span in enumerate(spans)
        ),
        quality_checks={"text_extraction": "successful"},
    )
