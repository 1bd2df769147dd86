"""robots.txt of each host, obeyed where the settings say so.

The rules follow RFC 9309 and are parsed by protego, Scrapy's parser: `urllib.robotparser` takes the first rule that
matches instead of the longest, and knows no `*` and `$`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from protego import Protego

from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.egress import origin_of

Setting = Literal["obey", "ignore"]
Fetch = Callable[[str], Awaitable[bytes]]

PRODUCT = "rag-eval-pipeline"  # the User-Agent token that groups of rules are matched against
READ_BYTES = 512_000  # RFC 9309 2.5 asks for 500 KiB at least; rules further down are not read
CRAWL_DELAY_MAX_S = 30.0  # not part of RFC 9309, and real files request hours; 300 pages at 30 s take 2.5 hours
_KEPT = 1000  # hosts whose rules are remembered; the oldest are fetched again when needed

# RFC 9309 2.3.1.3: what is not there allows all. So do a loop of redirects (2.3.1.2) and an answer that is no text.
_UNAVAILABLE = re.compile(r"http_4(?!29)\d\d|empty_body|too_many_redirects|unsupported_type|content_mismatch")


@dataclass(slots=True)
class _Site:
    fetching: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: Protego | None = None
    unreachable: DocumentError | None = None


_ALLOW_ALL = Protego.parse("")


class Robots:
    """The robots.txt of each host, fetched once.

    Args:
        fetch: Returns the body behind a URL without checking robots.txt; raises `DocumentError`.
        setting: With `ignore`, nothing is fetched and everything is allowed.
    """

    def __init__(self, fetch: Fetch, *, setting: Setting) -> None:
        self._fetch = fetch
        self._setting = setting
        self._sites: dict[str, _Site] = {}

    async def check(self, url: str) -> None:
        """Raise an error if the URL may not be fetched.

        Raises:
            DocumentError: `robots_disallowed` if the host's rules forbid it, `robots_unreachable` if they could not be
                fetched, which counts as forbidden (RFC 9309 2.3.1.4).
            ValueError: The URL names no host.
        """
        if self._setting == "ignore":
            return
        site = await self._site(url)
        if site.unreachable is not None:
            raise DocumentError(
                "robots_unreachable",
                f"{url}: not fetched, because the host's robots.txt could not be had ({site.unreachable}); "
                "`robots: ignore` in egress.config.yaml does not ask for it",
            )
        if site.rules is not None and not site.rules.can_fetch(url, PRODUCT):
            raise DocumentError(
                "robots_disallowed",
                f"{url}: the robots.txt of {urlsplit(url).netloc} disallows it for {PRODUCT}; "
                "`robots: ignore` in egress.config.yaml overrules that",
            )

    async def crawl_delay_s(self, url: str) -> float:
        """Return the seconds that the host wants between two requests, at most `CRAWL_DELAY_MAX_S`; 0.0 by default.

        Raises:
            ValueError: The URL names no host.
        """
        if self._setting == "ignore":
            return 0.0
        site = await self._site(url)
        delay_s = site.rules.crawl_delay(PRODUCT) if site.rules is not None else None
        return min(delay_s, CRAWL_DELAY_MAX_S) if delay_s is not None and delay_s > 0 else 0.0

    async def _site(self, url: str) -> _Site:
        origin = origin_of(url)
        if origin is None:
            raise ValueError(f"{url[:200]!r} names no host")
        site = self._sites.setdefault(origin, _Site())
        async with site.fetching:
            if site.rules is None and site.unreachable is None:
                try:
                    site.rules = Protego.parse(_text(await self._fetch(f"{origin}/robots.txt")))
                except DocumentError as error:
                    if _UNAVAILABLE.fullmatch(error.code):
                        site.rules = _ALLOW_ALL
                    else:
                        site.unreachable = error
        if len(self._sites) > _KEPT:
            oldest = next((origin for origin, site in self._sites.items() if not site.fetching.locked()), None)
            self._sites.pop(oldest or "", None)
        return site


def _text(data: bytes) -> str:
    """Return the lines within the limit; half a line could be a wider rule than the whole one."""
    if len(data) > READ_BYTES:
        data = data[: max(data.rfind(b"\n", 0, READ_BYTES), data.rfind(b"\r", 0, READ_BYTES)) + 1]
    return data.decode("utf-8-sig", "replace")
