"""What is asked again, and when."""

import datetime as dt
from collections.abc import AsyncIterable, Callable

import httpx
import stamina
import stamina.instrumentation

from rag_eval_pipeline.endpoints import retries as endpoint_retries

# Stamina logs each retry by structlog where that is installed, and structlog prints to stdout, into a command's JSON.
stamina.instrumentation.set_on_retry_hooks([])

REDIRECTS = {301, 302, 303, 307, 308}
BUSY = {429, 500, 502, 503, 504}
RETRY_WAIT_S = 0.3  # before the second attempt; doubled for each further one
RETRY_WAIT_MAX_S = 10.0  # also the most that a server's Retry-After can ask for


def attempts(number: int, *, on: Callable[[Exception], bool | float]) -> AsyncIterable[stamina.Attempt]:
    """Attempts at a body, each to be entered by `with`, until one succeeds or is not to be followed by another.

    Args:
        number: At most.
        on: Whether what an attempt failed of is worth another one, as `again` says it.
    """
    return stamina.retry_context(
        on=on, attempts=number, timeout=None, wait_initial=RETRY_WAIT_S, wait_max=RETRY_WAIT_MAX_S
    )


def again(asked_s: float | None) -> bool | float:
    """That there is to be another attempt: after the seconds that the server asked for, within reason, if it did."""
    return True if asked_s is None else min(max(asked_s, 0.0), RETRY_WAIT_MAX_S)


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a server asks to wait; None when it does not say."""
    return endpoint_retries.retry_after(response.headers.get("retry-after"), dt.datetime.now(dt.UTC))
