"""From the last attempt at a request to the error that tells of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.endpoints.attempts import Fault, Received
from rag_eval_pipeline.endpoints.errors import EndpointError, Failure
from rag_eval_pipeline.endpoints.replies import EXCERPT_BYTES

_CUT = frozenset({"connection_broken", "connection_reset"})


class Tried(NamedTuple):
    """An attempt that is over, with the account of its request so far."""

    received: Received
    fault: Fault | None
    requests: int
    elapsed_ms: float

    @property
    def is_answered(self) -> bool:
        """There is a reply to hand on: a whole one, or a stream that was cut after its start."""
        if self.fault is None:
            return self.received.is_success
        return bool(self.received.events) and self.fault.code in _CUT


def failure_of(
    tried: Tried,
    what: str,
    attempts: int,
    remark: str,
    *,
    masked: Callable[[str], str],
    kept: Callable[[bytes | bytearray], bytes],
) -> EndpointError:
    """The error of a request that is not tried again.

    Args:
        tried: The last attempt.
        what: What was asked: method and URL.
        attempts: How many there were.
        remark: For the end of the message.
        masked: Hides secrets in a text.
        kept: Hides secrets in a body.
    """
    received, fault = tried.received, tried.fault
    body = kept(received.body) or None
    status: Failure | None = None
    if fault is not None:
        code, found = fault
        if code in _CUT and received.is_success and body:
            status = "truncated"
    else:
        code = "rate_limited" if received.status == 429 else f"http_{received.status}"
        found = f"HTTP {received.status}{_said(received)}"
    tries = "" if attempts == 1 else f" after {attempts} attempts"
    return EndpointError(
        code,
        masked(f"{what}: {found}{tries}{remark}"),
        status=status,
        requests=tried.requests,
        partial=body if received.is_success else None,
        elapsed_ms=tried.elapsed_ms,
        http_status=received.status,
        body=None if received.is_success else body,
    )


def _said(received: Received) -> str:
    """What the body of an error says, as far as a line can tell it."""
    text = bytes(received.body[: 4 * EXCERPT_BYTES]).decode("utf-8", "replace")
    try:
        value: Any = msgspec.json.decode(bytes(received.body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    while isinstance(value, dict):
        value = next((value[key] for key in ("error", "message", "detail") if value.get(key)), None)
    said = " ".join((value if isinstance(value, str) else text).split())[:EXCERPT_BYTES]
    return f": {said!r}" if said else ""
