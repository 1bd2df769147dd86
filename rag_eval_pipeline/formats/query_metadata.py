"""A query's further fields as one flat mapping, for formats that know an id, a text and `metadata`.

The source's own metadata stands there as it is, beside `query_type`, `difficulty`, `ground_truth_answer`, `citations`
and, where the format cannot say it otherwise, `relevant_documents`. An own key of one of these names, or that starts
with `metadata.`, gets `metadata.` before it: `unpack(pack(query)) == query` for every query.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery

FIELDS = ("query_type", "difficulty", "ground_truth_answer", "citations", "relevant_documents")
OWN = "metadata."


def pack(query: EvaluationQuery, *, judged: Sequence[str]) -> dict[str, Any]:
    """Everything of a query but its id and text; absent fields have no key.

    Args:
        query: The query.
        judged: The relevant documents as the format's judgements have them; the query's own names are written beside
            them when they differ.
    """
    packed = {OWN + key if _is_guarded(key) else key: value for key, value in query.metadata.items()}
    for name in ("query_type", "difficulty", "ground_truth_answer"):
        if (value := getattr(query, name)) is not None:
            packed[name] = value
    if query.citations:
        packed["citations"] = [citation.model_dump(exclude_none=True) for citation in query.citations]
    if tuple(judged) != query.relevant_documents:
        packed["relevant_documents"] = list(query.relevant_documents)
    return packed


def unpack(query_id: str, text: str, judged: Sequence[str], packed: Mapping[str, Any]) -> EvaluationQuery:
    """The query again.

    Values that other people wrote under one of our names and that mean something else stay metadata.

    Args:
        query_id: Its id.
        text: Its text.
        judged: Its relevant documents as the format's judgements have them.
        packed: From `pack`, or another's metadata.
    """
    own = {}
    for key, value in packed.items():
        if key not in FIELDS:
            bare = key.removeprefix(OWN)
            own[bare if bare != key and _is_guarded(bare) else key] = value
    identity = {"query_id": query_id, "query_text": text, "relevant_documents": tuple(judged)}
    fields = {name: packed[name] for name in FIELDS if name in packed}
    try:
        return EvaluationQuery.model_validate({**identity, **fields, "metadata": own})
    except pydantic.ValidationError:
        query = EvaluationQuery.model_validate({**identity, "metadata": own})
    for name, value in fields.items():
        with contextlib.suppress(pydantic.ValidationError):
            query = EvaluationQuery.model_validate({**query.model_dump(), name: value})
            continue
        query = query.model_copy(update={"metadata": {**query.metadata, name: value}})
    return query


def _is_guarded(key: str) -> bool:
    return key in FIELDS or key.startswith(OWN)
