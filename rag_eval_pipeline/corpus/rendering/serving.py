"""What a page is given: its own bytes, files that lie beside a local body, and for the rest the guard.

A mirrored page with `img/map.png` beside it has its picture; nothing outside the body's folder is ever read.
"""

import asyncio
import contextlib
import hashlib
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.corpus.fetching.bodies import Body

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

ABSENT = "-"  # stands for the digest of a file that a page asked for and that was not there
FILE_BYTES_MAX = 100_000_000


class Serving:
    """Answers the requests of one HTML page.

    Attributes:
        navigation_blocked: Set when the page wanted to be another one and was not let.
        resources: Files asked for in the body's folder, as in `CorpusDocument`.
    """

    def __init__(self, page: "Page", body: Body) -> None:
        self.navigation_blocked = asyncio.Event()
        self.resources: set[str] = set()
        self._page = page
        self._body = body
        self._shown: str | None = None  # as the browser spells it
        self._content_type = f"text/html; charset={body.charset}" if body.charset else "text/html"

    async def answer(self, route: "Route") -> None:
        """The handler of every request, redirects excepted, which the guard sees."""
        from playwright.async_api import Error

        with contextlib.suppress(Error):  # the page may be gone by now
            await self._answer(route)

    async def _answer(self, route: "Route") -> None:
        request = route.request
        if request.is_navigation_request() and request.frame == self._page.main_frame:
            if self._shown is None:
                self._shown = request.url.partition("#")[0]
                await route.fulfill(status=200, content_type=self._content_type, body=self._body.data)
                return
            # 204 leaves the page as it is. A page from a local body has no business elsewhere; a fetched one may move
            # on, but not in a circle.
            if self._body.final_url is None or request.url.partition("#")[0] == self._shown:
                self.navigation_blocked.set()
                await route.fulfill(status=204)
                return
        elif request.url.partition("#")[0] == self._shown:
            await route.fulfill(status=200, content_type=self._content_type, body=self._body.data)
            return
        relative = self._relative(request.url)
        if relative is not None and self._body.folder is not None:
            data = read_beside(self._body.folder, relative)
            self.resources.add(f"{digest(data)} {relative}")
            if data is not None:
                content_type = mimetypes.guess_type(relative)[0] or "application/octet-stream"
                await route.fulfill(status=200, content_type=content_type, body=data)
                return
        await route.continue_()

    def _relative(self, url: str) -> str | None:
        """The path of a URL below the page's own folder; None when it lies elsewhere."""
        asked, shown = urlsplit(url), urlsplit(self._shown or "")
        if (asked.scheme, asked.netloc) != (shown.scheme, shown.netloc):
            return None
        folder = shown.path.rpartition("/")[0] + "/"
        if not asked.path.startswith(folder):
            return None
        parts = [unquote(part) for part in asked.path.removeprefix(folder).split("/")]
        if any(part in {"", ".", ".."} or "/" in part or "\0" in part for part in parts):
            return None
        return "/".join(parts)


def read_beside(folder: Path, relative: str) -> bytes | None:
    """A regular file in a folder, reached without any link; None when there is none."""
    path = folder.resolve() / relative
    try:
        if path.resolve(strict=True) != path or not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            return None
        return path.read_bytes()
    except OSError:
        return None


def digest(data: bytes | None) -> str:
    """SHA-256 of a file's bytes, or the sign for no file."""
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


def resources_unchanged(folder: Path, resources: tuple[str, ...]) -> bool:
    """Whether the files that a page was drawn with are still the same, and the absent ones still absent."""
    return all(
        digest(read_beside(folder, relative)) == known
        for known, _, relative in (resource.partition(" ") for resource in resources)
    )
