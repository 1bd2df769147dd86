"""What a page is given: its own bytes, files that lie beside a local body, and for the rest the guard.

A mirrored page with `img/map.png` beside it has its picture; nothing outside the body's folder is ever read.
"""

import asyncio
import contextlib
import hashlib
import html
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.corpus.egress.config import host_of
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.fetching.bodies import Body, image_type

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page, Request, Route

_PLAIN = "script-src 'none'; style-src 'none'; font-src 'none'"  # style attributes count as styles
ABSENT = "-"  # stands for the digest of a file that a page asked for and that was not there
FILE_BYTES_MAX = 100_000_000
MOVES_MAX = 5  # as many as redirects on the wire
# A picture is shown by a page that has it for its only content; by its own address, so that it is asked for once more.
IMAGE_PAGE = (
    "<!doctype html><style>body{{margin:0}}img{{display:block;max-width:100%;max-height:100vh;margin:auto}}</style>"
    '<img src="{url}" alt="">'
)


class Serving:
    """Answers the requests of one HTML page, or of one picture.

    Args:
        page: Whose requests they are.
        body: What the page is made from.
        guard: The only way out.
        plain: Whether the page is shown without its styles, and without scripts of its own.

    Attributes:
        leaving: Set when the page wants to be another one; each page has its own.
        arrived: Set when it has become the last of `moves`.
        at_rest: To be set when the page shall stay the one that it is.
        blocked: Whether the page was kept from becoming another one.
        moves: Other pages that it went on to, in order.
        resources: Files asked for in the body's folder, as in `CorpusDocument`.
    """

    def __init__(self, page: "Page", body: Body, guard: Guard, *, plain: bool = False) -> None:
        self._headers = {"Content-Security-Policy": _PLAIN} if plain else {}
        self.guard = guard
        self.leaving = asyncio.Event()
        self.arrived = asyncio.Event()
        self.at_rest = False
        self.blocked = False
        self.moves: list[Request] = []
        self.resources: set[str] = set()
        self._page = page
        self._body = body
        document = body.final_url or body.url
        self._strayed = False
        self._home = host_of(document) if guard.url_for(document) != guard.url else None
        self._shown: str | None = None  # as the browser spells it
        self._been: set[str] = set()
        page.on("framenavigated", self._note)

    @property
    def has_left(self) -> bool:
        """Whether the page is another one now than it was."""
        return bool(self.moves) and _address(self._page.url) != self._shown

    @property
    def has_strayed(self) -> bool:
        """Whether a page that may ask private hosts wanted to be one of another host, which may not."""
        return self._strayed or self._is_abroad(self._page.url)

    async def answer(self, route: "Route") -> None:
        """The handler of every request, redirects excepted, which the guard sees."""
        from playwright.async_api import Error

        with contextlib.suppress(Error):  # the page may be gone by now
            await self._answer(route)

    async def _answer(self, route: "Route") -> None:
        request = route.request
        address = _address(request.url)
        if request.is_navigation_request() and request.frame == self._page.main_frame:
            if self._shown is None:
                self._shown = address
                self._been.add(address)
                await self._show(route)
                return
            # A page from a local body has no business elsewhere; a fetched one may move on, but not in a circle.
            may_move = self._body.final_url is not None and not self.at_rest and len(self.moves) < MOVES_MAX
            self.leaving.set()
            self._strayed = self._strayed or (may_move and self._is_abroad(request.url))
            if not may_move or address in self._been or self._strayed:
                self.blocked = True
                await route.fulfill(status=204)  # leaves the page as it is; an error would blank it
                return
            self._been.add(address)
            self.moves.append(request)
            self.arrived, self.leaving = asyncio.Event(), asyncio.Event()
        elif address == self._shown:
            await route.fulfill(status=200, content_type=self._own_type(), body=self._body.data)
            return
        if self.has_strayed:
            await route.abort()
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

    async def _show(self, route: "Route") -> None:
        if self._body.kind == "image":
            shown = IMAGE_PAGE.format(url=html.escape(self._shown or ""))
            await route.fulfill(status=200, content_type="text/html", body=shown)
        else:
            headers = {"Content-Type": self._own_type(), **self._headers}
            await route.fulfill(status=200, headers=headers, body=self._body.data)

    def _own_type(self) -> str:
        if self._body.kind == "image":
            return image_type(self._body.data) or "image/svg+xml"
        return f"text/html; charset={self._body.charset}" if self._body.charset else "text/html"

    def _is_abroad(self, url: str) -> bool:
        return self._home is not None and url.startswith("http") and host_of(url) != self._home

    def _note(self, frame: "Frame") -> None:
        if frame == self._page.main_frame:
            self.arrived.set()

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


def _address(url: str) -> str:
    return url.partition("#")[0]


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
