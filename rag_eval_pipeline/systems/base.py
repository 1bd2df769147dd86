"""What every system under test is given and what it returns: a corpus, a question, an answer in one form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from rag_eval_pipeline.corpus.document_names import DocumentNames
from rag_eval_pipeline.formats.dataset import History
from rag_eval_pipeline.formats.results import Status
from rag_eval_pipeline.workspace import SYSTEM_SUFFIX

Configuration = dict[str, str | int | float | bool | None]


class PageText(NamedTuple):
    """The text of one page, and the offset in its document at which it starts."""

    document: str
    page: int
    start: int
    text: str


@dataclass(frozen=True, slots=True)
class SystemCorpus:
    """The converted corpus of one benchmark; a system never sees the benchmark's questions or answers.

    Args:
        files: Basenames, each document once.
        aliases: Every name that a system may use for a document (other names of it, names without `.pdf`) -> basename.
        fingerprint: Changes with the corpus.
        system: Name of the system that is asked.
        started: When the evaluation began.
        pages: Reads the text of every page, each document once.
        settings_folder: The folder of the system's file; paths in its settings are relative to it.
        state_folder: For what the system keeps about its server, such as what was uploaded.
        retrieval_only: The benchmark has no answers, so passages alone are enough.
        observe: Is given the JSON of each reply before it is read, and returns what is read in its place.
        observe_headers: Is given the headers of each reply over HTTP.
        sources: Path of each document that was made from a file, in the benchmark's folder -> basename.
        urls: Basename -> URL, of each document that has one.
        source_ids: Returns question's id -> the id that its source gives it; recordings may have either.
    """

    benchmark: str
    folder: Path
    files: Sequence[str]
    aliases: dict[str, str]
    fingerprint: str
    system: str
    started: datetime
    pages: Callable[[], list[PageText]]
    settings_folder: Path
    state_folder: Path
    observe: Callable[[Any], Any] | None = None
    observe_headers: Callable[[Mapping[str, str]], None] | None = None
    retrieval_only: bool = False
    source_ids: Callable[[], Mapping[str, str]] = dict
    sources: Mapping[str, str] = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)

    def names(self, mapped: Mapping[str, str] | None = None) -> DocumentNames:
        """Return the documents by name; `mapped` is a user's map."""
        known = {name: name for name in self.files} | self.aliases
        return DocumentNames(known, sources=self.sources, urls=self.urls, mapped=mapped)

    @property
    def settings_file(self) -> Path:
        """The system's file, for messages."""
        return self.settings_folder / f"{self.system}{SYSTEM_SUFFIX}"


class Query(msgspec.Struct, frozen=True):
    """A question as a system sees it: its id, its text, and the messages before it, the oldest first."""

    query_id: str
    text: str
    history: History = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The history, and the question as the last message."""
        return [*self.history, {"role": "user", "content": self.text}]

    def values(self, benchmark: str) -> dict[str, Any]:
        """Return what the placeholders of a template stand for."""
        return {
            "question": self.text, "query_id": self.query_id, "benchmark": benchmark,
            "history": list(self.history), "messages": self.messages,
        }  # fmt: skip


class RetrievedPassage(msgspec.Struct, frozen=True):
    """A passage that the system retrieved.

    Args:
        page: 1-based page on which it starts; None if the system does not say.
        score: The system's own; higher is better. None if it does not say.
        start: First code point in the document's extracted text, if the system knows it.
        kind: `text`, or what the text describes: `table`, `chart`, `image`, `audio`.
        source_id: The system's own id of the passage, by which its citations may name it.
    """

    document: str
    page: int | None
    text: str
    score: float | None
    rank: int
    start: int | None = None
    end: int | None = None
    kind: str = "text"
    source_id: str | None = None


class Citation(msgspec.Struct, frozen=True):
    """A cited span, in document offsets.

    Args:
        start_char: First code point in the document's text.
        marker_start: Start of the citation's marker in the answer; None if the citation is not part of the text.
    """

    file_name: str
    start_char: int
    end_char: int
    page_number: int | None = None
    marker_start: int | None = None
    marker_end: int | None = None


class Usage(msgspec.Struct, frozen=True):
    """Requests, tokens and money spent on one question, retries included; zeros if a system uses none.

    Args:
        total_tokens: As the server counts them; prompt and completion if it gives no sum.
        estimated_cost_usd: By the prices in the system's file.
    """

    total_tokens: int = 0
    estimated_cost_usd: float = 0.0
    requests: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0


NO_USAGE = Usage(requests=0)


class RagAnswer(msgspec.Struct, frozen=True):
    """The final answer to one question; also a journal record.

    Args:
        status: `ok`, or why there is no answer to score.
        answer: The text with its citations; None unless `ok` (a partial text is never scored).
        abstained: The answer is that the documents do not answer the question.
        latency_ms: From asking to the whole answer; None if it was not measured, as in some recordings.
        error: One line, unless `ok`.
        reused_from: The evaluation that measured this answer, if a deterministic system was not asked again.
        partial: What had arrived of a truncated answer; kept for people, never scored.
        timings: Milliseconds by name, as far as known: `first_token`, `retrieval`, `reranking`, `generation`.
        model: As the reply names it.
        raw: The answer as the system wrote it, with thoughts and special tokens; None if `answer` is that.
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
    raw: str | None = None


class System(Protocol):
    """A system under test that is ready to answer."""

    def configuration(self) -> Configuration:
        """Return `model`, `embedding_model`, `retrieval_k`, `reranking_enabled`, and the kind's settings; no secret."""
        ...

    def server_configuration(self) -> Mapping[str, Any] | None:
        """Return the server's own settings, which are part of an evaluation's fingerprint; None if it states none."""
        ...

    def warnings(self) -> Sequence[str]:
        """Return what was noticed in the answers so far, such as a configured path that found nothing."""
        ...

    async def answer(self, query: Query) -> RagAnswer:
        """Answer one question; a failure is a status, not an exception."""
        ...


def failed_answer(
    query: Query,
    status: Status,
    *,
    code: str,
    error: str,
    latency_ms: float | None,
    usage: Usage = NO_USAGE,
    partial: str | None = None,
    raw_sha256: str | None = None,
) -> RagAnswer:
    """Return the record of a question without an answer."""
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
