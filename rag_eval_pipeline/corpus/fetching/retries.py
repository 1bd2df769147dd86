"""What is asked again, and when."""

import datetime as dt
import email.utils

import httpx

REDIRECTS = {301, 302, 303, 307, 308}
BUSY = {429, 500, 502, 503, 504}
RETRY_WAIT_S = 0.3  # before the second attempt; doubled for each further one
RETRY_WAIT_MAX_S = 10.0  # also the most that a server's Retry-After can ask for


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a server asks to wait: a number or a date; None when it says neither."""
    value = response.headers.get("retry-after", "")
    if value.isdecimal():
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=dt.UTC)
    return (date - dt.datetime.now(dt.UTC)).total_seconds()
