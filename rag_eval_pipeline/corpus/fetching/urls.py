"""Which URLs may be asked for at all: http and https, spelled so that every reader sees the same host."""

import re
from urllib.parse import urljoin

import httpx

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.naming import parse_url


def check_url(url: str) -> httpx.URL:
    """The URL as it can be requested, without fragment.

    Raises:
        DocumentError: `scheme` for anything but http and https; `bad_url` for credentials, control characters, no host.
    """
    url = url.strip()
    parts = parse_url(url)
    if parts.scheme not in {"http", "https"}:
        raise DocumentError("scheme", f"{url[:200]!r} is not an http or https URL")
    if re.search(r"[\x00-\x20\x7f\ud800-\udfff]", url) or re.search(r"[\\@]", parts.netloc):
        raise DocumentError("bad_url", f"{url[:200]!r} holds blanks, control characters or credentials")
    try:
        checked = httpx.URL(url).copy_with(fragment=None)
        host = checked.host  # decoded here, where `xn--a` is found to be none
    except (httpx.InvalidURL, ValueError) as error:
        raise DocumentError("bad_url", f"{url[:200]!r}: {error}") from error
    if not host or (checked.port is not None and not 0 < checked.port < 1 << 16):
        raise DocumentError("bad_url", f"{url[:200]!r} names no host or no port")
    return checked


def joined(base: str, location: str) -> str:
    """Where a redirect leads.

    Raises:
        DocumentError: `bad_url` for broken brackets.
    """
    try:
        return urljoin(base, location)
    except ValueError as error:
        raise DocumentError("bad_url", f"{location[:200]!r}: {error}") from error
