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

PRODUCT = "rag-eval-pipeline"  # the User-Agent token that groups of rules are matched against
READ_BYTES = 512_000  # RFC 9309 2.5 asks for 500 KiB at least; rules further down are not read
CRAWL_DELAY_MAX_S = 30.0  # not part of RFC 9309, and real files request hours; 300 pages at 30 s take 2.5 hours
_KEPT = 1000  # hosts whose rules are remembered; the oldest are fetched again when needed

# RFC 9309 2.3.1.3: what is not there allows all. So do a loop of redirects (2.3.1.2) and an answer that is no text.
_UNAVAILABLE = re.compile(r"http_4(?!29)\d\d|empty_body|too_many_redirects|unsupported_type|content_mismatch")


@dataclass(slots=True)
class _Site:
    fetching: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: Protego | DocumentError | None = None


class Robots:
    """The robots.txt of each host, fetched once.

    Args:
        fetch: Returns the body behind a URL without checking robots.txt; raises `DocumentError`.
        setting: With `ignore`, nothing is fetched and everything is allowed.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[bytes]], *, setting: Literal["obey", "ignore"]) -> None:
        self._fetch = fetch
        self._setting = setting
        self._sites: dict[str | None, _Site] = {}

    async def check(self, url: str) -> float:
        """Return the seconds that the host wants between two requests, at most `CRAWL_DELAY_MAX_S`.

        Raises:
            DocumentError: `robots_disallowed` if the host's rules forbid the URL, `robots_unreachable` if they could
                not be fetched, which counts as forbidden (RFC 9309 2.3.1.4).
        """
        if self._setting == "ignore":
            return 0.0
        rules = await self._rules(url)
        if isinstance(rules, DocumentError):
            raise DocumentError(
                "robots_unreachable",
                f"{url}: not fetched, because the host's robots.txt could not be fetched ({rules}); "
                "`robots: ignore` in egress.config.yaml does not ask for it",
            )
        if not rules.can_fetch(url, PRODUCT):
            raise DocumentError(
                "robots_disallowed",
                f"{url}: the robots.txt of {urlsplit(url).netloc} disallows it for {PRODUCT}; "
                "`robots: ignore` in egress.config.yaml overrules that",
            )
        delay_s = rules.crawl_delay(PRODUCT)
        return min(delay_s, CRAWL_DELAY_MAX_S) if delay_s is not None and delay_s > 0 else 0.0

    async def _rules(self, url: str) -> Protego | DocumentError:
        origin = origin_of(url)
        site = self._sites.setdefault(origin, _Site())
        if len(self._sites) > _KEPT:
            del self._sites[next(iter(self._sites))]
        async with site.fetching:
            if site.rules is None:
                try:
                    site.rules = Protego.parse(_text(await self._fetch(f"{origin}/robots.txt")))
                except DocumentError as error:
                    site.rules = Protego.parse("") if _UNAVAILABLE.fullmatch(error.code) else error
        return site.rules


def _text(data: bytes) -> str:
    """Return the lines within the limit; half a line could be a wider rule than the whole one."""
    if len(data) > READ_BYTES:
        data = data[: max(data.rfind(b"\n", 0, READ_BYTES), data.rfind(b"\r", 0, READ_BYTES)) + 1]
    return data.decode("utf-8-sig", "replace")
