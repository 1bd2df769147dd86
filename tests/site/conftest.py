"""Sites of real evaluations, and pages of a real browser on them that may ask for nothing but files."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from rag_eval_pipeline.corpus.rendering.browser import find_browser
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.site.site import write_site
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import MadeOnce
from tests.patience import PATIENCE_S

RAILWAY = "skarn-railway"
AXE = AXE_FILE_PATH.read_text()

Open = Callable[..., Page]


def value_of(path: Path) -> Any:
    """Return the value of a data file."""
    text = path.read_text()
    return json.loads(text[text.index(",") + 1 : text.rindex(")")])


def run_folder(workspace: Workspace, system: str = "embedded") -> Path:
    """Return the folder of the newest run's pages."""
    return workspace.reports / "runs" / read_history(workspace).by_pair[RAILWAY, system][-1].evaluation_id


def rows(page: Page) -> Locator:
    """Return the rows of questions."""
    return page.locator(".rows tbody tr:not(.gap)")


# Rows with the same elements of the same classes have the same findings: one of each kind is looked at.
ONE_ROW_OF_A_KIND = """() => {
  const seen = new Set();
  for (const row of document.querySelectorAll("tbody tr")) {
    const kind = [row, ...row.querySelectorAll("*")].map((one) => `${one.tagName}.${one.getAttribute("class")}`).join();
    if (seen.has(kind)) row.remove();
    seen.add(kind);
  }
}"""


# What depends on the width and on the colours is looked at again in the other ones.
RULES = {
    (1280, "light"): "undefined",
    (390, "dark"): "['color-contrast', 'target-size', 'scrollable-region-focusable', 'meta-viewport']",
}


def serious_findings(page: Page, rules: str) -> list[tuple[str, str]]:
    """Return the serious findings of axe with everything unfolded: rule and first element. `rules` is JavaScript."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(ONE_ROW_OF_A_KIND)
    page.evaluate(AXE)
    found = page.evaluate(f"axe.run({{ preload: false, resultTypes: ['violations'], runOnly: {rules} }})")["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.fixture(scope="session")
def _reported(_evaluated: Path, made_once: MadeOnce) -> Path:
    """Two benchmarks evaluated with two systems, one pair twice; and the site."""

    def make(root: Path) -> None:
        shutil.copytree(_evaluated, root, symlinks=True, dirs_exist_ok=True)
        evaluate(Workspace(root), load_pair(Workspace(root), RAILWAY, "embedded"))
        write_site(Workspace(root), write_comparisons(Workspace(root)))

    return made_once("reported", make)


@pytest.fixture
def site(_reported: Path) -> Workspace:
    """The workspace that all tests share: to be read only."""
    return Workspace(_reported)


@pytest.fixture
def reported(_reported: Path, tmp_path: Path) -> Workspace:
    """A copy of the test's own."""
    root = tmp_path / "workspace"
    shutil.copytree(_reported, root, symlinks=True)
    return Workspace(root)


@pytest.fixture(scope="module")
def browser(_reported: Path) -> Iterator[Browser]:
    """For one module, and after the evaluations: while it is there, nothing else can run an event loop."""
    arguments = ["--disable-dev-shm-usage"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # it visits this machine's own files only
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=arguments, timeout=1000 * PATIENCE_S)
        expect.set_options(timeout=1000 * PATIENCE_S)
        yield browser
        browser.close()


def new_page(browser: Browser) -> Page:
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    return page


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a file; afterwards nothing was asked for but files, no dialog came up and nothing was complained of."""
    contexts: list[BrowserContext] = []
    asked: list[str] = []
    complaints: list[str] = []

    def open_(path: Path, *, fragment: str = "", width: int = 1280, scheme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(1000 * PATIENCE_S)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.goto(path.as_uri() + (f"#{fragment}" if fragment else ""))
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
