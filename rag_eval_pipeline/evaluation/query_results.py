"""The questions of a results file, each with what came back and all of its scores."""

from collections.abc import Iterator

from rag_eval_pipeline.evaluation.citation_figures import SPAN_COUNTS
from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.systems.answer import Citation, RagAnswer


def query_results(parts: Parts) -> Iterator[form.QueryResult]:
    """Each question, in the dataset's order."""
    rooms = (parts.retrieval, parts.citations, parts.answer_scores, parts.judged, parts.overall)
    for query, answer, *rows in zip(parts.queries, parts.answers, *rooms, strict=True):
        retrieval, citations, answer_scores, judged, overall = rows
        documents = _first_of_each(answer)
        faults = {name: None for row in rows for name in row.faults}
        yield form.QueryResult(
            query_id=query.query_id,
            query_text=query.query_text,
            status=answer.status,
            latency_ms=answer.latency_ms,
            retrieval_results=form.RetrievalResults(
                retrieved_docs=tuple(documents),
                relevance_scores=tuple(documents.values()),
                ground_truth_relevant=query.relevant_documents,
            ),
            generated_answer=answer.answer,
            abstained=answer.abstained,
            citations=tuple(_citation(citation) for citation in answer.citations),
            individual_metrics={
                **faults,
                **retrieval.scores,
                "citation_span_accuracy": citations.scores.get("tolerance_jaccard"),
                "exact_match": answer_scores.scores.get("exact_match"),
                "f1": answer_scores.scores.get("f1"),
                **{n: v for n, v in citations.scores.items() if n not in SPAN_COUNTS},
                **{n: v for n, v in answer_scores.scores.items() if n != "abstained"},
                "factual_consistency": None,  # where the judge gave none
                **judged.scores,
                **overall.scores,
            },
            error=answer.error,
        )


def _first_of_each(answer: RagAnswer) -> dict[str, float | None]:
    """Documents by their best rank, with the score of the passage that gave it."""
    documents: dict[str, float | None] = {}
    for passage in sorted(answer.contexts, key=lambda passage: passage.rank):
        documents.setdefault(passage.document, passage.score)
    return documents


def _citation(citation: Citation) -> CitationSpan:
    return CitationSpan(
        file_name=citation.file_name,
        start_char=citation.start_char,
        end_char=citation.end_char,
        page_number=citation.page_number,
    )
