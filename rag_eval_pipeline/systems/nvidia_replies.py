"""Read the replies of NVIDIA's RAG server: streams of `/v1/generate`, retrieved chunks, and what its page numbers mean.

Citations come with one chunk of a stream, and the others carry an empty list; an agent sends drafts and reasoning in
between; an error comes with status 200 as if it were an answer.
"""

import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from rag_eval_pipeline.errors import EndpointError, ServiceError
from rag_eval_pipeline.systems.base import PageText, RetrievedPassage
from rag_eval_pipeline.systems.foreign_values import finite_number
from rag_eval_pipeline.systems.nvidia_ingest import StoredNames
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.user_streams import join_pieces
from rag_eval_pipeline.web.client import Endpoint
from rag_eval_pipeline.web.sse import DONE, Event, json_values

logger = logging.getLogger(__name__)

ANSWER_EVENTS = (None, "", "final_answer")  # types of events whose text belongs to the answer
ERROR_EVENT = "error"
# What the server writes in place of an answer if something behind it fails, with status 200.
ERROR_TEXTS = re.compile(
    r"\A\s*(?:Error from (?:rag-server|\w+ server)\b|Sorry, there was an error processing your request)", re.IGNORECASE
)
_ESCAPED = re.compile("&(lt|gt|amp);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&"}


# --- Streams


@dataclass(slots=True)
class StreamedAnswer:
    """What a stream contained.

    Args:
        citations: The last list of results that was not empty.
        finish_reason: The last one that a chunk had.
        usage: Tokens, of the last chunk that counted any.
        metrics: Milliseconds by the server's names.
        first_token_ms: When the first text came; None if none did.
    """

    text: str = ""
    citations: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    first_token_ms: float | None = None
    error: str | None = None
    has_choices: bool = False
    chunks: int = 0


def read_stream(
    events: Iterable[Event], *, unescape_html: bool, observe: Callable[[Any], Any] = lambda value: value
) -> StreamedAnswer:
    """Read the events of a stream, complete or not."""
    stream = StreamedAnswer()
    pieces: list[str] = []
    for event in events:
        for chunk in map(observe, _chunks(event)):
            stream.chunks += 1
            # `delta` and `message` are equal, and some versions fill only one of them.
            texts = (part_at(chunk, "choices", 0, key, "content") for key in ("delta", "message"))
            text = next((text for text in texts if isinstance(text, str) and text), "")
            kind = chunk.get("event_type")
            if kind in ANSWER_EVENTS:
                pieces.append(text)
                if text and stream.first_token_ms is None:
                    stream.first_token_ms = event.at_ms
            elif kind == ERROR_EVENT:
                stream.error = (stream.error or "") + (text or "an error event without text")
            stream.has_choices |= isinstance(part_at(chunk, "choices", 0), dict)
            stream.finish_reason = part_at(chunk, "choices", 0, "finish_reason") or stream.finish_reason
            results, usage, metrics = (part_at(chunk, "citations", "results"), chunk.get("usage"), chunk.get("metrics"))
            if isinstance(results, list) and results:
                stream.citations = results
            if isinstance(usage, dict) and any(usage.values()):
                stream.usage = usage
            if isinstance(metrics, dict) and metrics:
                stream.metrics = metrics
            if isinstance(model := chunk.get("model"), str) and model:
                stream.model = model
    stream.text = join_pieces(pieces)
    if unescape_html:  # other entities are the answer's own
        stream.text = _ESCAPED.sub(lambda match: _CHARACTERS[match[1]], stream.text)
    return stream


def part_at(value: Any, *path: str | int) -> Any:
    """Return the value below some keys and indexes; None if there is none."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def check_stream(stream: StreamedAnswer, *, is_cut: bool, body: bytes) -> None:
    """Check that a stream is an answer.

    Raises:
        EndpointError: `stream_truncated`, `error_reply`, `no_generator`, `bad_response`.
    """
    partial = stream.text.encode("utf-8", "replace") or None
    if stream.error is not None:
        message = f"the server reported an error: {stream.error[:500]}"
        raise EndpointError("error_reply", message, partial=partial)
    if not stream.chunks:
        if is_cut:
            raise EndpointError("stream_truncated", "the stream ended before its first event", status="truncated")
        found = repr(body[:500]) if body else "an empty body"
        raise EndpointError("bad_response", f"expected a stream of events, found {found}")
    if ERROR_TEXTS.match(stream.text):
        message = f"the server wrote in place of an answer: {stream.text.strip()[:500]}"
        raise EndpointError("error_reply", message)
    if not stream.finish_reason:
        if not stream.has_choices and not is_cut:
            raise EndpointError("no_generator", "the stream has no choices: the server has no model to answer with")
        message = "the stream ended without a finish_reason"
        raise EndpointError("stream_truncated", message, status="truncated", partial=partial)


def _chunks(event: Event) -> list[Any]:
    if event.data.strip() == DONE:
        return []
    try:
        values = json_values(event.data)
    except ValueError:
        raise EndpointError("bad_response", f"expected JSON events, found {event.data[:500]!r}") from None
    if not all(isinstance(value, dict) for value in values):
        raise EndpointError("bad_response", f"expected JSON objects, found {event.data[:500]!r}")
    return values


# --- Retrieved chunks


def read_chunks(
    results: Iterable[Any], reader: AnswerReader, *, has_pages: bool, has_scores: bool
) -> Iterator[RetrievedPassage]:
    """Yield the retrieved chunks as passages, in the server's order.

    Args:
        has_pages: The server's page numbers are understood.
        has_scores: Its scores are relevances. A score of 0 for every chunk is the interface's default, and no score.
    """
    listed = [result for result in results if isinstance(result, dict)]
    has_scores = has_scores and any(map(_score, listed))
    for rank, result in enumerate(listed, start=1):
        yield RetrievedPassage(
            document=reader.document(str(result.get("document_name") or "")),
            page=reader.page(part_at(result, "metadata", "page_number")) if has_pages else None,
            text=chunk_text(result),
            score=_score(result) if has_scores else None,
            rank=rank,
            kind=str(result.get("document_type") or "text"),
        )


def are_distances(results: Iterable[Any]) -> bool:
    """Return whether the scores rise with the rank: without a reranker, the server fills them with distances."""
    scores = [score for score in map(_score, results) if score is not None]
    return len(set(scores)) > 1 and scores == sorted(scores)


def _score(result: Any) -> float | None:
    return finite_number(part_at(result, "score"))


def chunk_text(result: Mapping[str, Any]) -> str:
    """Return a chunk's text: its content, or the description of a table, chart or image, whose content is base64."""
    texts = [part_at(result, "metadata", "description")]
    if result.get("document_type") in (None, "", "text"):
        texts.insert(0, result.get("content"))
    return next((text for text in texts if isinstance(text, str) and text), "")


# --- Page numbers

Base = Literal[0, 1]
NO_COLLECTION = frozenset({400, 404})
PROBED_DOCUMENTS = 3
PROBE_WORDS = 40  # of a page, from its middle
PROBE_RESULTS = 4
WINDOW = 40  # letters and digits that are compared; shorter ones occur on several pages by chance
AGREEMENT = 0.8  # of the chunks; one across two pages may have the number of either


async def find_page_base(
    endpoint: Endpoint, collection: str, pages: Sequence[PageText], names: StoredNames
) -> Base | None:
    """Find the server's number of a document's first page, by searching for text whose page is known.

    The number depends on the extractor behind the ingestor, and one that is off by one makes every page wrong.

    Returns:
        None if its numbers fit neither base, or nothing was found: pages are then not reported.

    Raises:
        ServiceError: `corpus_not_ingested`, if the server states that it has no such collection.
    """
    by_document = {document: list(group) for document, group in groupby(pages, lambda page: page.document)}
    sightings: list[tuple[int, int]] = []
    for query in make_probes(by_document):
        body = {"query": query, "collection_names": [collection], "reranker_top_k": PROBE_RESULTS}
        try:
            reply = await endpoint.request("POST", "v1/search", json=body)
            results = part_at(reply.json(), "results")
            if not isinstance(results, list):
                raise reply.bad("a list under 'results'")
        except EndpointError as error:
            if error.http_status in NO_COLLECTION and f"Collection {collection} does not exist" in error.message:
                raise ServiceError(
                    "corpus_not_ingested",
                    f"The RAG server at {endpoint.settings.base_url} has no collection {collection!r}",
                    hint="Name one that holds the documents in `collection`; with an `ingestor`, `rag-eval evaluate` "
                    "makes one and uploads the corpus.",
                ) from error
            logger.warning("page_base_search_failed error=%s", error)
            return None
        sightings += find_sightings(results, by_document, names)
    return base_of(sightings)


def make_probes(by_document: Mapping[str, Sequence[PageText]]) -> Iterator[str]:
    """Yield words from the middle of the second and the last page of the longest documents."""
    longest = sorted(by_document.items(), key=lambda item: (-len(item[1]), item[0]))[:PROBED_DOCUMENTS]
    for _, pages in longest:
        for page in dict.fromkeys([*pages[1:2], pages[-1]]):
            words = page.text.split()
            middle = max(0, (len(words) - PROBE_WORDS) // 2)
            if words:
                yield " ".join(words[middle : middle + PROBE_WORDS])


def find_sightings(
    results: Iterable[Any], by_document: Mapping[str, Sequence[PageText]], names: StoredNames
) -> Iterator[tuple[int, int]]:
    """Yield the server's page number and the 1-based one of each chunk whose text is on exactly one page."""
    for result in results:
        stated = part_at(result, "metadata", "page_number")
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 0:
            continue
        chunk = _characters(chunk_text(result))
        pages = by_document.get(names.file(str(result.get("document_name"))), ())
        matching = [page.page for page in pages if _is_on(chunk, _characters(page.text))]
        if len(matching) == 1:
            yield stated, matching[0]


def base_of(sightings: Sequence[tuple[int, int]]) -> Base | None:
    """Return the base that most numbers agree with; None if there are none, or they agree with neither."""
    bases: tuple[Base, Base] = (1, 0)
    for base in bases:
        agreeing = sum(stated == actual - 1 + base for stated, actual in sightings)
        if sightings and agreeing >= AGREEMENT * len(sightings):
            return base
    return None


def _characters(text: str) -> str:
    """Return letters and digits alone: extractors differ in white space, hyphens and ligatures."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _is_on(chunk: str, page: str) -> bool:
    """Return whether the middle of a chunk, and its beginning or its end, are on a page."""
    if len(chunk) < WINDOW:
        return False
    middle = (len(chunk) - WINDOW) // 2
    return chunk[middle : middle + WINDOW] in page and (chunk[:WINDOW] in page or chunk[-WINDOW:] in page)
