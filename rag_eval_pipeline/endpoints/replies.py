"""Whole replies with a status of success, read at once or as a stream of events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from rag_eval_pipeline.endpoints.errors import EndpointError
from rag_eval_pipeline.endpoints.events import Event

EXCERPT_BYTES = 500  # of a body that a message quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole reply with a status of success.

    Args:
        status: Of HTTP.
        headers: Of the reply; names in any case.
        body: As received, but for secrets that the server quoted.
        requests: Sent for it, failed attempts included.
        elapsed_ms: From the first sending to the last byte.
        raw_sha256: Of the body as received.
        masked: Hides the endpoint's secrets in a text.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    requests: int
    elapsed_ms: float
    raw_sha256: str
    masked: Callable[[str], str] = field(repr=False)

    def json(self) -> Any:
        """The body's JSON value.

        Raises:
            EndpointError: `bad_response` with the first 500 bytes.
        """
        try:
            return msgspec.json.decode(self.body.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.bad("JSON") from None

    def bad(self, expected: str) -> EndpointError:
        """The error `bad_response`: what was expected instead of this body."""
        found = self.masked(repr(self.body[:EXCERPT_BYTES])) if self.body else "an empty body"
        return EndpointError(
            "bad_response",
            f"expected {expected}, found {found}",
            requests=self.requests,
            elapsed_ms=self.elapsed_ms,
            http_status=self.status,
            body=self.body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReply(Reply):
    """A stream with a status of success that was read to its end, or to where it was cut.

    Args:
        events: In order, each with the time of its last byte.
        ended: `done` when the body ended as HTTP says it must; `cut` when the connection ended before that.
    """

    events: list[Event] = field(repr=False)
    ended: Literal["done", "cut"]
