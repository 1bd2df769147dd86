"""Each page of the hostile site, all the way from its URL, ends in a right PDF or in an error with a code."""

import asyncio
import contextlib
import contextvars
import os
import re
import threading
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, nullcontext

import psutil
import pytest

from corpus.hostile.answers import ANSWERS, PDF
from corpus.hostile.cases import CASES, Case
from corpus.hostile.drawing import shows
from corpus.hostile.rendering import LOAD_LIMIT_S, Outcome, make_all, rendering
from corpus.hostile.site import running
from rag_eval_pipeline.corpus.rendering import page_loading, render

pytestmark = pytest.mark.browser

AT_ONCE = 5
SCRIPTS_LIMIT_S = 3.0  # of each step of a page whose scripts do not end: they take a whole core until it is given up
LONG = {name: 600.0 for name in ("RENDER_LIMIT_S", "PRINT_LIMIT_S")}  # of hundreds of sheets


class Session:
    """What became of all cases, and which hosts were asked for meanwhile, by the browser for itself, too."""

    def __init__(self) -> None:
        self.resolved: set[str] = set()
        self.outcomes: dict[str, Outcome] = {}

    async def run(self, *batches: tuple[list[Case], AbstractContextManager[None]], **limits: object) -> None:
        """Render batches, each in its context, in one browser with the given settings of the egress policy."""
        async with (
            running(ANSWERS) as site,
            rendering(site.host, resolved=self.resolved, max_body_bytes=20_000_000, **limits) as renderer,
        ):
            for cases, context in batches:
                with context:
                    made = await make_all(renderer, [site.url(case.path) for case in cases], at_once=AT_ONCE)
                self.outcomes |= {case.path: outcome for case, outcome in zip(cases, made, strict=True)}


@contextlib.contextmanager
def scripts_given_up_soon() -> Iterator[None]:
    """Each step of a page with scripts has a short limit in this block; without its scripts, it has the usual one."""
    bounded, print_page = page_loading.bounded, render._print_page
    has_scripts = contextvars.ContextVar("has_scripts", default=False)

    async def print_page_noted(*arguments: object, scripts: bool, plain: bool = False) -> render.Rendered:
        token = has_scripts.set(scripts)
        try:
            return await print_page(*arguments, scripts=scripts, plain=plain)
        finally:
            has_scripts.reset(token)

    def bounded_soon(step: Awaitable[object], limit_s: float) -> Awaitable[object]:
        return bounded(step, SCRIPTS_LIMIT_S if has_scripts.get() else limit_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "_print_page", print_page_noted)
        for module in (page_loading, render):
            patch.setattr(module, "bounded", bounded_soon)
        yield


@pytest.fixture(scope="module")
def session(request, own_temp) -> Session:
    """All selected cases, made side by side by one renderer: what one does to the browser, the others must survive."""
    items = [item for item in request.session.items if item.parent is request.node]
    cases = [item.callspec.params["case"] for item in items if hasattr(item, "callspec")]
    session = Session()
    given_up = [case for case in cases if case.is_given_up], scripts_given_up_soon()
    late = [case for case in cases if case.hangs and not case.is_given_up], nullcontext()
    asyncio.run(session.run(given_up, late, page_load_limit_s=LOAD_LIMIT_S))
    session.before = open_now()
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in LONG.items():
            patch.setattr(render, name, limit)
        asyncio.run(session.run(([case for case in cases if not case.hangs], nullcontext())))
    session.after = open_now()
    return session


def open_now() -> tuple[int, int, list[psutil.Process]]:
    """Return how many descriptors and threads this process has, and its children that nobody waited for."""
    own = psutil.Process()
    for thread in threading.enumerate():
        if thread.name.startswith("waitpid-"):  # asyncio's, for a child that has ended
            thread.join()
    children = [child for child in own.children() if child.status() == psutil.STATUS_ZOMBIE]
    return own.num_fds(), threading.active_count(), children


@pytest.mark.fault(61)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.path, marks=[pytest.mark.long] if case.long else []) for case in CASES]
)
def test_hostile_page_gives_a_right_pdf_or_an_error_with_a_code(session, case):
    outcome = session.outcomes[case.path]

    text = outcome.text
    assert outcome.code == case.error, str(outcome.error)
    if outcome.row is None:
        return
    assert [marker for marker in case.seen if marker not in text] == []
    assert [marker for marker in case.unseen if marker in text] == []
    assert case.sheets[0] <= outcome.row.pages <= case.sheets[1]
    assert outcome.flags == case.flags
    assert (outcome.row.images_expected, outcome.row.images_drawn) == case.images
    assert (outcome.row.origin == "kept", outcome.pdf == PDF) == (case.kept, case.kept)
    if case.colour is not None:
        assert shows(outcome.pdf, case.colour)
    if outcome.row.origin == "rendered":
        assert re.findall(rb"/(?:CreationDate|ModDate) ?\(D:(\d{14})", outcome.pdf) == [b"19700101000000"] * 2
        assert b"/StructTreeRoot" not in outcome.pdf
    if case.font is not None:
        assert case.font in outcome.pdf


@pytest.mark.fault(12)
def test_hostile_pages_make_the_browser_resolve_no_other_host(session):
    """Chromium asks for hosts of its own: updates, field trials, autofill."""
    assert session.resolved == {"127.0.0.1"}


@pytest.mark.fault(71)
def test_hostile_pages_leave_nothing_behind(session, own_temp):
    assert os.listdir(own_temp) == []
    descriptors, threads, unwaited = session.after
    assert descriptors - session.before[0] < 5  # of those opened once; the pages are a hundred
    assert threads - session.before[1] < 5
    # The child that reads PDFs ends with the thread that started it, and is waited for at the next reading.
    assert [child.name() for child in unwaited] in ([], ["python"])
