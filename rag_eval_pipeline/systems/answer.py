"""The normal form of what a RAG system says, whatever its own interface looks like."""

from typing import Protocol

import msgspec

from rag_eval_pipeline.formats.results import Status

__all__ = ["Citation", "Query", "RagAnswer", "RetrievedPassage", "Status", "System", "Usage"]


class Query(msgspec.Struct, frozen=True):
    """What a system gets to see of a question: its id and its text, nothing of the truth."""

    query_id: str
    text: str


class RetrievedPassage(msgspec.Struct, frozen=True):
    """A passage that the system retrieved.

    Args:
        document: Exact basename in the corpus.
        page: 1-based page on which it starts; None when the system does not say.
        text: The passage.
        score: The system's own; higher is better. None when it does not say.
        rank: 1 for the first.
        start: First code point in the document's extracted text, where the system knows it.
        end: One past the last.
    """

    document: str
    page: int | None
    text: str
    score: float | None
    rank: int
    start: int | None = None
    end: int | None = None


class Citation(msgspec.Struct, frozen=True):
    """A cited place, in document offsets; page-relative systems are converted when their answer is read."""

    file_name: str
    start_char: int
    end_char: int
    page_number: int | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens and money of one question; zeros for a system that uses neither."""

    total_tokens: int = 0
    estimated_cost_usd: float = 0.0


class RagAnswer(msgspec.Struct, frozen=True):
    """One terminal answer; also a journal record.

    Args:
        query_id: Whose answer it is.
        status: `ok`, or why there is no answer to score.
        answer: The text with its citations; None unless `ok` (a partial text is never scored).
        abstained: The system said that the documents do not answer the question.
        contexts: Retrieved passages, best first.
        citations: Places cited in the answer, in its order.
        latency_ms: From asking to the whole answer.
        usage: Tokens and money.
        error: One line, unless `ok`.
        reused_from: The evaluation that measured this answer, when a deterministic system was not asked again.
    """

    query_id: str
    status: Status
    answer: str | None
    abstained: bool
    contexts: tuple[RetrievedPassage, ...]
    citations: tuple[Citation, ...]
    latency_ms: float
    usage: Usage = Usage()
    error: str | None = None
    reused_from: str | None = None


class System(Protocol):
    """What an evaluation needs of a system under test."""

    def configuration(self) -> dict[str, str | int | float | bool | None]:
        """`model`, `embedding_model`, `retrieval_k`, `reranking_enabled`, and the kind's settings."""
        ...

    async def answer(self, query: Query) -> RagAnswer:
        """The answer to one question; a failure is a status, not an exception."""
        ...
