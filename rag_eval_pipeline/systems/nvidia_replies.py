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
from typing import Any, Literal, NamedTuple

from rag_eval_pipeline.systems.base import PageText, RetrievedPassage
from rag_eval_pipeline.systems.nvidia_ingest import StoredNames
from rag_eval_pipeline.systems.parsing import EMPTY_ANSWER, EMPTY_ANSWER_ERROR, AnswerReader, finite_number
from rag_eval_pipeline.web.client import Endpoint, EndpointError
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
        text: Of the answer.
        citations: The last list of results that was not empty.
        is_finished: A chunk had a finish_reason.
        usage: Tokens, of the last chunk that counted any.
        metrics: Milliseconds by the server's names.
        model: The server's name of what answered.
        first_token_ms: When the first text came; None if none did.
        error: Text of the error events.
        has_choices: Some chunk had a choice.
        chunks: Their number.
    """

    text: str = ""
    citations: list[Any] = field(default_factory=list)
    is_finished: bool = False
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
    """Read the events of a stream, complete or not.

    Raises:
        EndpointError: `bad_response`, for an event that is not a JSON object.
    """
    stream = StreamedAnswer()
    texts: list[str] = []
    errors: list[str] = []
    for event in events:
        for chunk in map(observe, _chunks(event)):
            stream.chunks += 1
            kind = chunk.get("event_type")
            choice = _first_choice(chunk)
            text = _content(choice)
            if kind in ANSWER_EVENTS:
                if text and stream.first_token_ms is None:
                    stream.first_token_ms = event.at_ms
                texts.append(text)
            elif kind == ERROR_EVENT:
                errors.append(text or "an error event without text")
            _add_facts(stream, chunk, choice)
    stream.text = "".join(texts)
    stream.error = "".join(errors) or None
    if unescape_html:  # other entities are the answer's own
        stream.text = _ESCAPED.sub(lambda match: _CHARACTERS[match[1]], stream.text)
    return stream


def check_stream(stream: StreamedAnswer, *, is_cut: bool, body: bytes, may_be_empty: bool = False) -> None:
    """Check that a stream is an answer.

    Raises:
        EndpointError: `stream_truncated`, `error_reply`, `no_generator`, `empty_answer`, `bad_response`.
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
    if not stream.is_finished:
        if not stream.has_choices and not is_cut:
            raise EndpointError("no_generator", "the stream has no choices: the server has no model to answer with")
        message = "the stream ended without a finish_reason"
        raise EndpointError("stream_truncated", message, status="truncated", partial=partial)
    if not stream.text.strip() and not may_be_empty:
        raise EndpointError(EMPTY_ANSWER, EMPTY_ANSWER_ERROR)


def _chunks(event: Event) -> Iterator[Mapping[str, Any]]:
    if event.data.strip() == DONE:
        return
    try:
        values = json_values(event.data)
    except ValueError:  # also msgspec's
        raise EndpointError("bad_response", f"expected JSON events, found {event.data[:500]!r}") from None
    for value in values:
        if not isinstance(value, dict):
            raise EndpointError("bad_response", f"expected JSON objects, found {event.data[:500]!r}")
        yield value


def _first_choice(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _content(choice: Mapping[str, Any] | None) -> str:
    """Return the text of a choice: `delta` and `message` are equal, and some versions fill only one of them."""
    for key in ("delta", "message"):
        message = (choice or {}).get(key)
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and content:
            return content
    return ""


def _add_facts(stream: StreamedAnswer, chunk: Mapping[str, Any], choice: Mapping[str, Any] | None) -> None:
    if choice is not None:
        stream.has_choices = True
        stream.is_finished = stream.is_finished or bool(choice.get("finish_reason"))
    citations = chunk.get("citations")
    results = citations.get("results") if isinstance(citations, dict) else None
    if isinstance(results, list) and results:
        stream.citations = results
    usage, metrics, model = chunk.get("usage"), chunk.get("metrics"), chunk.get("model")
    if isinstance(usage, dict) and any(usage.values()):
        stream.usage = usage
    if isinstance(metrics, dict) and metrics:
        stream.metrics = metrics
    if isinstance(model, str) and model:
        stream.model = model


# --- Retrieved chunks


def read_chunks(results: Iterable[Any], reader: AnswerReader, *, has_pages: bool) -> Iterator[RetrievedPassage]:
    """Yield the retrieved chunks as passages, in the server's order; `has_pages` if its page numbers are understood."""
    listed = [result for result in results if isinstance(result, dict)]
    for rank, result in enumerate(listed, start=1):
        metadata = result.get("metadata")
        number = metadata.get("page_number") if isinstance(metadata, dict) else None
        yield RetrievedPassage(
            document=reader.document(str(result.get("document_name") or "")),
            page=reader.page(number) if has_pages else None,
            text=chunk_text(result),
            score=finite_number(result.get("score")),
            rank=rank,
            kind=str(result.get("document_type") or "text"),
        )


def chunk_text(result: Mapping[str, Any]) -> str:
    """Return a chunk's text: its content, or the description of a table, chart or image, whose content is base64."""
    metadata = result.get("metadata")
    description = metadata.get("description") if isinstance(metadata, dict) else None
    content = result.get("content")
    order = (content, description) if result.get("document_type") in (None, "", "text") else (description,)
    return next((text for text in order if isinstance(text, str) and text), "")


# --- Page numbers

Base = Literal[0, 1]
PROBED_DOCUMENTS = 3
PROBED_PAGES = 2  # of each: its second page and its last
PROBE_WORDS = 40  # of a page, from its middle
PROBE_RESULTS = 4
WINDOW = 40  # letters and digits that are compared; shorter ones occur on several pages by chance
AGREEMENT = 0.8  # of the chunks; one across two pages may have the number of either


class Sighting(NamedTuple):
    """A chunk whose page is known: the server's number, and the 1-based page that contains its text."""

    stated: int
    actual: int


async def find_page_base(
    endpoint: Endpoint, collection: str, pages: Sequence[PageText], names: StoredNames
) -> Base | None:
    """Find the server's number of a document's first page, by searching for text whose page is known.

    The number depends on the extractor behind the ingestor, and one that is off by one makes every page wrong.

    Returns:
        None if its numbers fit neither base, or nothing was found: pages are then not reported.
    """
    by_document = {document: list(group) for document, group in groupby(pages, lambda page: page.document)}
    sightings: list[Sighting] = []
    for query in make_probes(by_document):
        body = {"query": query, "collection_names": [collection], "reranker_top_k": PROBE_RESULTS}
        try:
            reply = await endpoint.request("POST", "v1/search", json=body)
            found = reply.json()
            results = found.get("results") if isinstance(found, dict) else None
            if not isinstance(results, list):
                raise reply.bad("a list under 'results'")
        except EndpointError as error:
            logger.warning("page_base_search_failed error=%s", error)
            return None
        sightings += find_sightings(results, by_document, names)
    return base_of(sightings)


def make_probes(by_document: Mapping[str, Sequence[PageText]]) -> Iterator[str]:
    """Yield words from the middle of late pages of the longest documents."""
    longest = sorted(by_document.items(), key=lambda item: (-len(item[1]), item[0]))[:PROBED_DOCUMENTS]
    for _, pages in longest:
        for page in dict.fromkeys([*pages[1:PROBED_PAGES], pages[-1]]):
            words = page.text.split()
            middle = max(0, (len(words) - PROBE_WORDS) // 2)
            if words:
                yield " ".join(words[middle : middle + PROBE_WORDS])


def find_sightings(
    results: Iterable[Any], by_document: Mapping[str, Sequence[PageText]], names: StoredNames
) -> Iterator[Sighting]:
    """Yield the chunks whose text is on exactly one page of their document."""
    for result in results:
        if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
            continue
        stated = result["metadata"].get("page_number")
        pages = by_document.get(names.file(str(result.get("document_name"))), ())
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 0:
            continue
        chunk = _characters(chunk_text(result))
        matching = [page.page for page in pages if _is_on(chunk, _characters(page.text))]
        if len(matching) == 1:
            yield Sighting(stated, matching[0])


def base_of(sightings: Sequence[Sighting]) -> Base | None:
    """Return the base that most numbers agree with; None if there are none, or they agree with neither."""
    for base in (1, 0):
        agreeing = sum(sighting.stated == sighting.actual - 1 + base for sighting in sightings)
        if sightings and agreeing >= AGREEMENT * len(sightings):
            return 1 if base else 0
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
