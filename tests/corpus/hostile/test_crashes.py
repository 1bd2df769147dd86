"""What dies or hangs costs its own page and no other, and leaves nothing behind."""

import asyncio
import os
import signal

import psutil
import pytest

from corpus.conftest import descendants
from corpus.hostile.answers import page, paragraphs
from corpus.hostile.rendering import make, make_all, rendering
from corpus.hostile.site import Answers, Odd, Reply, Site, running, send

pytestmark = pytest.mark.browser

OTHERS = 6


def processes(kind: str) -> list[psutil.Process]:
    """Return this test's processes that draw pages (`renderer`), or the browsers themselves."""
    if kind:
        return descendants(f"--type={kind}")
    typed = descendants("--type=")
    return [process for process in descendants("--user-data-dir") if process not in typed]


def kill(kind: str, *, times: int) -> Odd:
    """A picture that ends a browser's processes when it is asked for, at its first few times."""

    async def answer(site: Site, writer: asyncio.StreamWriter) -> None:
        if sum(site.asked[path] for path in site.asked if path.startswith("/kill")) <= times:
            for process in processes(kind):
                process.send_signal(signal.SIGKILL)
        await send(writer, Reply(b"", "image/png"))

    return answer


def pages(deadly: Odd) -> Answers:
    answers: Answers = {f"/{n}": Reply(page(f"<p>WELL-{n}</p>{paragraphs(20)}").encode()) for n in range(OTHERS)}
    return {"/deadly": Reply(page("<img src=/kill><p>DEADLY</p>").encode()), "/kill": deadly, **answers}


@pytest.mark.parametrize("kind", ["renderer", ""], ids=["pages", "browser"])
async def test_killed_process_costs_no_document(own_temp, kind):
    async with running(pages(kill(kind, times=1))) as site, rendering(site.host) as renderer:
        paths = ["/deadly", *(f"/{n}" for n in range(OTHERS))]
        outcomes = await make_all(renderer, [site.url(path) for path in paths], at_once=4)

    assert site.asked["/kill"] == 2
    assert [str(outcome.error) for outcome in outcomes if outcome.code is not None] == []
    assert [outcome.flags for outcome in outcomes] == [()] * len(paths)
    assert "DEADLY" in outcomes[0].text
    assert [n for n in range(OTHERS) if f"WELL-{n}" not in outcomes[n + 1].text] == []
    assert (processes(""), os.listdir(own_temp)) == ([], [])


@pytest.mark.parametrize(("kind"), ["renderer", ""], ids=["pages", "browser"])
async def test_page_that_dies_each_time_is_an_error_and_the_next_one_is_printed(own_temp, kind):
    async with running(pages(kill(kind, times=99))) as site, rendering(site.host) as renderer:
        deadly = await make(renderer, site.url("/deadly"))
        well = await make(renderer, site.url("/0"))

    assert (deadly.code, well.code) == ("browser_crashed", None)
    assert "WELL-0" in well.text
    assert (processes(""), os.listdir(own_temp)) == ([], [])


async def test_page_whose_scripts_crash_it_is_printed_without_them(own_temp):
    """Once its own process has died twice: other pages' deaths do not switch a page's scripts off."""
    async with running(pages(kill("renderer", times=2))) as site, rendering(site.host) as renderer:
        outcome = await make(renderer, site.url("/deadly"))

    assert (outcome.code, outcome.flags) == (None, ("js_off",))
    assert "DEADLY" in outcome.text


async def test_pages_in_endless_loops_end_with_their_context_and_not_their_browser(own_temp):
    loop = Reply(page("<p>LOOP</p><script>onload=()=>{for(;;);}</script>").encode())
    async with running(pages(kill("", times=0)) | {"/loop": loop}) as site, rendering(site.host) as renderer:
        browsers = processes("")
        loops = await make_all(renderer, [site.url("/loop")] * 2, at_once=2)
        first = processes("")
        await make(renderer, site.url("/0"))
        last = processes("")

    assert browsers == []
    assert [(o.flags, "LOOP" in o.text) for o in loops] == [(("js_off",), True)] * 2
    assert first != []
    assert first == last
