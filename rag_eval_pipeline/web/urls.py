"""Which URLs can be requested, and which fragments are routes: the rules for cells, settings and redirects alike."""

import functools
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.errors import DocumentError

if TYPE_CHECKING:
    import httpx

MAX_URL = 8_000  # characters; servers refuse longer request lines

_REFUSED = re.compile(r"[\s\x00-\x20\x7f\\<>\"]")
# URLs that are certainly good: a host of ASCII letters that is no address and no Punycode, no port, no user name.
_PLAIN_URL = re.compile(
    r"https?://(?!(?i:xn--))(?:[A-Za-z0-9-]+\.)*[A-Za-z][A-Za-z0-9-]*(?:/[A-Za-z0-9_.~!$&'()*+,;=:@%/?#-]*)?"
)


def check_url(url: str) -> "httpx.URL":
    """Return the URL as it can be requested, without fragment: http or https, and one reading of its host.

    Raises:
        DocumentError: `scheme` for anything but http and https; `bad_url` for blanks, control characters, backslashes,
            quotes, angle brackets, surrogates, credentials, an encoded NUL, no host, and more than 8,000 characters.
    """
    import httpx

    try:
        url.encode()  # refuses lone surrogates
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"}:
            raise DocumentError("scheme", f"{url[:200]!r} is not an http or https URL")
        if len(url) > MAX_URL or _REFUSED.search(url) or "@" in parts.netloc or "\x00" in unquote(url):
            raise DocumentError("bad_url", f"{url[:200]!r} is too long, or holds blanks, quotes or credentials")
        checked = httpx.URL(url).copy_with(fragment=None)
        host = checked.host  # decoded here, where a broken `xn--a` is found
    except (httpx.InvalidURL, ValueError) as error:
        raise DocumentError("bad_url", f"{url[:200]!r}: {error}") from error
    if not host or (checked.port is not None and not 0 < checked.port < 1 << 16):
        raise DocumentError("bad_url", f"{url[:200]!r} names no host or no port")
    # Full-width digits would turn into an address after the egress policy has checked them.
    if unicodedata.normalize("NFKC", parts.hostname or "") != parts.hostname:
        raise DocumentError("bad_url", f"{url[:200]!r} has a host in letters that stand for others")
    return checked


@functools.lru_cache(100_000)
def is_requestable(url: str) -> bool:
    """Return whether `check_url` accepts a URL."""
    if len(url) <= MAX_URL and _PLAIN_URL.fullmatch(url) and "%00" not in url:
        return True
    try:
        check_url(url)
    except DocumentError:
        return False
    return True


def route_of(fragment: str) -> str:
    """Return a fragment that makes a URL another page (`/install`, `!install`); "" for a place within a page."""
    return fragment if fragment.startswith(("/", "!")) else ""
