"""What dies or hangs costs its own page and no other, and leaves nothing behind."""

import asyncio
import os
import signal
import threading

import psutil
import pytest

from corpus.conftest import descendants
from corpus.hostile.answers import page, paragraphs
from corpus.hostile.rendering import make, make_all, rendering
from corpus.hostile.site import Answers, Odd, Reply, Site, running, send
from rag_eval_pipeline.corpus.rendering import page_loading

pytestmark = pytest.mark.browser

OTHERS = 3


def processes(kind: str) -> list[psutil.Process]:
    """Return this test's processes that draw pages (`renderer`), or the browsers themselves."""
    if kind:
        return descendants(f"--type={kind}")
    typed = descendants("--type=")
    return [process for process in descendants("--user-data-dir") if process not in typed]


def kill(kind: str, *, times: int) -> Odd:
    """A picture that ends a browser's processes when it is asked for, at its first few times."""
    left = times

    async def answer(site: Site, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            for process in processes(kind):
                process.send_signal(signal.SIGKILL)
        await send(writer, Reply(b"", "image/png"))

    return answer


def deadly(picture: str) -> Reply:
    return Reply(page(f"<img src=/{picture}><p>DEADLY</p>").encode())


ONCE, ALWAYS = "once", "always"
KINDS = {"pages": "renderer", "browser": ""}
ANSWERS: Answers = {
    **{f"/{n}": Reply(page(f"<p>WELL-{n}</p>{paragraphs(20)}").encode()) for n in range(OTHERS)},
    "/loop": Reply(page("<p>LOOP</p><script>onload=()=>setTimeout(()=>{for(;;);},10)</script>").encode()),
    "/by-script": deadly("kill-twice"),
    "/kill-twice": kill("renderer", times=2),
}
for name, kind in KINDS.items():
    ANSWERS |= {f"/{ONCE}-{name}": deadly(f"kill-{ONCE}-{name}"), f"/kill-{ONCE}-{name}": kill(kind, times=1)}
    ANSWERS |= {f"/{ALWAYS}-{name}": deadly(f"kill-{ALWAYS}-{name}"), f"/kill-{ALWAYS}-{name}": kill(kind, times=99)}


class Session:
    """The outcomes of deaths and loops, one after the other in one renderer."""

    async def run(self) -> None:
        async with running(ANSWERS) as site, rendering(site.host) as renderer:
            self.before = processes("")
            with pytest.MonkeyPatch.context() as patch:  # each takes a whole core until it is given up
                patch.setattr(page_loading, "ALIVE_LIMIT_S", 1.5)
                self.loops = await make_all(renderer, [site.url("/loop")] * 2, at_once=2)
            self.first = processes("")
            self.by_script = await make(renderer, site.url("/by-script"))
            self.last = processes("")
            self.once, self.always, self.after = {}, {}, {}
            for name in KINDS:
                paths = [f"/{ONCE}-{name}", *(f"/{n}" for n in range(OTHERS))]
                self.once[name] = await make_all(renderer, [site.url(path) for path in paths], at_once=4)
                self.always[name] = await make(renderer, site.url(f"/{ALWAYS}-{name}"))
                self.after[name] = await make(renderer, site.url("/0"))
        self.asked = site.asked
        self.left = processes("")


@pytest.fixture(scope="module")
def session(own_temp) -> Session:
    session = Session()
    asyncio.run(session.run())
    session.files = os.listdir(own_temp)
    return session


@pytest.mark.fault(61)
@pytest.mark.parametrize("name", KINDS)
def test_killed_process_costs_no_document(session, name):
    outcomes = session.once[name]

    assert session.asked[f"/kill-{ONCE}-{name}"] == 2
    assert [str(outcome.error) for outcome in outcomes if outcome.code is not None] == []
    assert [outcome.flags for outcome in outcomes] == [()] * (1 + OTHERS)
    assert "DEADLY" in outcomes[0].text
    assert [n for n in range(OTHERS) if f"WELL-{n}" not in outcomes[n + 1].text] == []


@pytest.mark.fault(61)
@pytest.mark.parametrize("name", KINDS)
def test_page_that_dies_each_time_is_an_error_and_the_next_one_is_printed(session, name):
    assert (session.always[name].code, session.after[name].code) == ("browser_crashed", None)
    assert "WELL-0" in session.after[name].text


@pytest.mark.fault(61)
def test_page_whose_scripts_crash_it_is_printed_without_them(session):
    """Once its own process has died twice: other pages' deaths do not switch a page's scripts off."""
    assert (session.by_script.code, session.by_script.flags) == (None, ("js_off",))
    assert "DEADLY" in session.by_script.text


@pytest.mark.fault(61)
def test_pages_in_endless_loops_end_with_their_context_and_not_their_browser(session):
    assert session.before == []
    assert [(loop.flags, "LOOP" in loop.text) for loop in session.loops] == [(("js_off",), True)] * 2
    assert session.first != []
    assert session.first == session.last


@pytest.mark.fault(61, 71)
def test_crashes_leave_no_process_and_no_file(session):
    assert (session.left, session.files) == ([], [])


@pytest.mark.long
@pytest.mark.fault(71)
def test_five_hundred_pages_and_five_killed_browsers_leave_nothing_behind(own_temp):
    """A hundred pages open what is opened once."""
    answers = {**ANSWERS, **{f"/kill-{n}": kill("", times=1) for n in range(5)}}
    answers |= {f"/deadly-{n}": deadly(f"kill-{n}") for n in range(5)}

    async def run(numbers: range) -> list[str | None]:
        async with running(answers) as site, rendering(site.host) as renderer:
            paths = [f"/deadly-{n // 100}" if n % 100 == 50 else f"/{n % OTHERS}?{n}" for n in numbers]
            return [outcome.code for outcome in await make_all(renderer, [site.url(p) for p in paths], at_once=4)]

    own, opened, left = psutil.Process(), [], []
    for numbers in (range(100), range(100, 500)):
        assert asyncio.run(run(numbers)) == [None] * len(numbers)
        opened.append((own.num_fds(), threading.active_count(), len(own.children())))
        left.append((processes(""), os.listdir(own_temp)))

    assert left == [([], [])] * 2
    # What is closed when garbage is collected may be gone the second time.
    assert all(after <= before for before, after in zip(*opened, strict=True)), opened
    # The child that reads PDFs ends with the thread that started it, and is waited for when the next PDF is read.
    assert [child.status() for child in own.children()].count(psutil.STATUS_ZOMBIE) <= 1
