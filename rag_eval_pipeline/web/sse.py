"""Server-sent events, as they are specified and as RAG servers send them.

Besides the specified form, lines of bare JSON without `data:` and a last event without its empty line are accepted. The
events do not depend on how the bytes are cut into chunks.
Source: WHATWG HTML, 9.2 Server-sent events.
"""

import codecs
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

DONE = "[DONE]"


class Event(NamedTuple):
    """One event; `at_ms` counts from the sending of the request."""

    data: str
    event: str | None = None
    at_ms: float = 0.0


class EventParser:
    """Parses chunks of bytes into events; keep-alives, comments, `id` and `retry` are ignored.

    Args:
        errors: Of decoding UTF-8; `strict` raises UnicodeDecodeError, because a damaged text is no answer to score.
    """

    def __init__(self, *, errors: Literal["strict", "replace"] = "replace") -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors=errors)
        # Pieces of the current line, joined once: a line of megabytes may arrive byte by byte.
        self._line: list[str] = []
        self._after_cr = False
        self._data: list[str] = []
        self._event: str | None = None

    def feed(self, chunk: bytes, at_ms: float = 0.0) -> list[Event]:
        """Return the events that this chunk completes."""
        return list(self._events(self._decoder.decode(chunk), at_ms))

    def close(self, at_ms: float = 0.0) -> list[Event]:
        """Return the event that the end of the body completes; not to be called for a body that broke off."""
        events = list(self._events(self._decoder.decode(b"", final=True), at_ms))
        if self._line:
            events += self._take("".join(self._line), at_ms)
            self._line = []
        return [*events, *self._dispatch(at_ms)]

    def _events(self, text: str, at_ms: float) -> Iterator[Event]:
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        self._after_cr = self._after_cr or text.endswith("\r")
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            yield from self._take("".join([*self._line, line]), at_ms)
            self._line = []
        if rest:
            self._line.append(rest)

    def _take(self, line: str, at_ms: float) -> Iterator[Event]:
        if not line:
            yield from self._dispatch(at_ms)
        elif line.startswith("{") or line == DONE:
            yield from self._dispatch(at_ms)
            yield Event(line, None, at_ms)
        else:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                self._data.append(value)
            elif field == "event":
                self._event = value or None

    def _dispatch(self, at_ms: float) -> Iterator[Event]:
        data, event = "\n".join(self._data), self._event
        self._data, self._event = [], None
        if data.strip():
            yield Event(data, event, at_ms)


def parse_events(body: bytes) -> list[Event]:
    """Return the events of a whole body."""
    parser = EventParser()
    return [*parser.feed(body), *parser.close()]


def json_values(data: str) -> list[object]:
    """Return the JSON values of an event: one, or one a line if a server omits the empty lines between events.

    Raises:
        ValueError: The data is not JSON.
    """
    try:
        try:
            return [msgspec.json.decode(data)]
        except msgspec.DecodeError:
            lines = [line for line in data.split("\n") if line.strip() and line.strip() != DONE]
            if len(lines) < 2 and DONE not in data:
                raise
            return [msgspec.json.decode(line) for line in lines]
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error
