"""The date of evaluations, verdicts and alerts: the machine's clock, or a fixed time for demonstrations and tests.

Durations, latencies and the waits between retries are always measured by the machine's clock.
"""

import os
from datetime import UTC, datetime

from rag_eval_pipeline.errors import InputError

NOW_VARIABLE = "RAG_EVAL_NOW"  # such as 2026-11-15T02:00:00Z


def now() -> datetime:
    """Return the time of RAG_EVAL_NOW if it is set, else the present; in UTC.

    Raises:
        InputError: `bad_time`.
    """
    text = os.environ.get(NOW_VARIABLE)
    if not text:
        return datetime.now(UTC)
    try:
        given = datetime.fromisoformat(text)
        time = given.astimezone(UTC) if given.tzinfo else None
    except (ValueError, OverflowError):
        time = None
    if time is None:
        expected = "a time with its zone, such as 2026-11-15T02:00:00Z"
        raise InputError("bad_time", f"${NOW_VARIABLE}", expected, found=text, hint=f"Unset {NOW_VARIABLE}.")
    return time


def is_set() -> bool:
    """Return whether the time is that of RAG_EVAL_NOW."""
    return bool(os.environ.get(NOW_VARIABLE))
