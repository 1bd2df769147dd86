"""Which questions share a document: what verdicts flip together, and intervals count once."""

from collections.abc import Iterable

from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery


def question_clusters(queries: Iterable[EvaluationQuery]) -> dict[str, str]:
    """Question -> the documents that it is about, as one name; questions without documents stand for themselves.

    Questions about several documents share a name with those about the same ones alone: joined through single
    documents, the questions of a benchmark with two documents each would end as one.
    """
    named = {query.query_id: "/".join(sorted(query.relevant_documents)) for query in queries}
    return {query_id: name or f"question {query_id}" for query_id, name in named.items()}
