"""What is asked again, and when."""

import datetime as dt
import email.utils
import random

RETRIED_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)})
RETRIED_CODES = frozenset(
    {"connection_refused", "connection_reset", "connection_broken", "dns", "connect_timeout", "attempt_timeout"}
)
PAUSING_STATUSES = frozenset({429, 503})  # with Retry-After: the server means everybody
BACKOFF_MAX_S = 30.0  # longest wait that is not the server's own wish


def retry_after(value: str | None, now: dt.datetime) -> float | None:
    """Seconds that a `Retry-After` header asks to wait.

    Args:
        value: Of the header; None where there is none.
        now: Aware.

    Returns:
        0.0 or more; 0.0 for a moment in the past. None for anything but a number or a date, a negative number included.

    Source: RFC 9110, 10.2.3.
    """
    text = (value or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdecimal():
        # Twenty digits are a number too; float() has no limit on them, int() has.
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or dt.UTC) - now).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return None


def backoff(attempt: int, first_s: float, rng: random.Random) -> float:
    """Seconds before the next attempt: full jitter below a ceiling that doubles.

    Args:
        attempt: Attempts made so far, 1 or more.
        first_s: Ceiling after the first attempt.
        rng: What draws.

    Source: Brooker, Exponential Backoff And Jitter (AWS Architecture Blog, 2015).
    """
    return rng.uniform(0.0, min(BACKOFF_MAX_S, first_s * 2 ** (attempt - 1)))
