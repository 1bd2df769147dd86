"""The stream of `/v1/generate` read into one answer: which chunks belong to it, and what was no answer at all.

Citations come with one chunk and the others carry an empty list; an agent sends drafts and reasoning between; an error
comes with status 200 as if it were an answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_eval_pipeline.endpoints.events import DONE, Event, json_values
from rag_eval_pipeline.systems.reading import EMPTY_ANSWER, EMPTY_ANSWER_ERROR

ANSWERING = (None, "", "final_answer")  # kinds of events whose text is the answer's
ERROR = "error"
# What the server writes in place of an answer when something behind it fails, with status 200.
ERROR_TEXTS = re.compile(
    r"\A\s*(?:Error from (?:rag-server|\w+ server)\b|Sorry, there was an error processing your request)", re.IGNORECASE
)
_ESCAPED = re.compile("&(lt|gt|amp);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&"}


class NoAnswer(Exception):
    """A stream that holds no answer to score.

    Args:
        code: `stream_truncated`, `error_reply`, `no_generator`, `empty_answer`, `bad_response`.
        message: What was found, in one line.
        partial: What had arrived of an answer.
    """

    def __init__(self, code: str, message: str, *, partial: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = " ".join(message.split())
        self.partial = partial


@dataclass(slots=True)
class StreamedAnswer:
    """What a stream said.

    Args:
        text: Of the answer, as sent.
        citations: The last list of results that was not empty.
        is_finished: A chunk named a reason for the end.
        usage: Tokens, of the last chunk that counted any.
        metrics: Milliseconds by the server's names.
        model: Its name of what answered.
        first_token_ms: When the first of the text came; None when none did.
        error: Text of an event that reported an error.
        has_choices: Some chunk carried a choice.
        chunks: How many there were.
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
    """What the events said, complete or not.

    Args:
        events: In order.
        unescape_html: Undo the escaping of `&`, `<` and `>`.
        observe: Is given the JSON of each event and returns what is read in its place.

    Raises:
        NoAnswer: `bad_response`, for an event that is no JSON object.
    """
    read = StreamedAnswer()
    texts: list[str] = []
    errors: list[str] = []
    for event in events:
        for chunk in map(observe, _chunks(event)):
            read.chunks += 1
            kind = chunk.get("event_type")
            choice = _choice(chunk)
            said = _content(choice)
            if kind in ANSWERING:
                if said and read.first_token_ms is None:
                    read.first_token_ms = event.at_ms
                texts.append(said)
            elif kind == ERROR:
                errors.append(said or "an error event without text")
            _take_facts(read, chunk, choice)
    read.text = "".join(texts)
    read.error = "".join(errors) or None
    if unescape_html:
        read.text = unescaped(read.text)
    return read


def checked(read: StreamedAnswer, *, is_cut: bool, found: bytes, may_be_empty: bool = False) -> StreamedAnswer:
    """The same, when it is an answer.

    Args:
        read: What the stream said.
        is_cut: The connection ended before the body did.
        found: The body, for the message.
        may_be_empty: The server abstains by saying nothing.

    Raises:
        NoAnswer: Why it is none.
    """
    if read.error is not None:
        raise NoAnswer("error_reply", f"the server reported an error: {read.error[:500]}", partial=read.text or None)
    if not read.chunks:
        if is_cut:
            raise NoAnswer("stream_truncated", "the stream ended before its first event")
        what = repr(found[:500]) if found else "an empty body"
        raise NoAnswer("bad_response", f"expected a stream of events, found {what}")
    if ERROR_TEXTS.match(read.text):
        raise NoAnswer("error_reply", f"the server wrote in place of an answer: {read.text.strip()[:500]}")
    if not read.is_finished:
        if not read.has_choices and not is_cut:
            raise NoAnswer("no_generator", "the stream has no choices: the server has no model to answer with")
        raise NoAnswer("stream_truncated", "the stream ended without a finish_reason", partial=read.text or None)
    if not read.text.strip() and not may_be_empty:
        raise NoAnswer(EMPTY_ANSWER, EMPTY_ANSWER_ERROR)
    return read


def unescaped(text: str) -> str:
    """The text without the escaping that cleaning as HTML adds; other entities are the answer's own."""
    return _ESCAPED.sub(lambda match: _CHARACTERS[match[1]], text)


def _chunks(event: Event) -> Iterator[Mapping[str, Any]]:
    if event.data.strip() == DONE:
        return
    try:
        values = json_values(event.data)
    except ValueError:  # also msgspec's
        raise NoAnswer("bad_response", f"expected JSON events, found {event.data[:500]!r}") from None
    for value in values:
        if not isinstance(value, dict):
            raise NoAnswer("bad_response", f"expected JSON objects, found {event.data[:500]!r}")
        yield value


def _choice(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _content(choice: Mapping[str, Any] | None) -> str:
    """What a choice adds: `delta` and `message` say the same, and some versions fill only one of them."""
    for key in ("delta", "message"):
        part = (choice or {}).get(key)
        content = part.get("content") if isinstance(part, dict) else None
        if isinstance(content, str) and content:
            return content
    return ""


def _take_facts(read: StreamedAnswer, chunk: Mapping[str, Any], choice: Mapping[str, Any] | None) -> None:
    if choice is not None:
        read.has_choices = True
        read.is_finished = read.is_finished or bool(choice.get("finish_reason"))
    citations = chunk.get("citations")
    results = citations.get("results") if isinstance(citations, dict) else None
    if isinstance(results, list) and results:
        read.citations = results
    usage, metrics, model = chunk.get("usage"), chunk.get("metrics"), chunk.get("model")
    if isinstance(usage, dict) and any(usage.values()):
        read.usage = usage
    if isinstance(metrics, dict) and metrics:
        read.metrics = metrics
    if isinstance(model, str) and model:
        read.model = model
