"""What an answer says of a body: which version it is of, how it is sent, and why it cannot be had."""

import datetime as dt
import email.utils

import httpx

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.egress.trust import UNTRUSTED, distrust
from rag_eval_pipeline.corpus.fetching.retries import again
from rag_eval_pipeline.corpus.fetching.urls import check_url, joined
from rag_eval_pipeline.sources.download_cache import Version

LATER = "Try again later: what has come is kept."
CHECK = "Check `url` in benchmark.yaml."

_STRONG_DATE_S = 60  # a date that much older than the answer cannot belong to two versions (RFC 9110 8.8.2.2)


class Fault(Exception):
    """Why a body cannot be had; `wait_s` is what the server asked for, `passing` whether it is worth another try."""

    def __init__(
        self, code: str, found: str, hint: str | None = None, *, passing: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(found)
        self.code = code
        self.found = found
        self.hint = hint
        self.passing = passing
        self.wait_s = wait_s


def version_of(response: httpx.Response, own: httpx.URL) -> Version:
    """The version of an answer's body.

    Args:
        response: A whole body, status 200.
        own: The URL that was asked for.

    Raises:
        Fault: The body is encoded in a way that cannot be undone.
    """
    headers = response.headers
    length = headers.get("content-length", "")
    etag, modified = _sendable(headers.get("etag")), _sendable(headers.get("last-modified"))
    # The query of an address that a server made up for one request may be a signature: nothing to keep.
    final_url = response.url if response.url == own else response.url.copy_with(query=None)
    is_strong = etag is not None and not etag.startswith("W/")
    return Version(
        final_url=str(final_url),
        size=int(length) if length.isdecimal() else None,
        validator=etag if is_strong else _strong_date(modified, headers.get("date")),
        etag=etag,
        last_modified=modified,
        content_type=headers.get("content-type"),
        content_encoding=encoding_of(response),
    )


def _sendable(value: str | None) -> str | None:
    """A header that can be sent back as it came; None for one that cannot, which is as if there were none."""
    return value if value is not None and value.isascii() and value.isprintable() else None


def _strong_date(modified: str | None, date: str | None) -> str | None:
    """The date of the last change, when it tells versions apart."""
    changed, answered = _date(modified), _date(date)
    if changed is None or answered is None or (answered - changed).total_seconds() < _STRONG_DATE_S:
        return None
    return modified


def encoding_of(response: httpx.Response) -> str:
    """`identity` or `gzip`.

    Raises:
        Fault: Something else, which was not asked for.
    """
    encoding = str(response.headers.get("content-encoding", "identity")).strip().lower().removeprefix("x-")
    if encoding not in ("identity", "gzip"):
        raise Fault("download_failed", f"a body sent as {encoding!r}, which was not asked for", CHECK)
    return encoding


def lawful(url: str, *, base: httpx.URL | None = None) -> httpx.URL:
    """The URL as it can be requested; with a base, one that may be relative to it.

    Raises:
        Fault: `scheme`, `bad_url`.
    """
    try:
        return check_url(url if base is None else joined(str(base), url))
    except DocumentError as error:
        raise Fault(error.code, error.message, CHECK) from error


def guarded(code: str, reason: str) -> Fault:
    """The guard's refusal; only a host that does not answer is asked again."""
    if code == "egress_blocked":
        hint = "Private hosts are allowed one by one in data/config/egress.config.yaml."
        return Fault(code, reason, hint)
    if code == "host_unresolved":
        return Fault("download_failed", f"{code}: {reason}", CHECK)
    return Fault("download_failed", f"{code or 'no answer'}: {reason}", LATER, passing=code == "connect_failed")


def broken(error: Exception, origin: str, offset: int) -> Fault:
    """A connection that failed after so many bytes; one that was refused for its certificate is not made again."""
    refused = distrust(error)
    if refused is not None:
        return Fault(UNTRUSTED, f"{origin}: {refused.reason}", refused.hint)
    # Its message may quote a header; its kind says what happened.
    found = f"a connection that broke after {offset:,} bytes ({type(error).__name__})"
    return Fault("download_failed", found, LATER, passing=True)


def backoff(error: Exception) -> bool | float:
    """For stamina: whether to try again, or after how many seconds at the server's wish."""
    return isinstance(error, Fault) and error.passing and again(error.wait_s)


def _date(value: str | None) -> dt.datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=dt.UTC)
