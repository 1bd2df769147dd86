"""Opening a page and bringing it to rest: loaded, moved on where it leads, filled, and still. Each wait is bounded."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.rendering.page_scripts import MEASURE, SETTLE
from rag_eval_pipeline.corpus.rendering.serving import MOVES_MAX, Serving

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")

ALIVE_LIMIT_S = 10.0  # 800 sheets kept a page from answering for 3.5 s on a busy machine
SETTLE_LIMIT_S = 15.0
MEASURE_LIMIT_S = 30.0  # nothing waits in there: a page of 800 sheets takes seconds on a busy machine
SETTLE_OPTIONS: dict[str, int] = {"budgetMs": 5000, "scrollHeightMax": 200_000, "quietMs": 60, "quietMaxMs": 500}
THIN_TEXT = 300  # characters below which a page with scripts is given time to fill itself in

_THIN_LIMIT_MS = 3000.0
_AFTER_LEAVING_LIMIT_S = 2.0
_PARSE_LIMIT_MS = 60_000.0
_RESTS_MAX = 2 * MOVES_MAX


class Hung(Exception):
    """The page's scripts do not return."""


class AtRest(NamedTuple):
    """A page that has come to rest.

    Args:
        loaded: Whether everything that it waited for came in time.
        seen: What `measure.js` says of it.
    """

    loaded: bool
    seen: Any


async def bring_to_rest(page: "Page", serving: Serving, url: str, *, load_limit_s: float, scripts: bool) -> AtRest:
    """Opens a URL, goes on to where the page leads, and waits until it is still.

    Raises:
        Hung: Its scripts do not return.
        DocumentError: `blocked_navigation`, `http_<status>` of where it leads.
    """
    from playwright.async_api import Error

    limit_ms = load_limit_s * 1000
    loaded = await _loaded(page.goto(url, wait_until="load", timeout=limit_ms), serving.leaving)
    followed = 0
    for _ in range(_RESTS_MAX):
        if len(serving.moves) > followed:
            followed = len(serving.moves)
            loaded = await _arrive(page, serving, url, load_limit_s)
        try:
            if not loaded:
                await _end_of_body(page, scripts=scripts)
            seen = await _settle(page, scripts=scripts)
        except Error as error:
            if "navigation" not in str(error):
                raise
            loaded = await _loaded(page.wait_for_load_state(timeout=limit_ms), serving.leaving)
            continue
        if len(serving.moves) == followed:
            serving.at_rest = True
            return AtRest(loaded, seen)
    raise DocumentError("blocked_navigation", f"{url}: the page does not stop leading to other pages")


async def bounded(step: Awaitable[T], limit_s: float) -> T:
    """The outcome of a step.

    Raises:
        Hung: The page does not answer in time.
    """
    try:
        return await asyncio.wait_for(step, limit_s)
    except TimeoutError as error:
        raise Hung from error


async def _loaded(loading: Awaitable[object], leaving: asyncio.Event) -> bool:
    """Whether a page has loaded in time; one that wants to be another counts as loaded."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as TooLate

    load = asyncio.ensure_future(loading)
    leave = asyncio.ensure_future(leaving.wait())
    try:
        await asyncio.wait({load, leave}, return_when=asyncio.FIRST_COMPLETED)
        if leave.done():
            # The load event may never come once a page has turned to another.
            await asyncio.wait({load}, timeout=_AFTER_LEAVING_LIMIT_S)
        if load.done():
            load.result()
    except TooLate:
        return False
    except Error:
        if not leaving.is_set():
            raise
    finally:
        leave.cancel()
        load.cancel()
    return True


async def _arrive(page: "Page", serving: Serving, url: str, limit_s: float) -> bool:
    """Waits for the page that the page has moved on to; whether that has loaded in time."""
    move = serving.moves[-1]
    try:
        async with asyncio.timeout(limit_s):
            response = await move.response()
            while move.redirected_to is not None:
                move = move.redirected_to
                response = await move.response()
    except TimeoutError:
        return False
    if response is not None and serving.guard.refusal(response.url, response.headers) is not None:
        raise DocumentError("blocked_navigation", f"{url}: leads to {move.url}, which was refused")
    if response is not None and response.status >= 400:
        raise DocumentError(f"http_{response.status}", f"{url}: leads to {move.url}, HTTP {response.status}")
    try:
        await asyncio.wait_for(serving.arrived.wait(), _AFTER_LEAVING_LIMIT_S)
    except TimeoutError:
        return True  # a download, or nothing to show: the page stays
    return await _loaded(page.wait_for_load_state(timeout=limit_s * 1000), serving.leaving)


async def _end_of_body(page: "Page", *, scripts: bool) -> None:
    """Sees to it that a page that has not loaded in time has at least been read to its end.

    A script that does not come holds up all that stands behind it, and is not waited for where scripts are off.
    """
    if scripts:
        if await bounded(page.evaluate("document.readyState"), ALIVE_LIMIT_S) == "loading":
            raise Hung
    else:
        await page.wait_for_load_state("domcontentloaded", timeout=_PARSE_LIMIT_MS)


async def _settle(page: "Page", *, scripts: bool) -> Any:
    """Waits until the page is still, and measures it; without scripts no timer runs and nothing is waited for."""
    from playwright.async_api import TimeoutError as NotYet

    if not scripts:
        return await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    await bounded(page.evaluate("1"), ALIVE_LIMIT_S)
    await bounded(page.evaluate(SETTLE, SETTLE_OPTIONS), SETTLE_LIMIT_S)
    seen = await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    if seen["textLength"] < THIN_TEXT and seen["scripts"]:
        try:
            await page.wait_for_function(f"document.body?.innerText.length >= {THIN_TEXT}", timeout=_THIN_LIMIT_MS)
        except NotYet:
            # A short page is a page; and what it says may have come in the meantime.
            return await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
        await bounded(page.evaluate(SETTLE, SETTLE_OPTIONS), SETTLE_LIMIT_S)
        seen = await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    return seen
