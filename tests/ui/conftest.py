"""A server for a module's tests, and pages of a real browser on it."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect, sync_playwright

from rag_eval_pipeline.corpus.rendering.browser import find_browser
from tests.patience import PATIENCE_S
from ui.server import BUNDLED, Server

SCREENSHOTS_VARIABLE = "RAG_EVAL_SCREENSHOTS"  # a folder that keeps them; else they go with the test's own


BROKEN = """name: broken
title: Asks for a column that its source lacks
version: 1.0.0
license: Apache-2.0
source: {path: questions.csv}
questions: {question: Question, answer: Reply}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A bundled benchmark and one that is broken, a system and one whose settings file is torn."""
    broken = tmp_path_factory.mktemp("sources") / "broken"
    broken.mkdir()
    (broken / "benchmark.yaml").write_text(BROKEN)
    (broken / "questions.csv").write_text("Question,Answer\nWho?,Nobody\n")
    server = Server(tmp_path_factory.mktemp("server"), [broken, BUNDLED / "gannet-sound"])
    server.workspace.system_file("torn").write_text("kind: [\n")
    try:
        server.wait("the webserver", server.is_up)
        yield server
    finally:
        server.stop(signal.SIGTERM)  # does nothing after the last test, which stops it


@pytest.fixture(scope="module")
def context(server: Server) -> Iterator[BrowserContext]:
    """One profile for all tests, which parses Dagster's scripts once."""
    arguments = ["--disable-dev-shm-usage"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # it visits this machine's own pages only
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=arguments, timeout=1000 * PATIENCE_S)
        context = browser.new_context(viewport={"width": 1600, "height": 1000}, base_url=server.url)
        context.set_default_timeout(1000 * PATIENCE_S)
        expect.set_options(timeout=1000 * PATIENCE_S)
        yield context
        browser.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page; it and what it opens send every request to this machine."""
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    context.on("request", note)
    page = context.new_page()
    page.on("websocket", lambda socket: requested.append(socket.url))
    yield page
    for opened in context.pages:
        opened.close()
    context.remove_listener("request", note)
    hosts = {urlsplit(url.removeprefix("blob:")).hostname for url in requested if not url.startswith("data:")}
    assert hosts == {"127.0.0.1"}


@pytest.fixture
def screenshot(page: Page, tmp_path: Path) -> Callable[[str], None]:
    folder = Path(os.environ.get(SCREENSHOTS_VARIABLE) or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return lambda name: page.screenshot(path=folder / f"{name}.png", animations="disabled") and None
