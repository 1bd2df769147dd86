"""The normal form of what a RAG system says, whatever its own interface looks like."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from rag_eval_pipeline.formats.citations import find_citations
from rag_eval_pipeline.formats.results import Status

__all__ = [
    "Citation",
    "Configuration",
    "Query",
    "RagAnswer",
    "RetrievedPassage",
    "Status",
    "System",
    "Usage",
    "citations_in",
    "failed_answer",
]


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
        kind: `text`, or what the text describes: `table`, `chart`, `image`, `audio`.
    """

    document: str
    page: int | None
    text: str
    score: float | None
    rank: int
    start: int | None = None
    end: int | None = None
    kind: str = "text"


class Citation(msgspec.Struct, frozen=True):
    """A cited place, in document offsets; page-relative systems are converted when their answer is read.

    Args:
        file_name: Basename in the corpus.
        start_char: First code point in the document's text.
        end_char: One past the last.
        page_number: 1-based page on which it starts, where the system says so.
        marker_start: Where the citation's own mark begins in the answer; None for one that stands beside the text.
        marker_end: One past its end.
    """

    file_name: str
    start_char: int
    end_char: int
    page_number: int | None = None
    marker_start: int | None = None
    marker_end: int | None = None


class Usage(msgspec.Struct, frozen=True):
    """Requests, tokens and money of one question, retries included; zeros for a system that uses none.

    Args:
        total_tokens: As the server counts them; prompt and completion where it gives no sum.
        estimated_cost_usd: By the prices of the system's file.
        requests: HTTP requests sent.
        prompt_tokens: Of those, read by the model.
        completion_tokens: Of those, written by it.
    """

    total_tokens: int = 0
    estimated_cost_usd: float = 0.0
    requests: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0


NO_USAGE = Usage(requests=0)


class RagAnswer(msgspec.Struct, frozen=True):
    """One terminal answer; also a journal record.

    Args:
        query_id: Whose answer it is.
        status: `ok`, or why there is no answer to score.
        answer: The text with its citations; None unless `ok` (a partial text is never scored).
        abstained: The system said that the documents do not answer the question.
        contexts: Retrieved passages, best first.
        citations: Places cited in the answer, in its order.
        latency_ms: From asking to the whole answer; None where nobody measured it, as of some recordings.
        usage: Tokens and money.
        error: One line, unless `ok`.
        reused_from: The evaluation that measured this answer, when a deterministic system was not asked again.
        error_code: One cause, one code (`http_503`, `stream_truncated`); None when `ok`.
        partial: What had arrived of a truncated answer; kept for people, never scored.
        timings: Milliseconds by name, as far as known: `first_token`, `retrieval`, `reranking`, `generation`.
        raw_sha256: Of the body that was received; None where there was none.
        model: What the server says that it used.
    """

    query_id: str
    status: Status
    answer: str | None
    abstained: bool
    contexts: tuple[RetrievedPassage, ...]
    citations: tuple[Citation, ...]
    latency_ms: float | None
    usage: Usage = Usage()
    error: str | None = None
    reused_from: str | None = None
    error_code: str | None = None
    partial: str | None = None
    timings: dict[str, float] = {}
    raw_sha256: str | None = None
    model: str | None = None


def citations_in(answer: str, known_files: Collection[str]) -> tuple[Citation, ...]:
    """The citations that an answer carries in the specifications' grammar, in its order."""
    return tuple(
        Citation(span.file_name, span.start_char, span.end_char, span.page_number, marker.start, marker.end)
        for marker in find_citations(answer, known_files)
        for span in marker.spans
    )


def failed_answer(
    query: "Query",
    status: Status,
    *,
    code: str,
    error: str,
    latency_ms: float | None,
    usage: Usage = NO_USAGE,
    partial: str | None = None,
    raw_sha256: str | None = None,
) -> RagAnswer:
    """The terminal record of a question without an answer."""
    return RagAnswer(
        query_id=query.query_id,
        status=status,
        answer=None,
        abstained=False,
        contexts=(),
        citations=(),
        latency_ms=latency_ms,
        usage=usage,
        error=error,
        error_code=code,
        partial=partial,
        raw_sha256=raw_sha256,
    )


Configuration = dict[str, str | int | float | bool | None]


class System(Protocol):
    """What an evaluation needs of a system under test that is ready to answer."""

    def configuration(self) -> Configuration:
        """`model`, `embedding_model`, `retrieval_k`, `reranking_enabled`, and the kind's settings; no secret."""
        ...

    def server_configuration(self) -> Mapping[str, Any] | None:
        """What the server says of its own settings, hashed into the evaluation's fingerprint; None if nothing."""
        ...

    def warnings(self) -> Sequence[str]:
        """What was noticed while answers were read, such as a configured path that found nothing in any reply."""
        ...

    async def answer(self, query: Query) -> RagAnswer:
        """The answer to one question; a failure is a status, not an exception."""
        ...
