"""Draw docs/pictures from the report of `make demo`, in a real browser.

    DEMO_SERVE=0 make demo && python tools/draw_pictures.py

`regression.png` (1280 x 640) shows the verdict, its trend, and the worst question with the marked page; `report-*.png`
are whole pages.
"""

import base64
import sys
from html import escape
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from rag_eval_pipeline.corpus.rendering.browser import find_browser

REPOSITORY = Path(__file__).resolve().parent.parent
REPORTS = REPOSITORY / ".demo" / "data" / "reports"
PICTURES = REPOSITORY / "docs" / "pictures"
SCALE = 2  # device pixels for each CSS pixel of a part
WIDTH, HEIGHT = 1280, 640
COMPOSITION = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; width: {width}px; height: {height}px; overflow: hidden; background: #eef1f5; position: relative }}
body > * {{ position: absolute; border-radius: 10px; box-shadow: 0 2px 10px #0003 }}
div {{ right: 40px; bottom: 24px; width: 624px; padding: 12px 8px 8px; background: #fff;
  font: 15px "Noto Sans", sans-serif }}
div img {{ width: 100% }} h1 {{ font-size: 16px; margin: 0 8px 10px }}
</style>
<img style="right: 24px; top: 24px; width: 540px" src="{page}">
<img style="left: 24px; top: 24px; width: 680px" src="{verdict}">
<img style="left: 24px; bottom: 24px; width: 550px" src="{trend}">
<div><h1>{question}</h1><img src="{answers}"></div>
"""


def main() -> int:
    """Draw all pictures; return 1 if the demo has not been run."""
    if not (REPORTS / "index.html").exists():
        print("No report of the demo. Run: DEMO_SERVE=0 make demo")
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_browser()))
        question, pictures = _parts(browser)
        parts = {name: f"data:image/png;base64,{base64.b64encode(png).decode()}" for name, png in pictures.items()}
        composed = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        composed.set_content(COMPOSITION.format(width=WIDTH, height=HEIGHT, question=escape(question), **parts))
        composed.screenshot(path=str(PICTURES / "regression.png"))
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
        page.goto((REPORTS / "index.html").as_uri())
        page.screenshot(path=str(PICTURES / "report-overview.png"))
        page.goto(_worst_question(page))
        page.locator(".sheet img").first.wait_for()
        page.screenshot(path=str(PICTURES / "report-question.png"))
        browser.close()
    return 0


def _parts(browser: Browser) -> tuple[str, dict[str, bytes]]:
    """Return the worst question, and screenshots of the verdict, its trend, the question's answers and its page."""
    page = browser.new_page(viewport={"width": 820, "height": 1000}, device_scale_factor=SCALE)
    page.goto((REPORTS / "index.html").as_uri())
    question = _worst_question(page)
    card = page.locator(".incident").first
    card.locator("details").evaluate("details => details.open = false")
    verdict = card.screenshot()
    page.goto(next((REPORTS / "benchmarks").glob("*.html")).as_uri())
    figure = page.locator("figure.card", has_text="Exact match").first
    figure.locator("> *:nth-child(n + 3)").evaluate_all("parts => parts.forEach(part => part.remove())")
    figure.evaluate("figure => figure.style.alignSelf = 'start'")
    trend = figure.screenshot()  # its title and its lines, without the evidence below
    page.set_viewport_size({"width": 1000, "height": 1000})
    page.goto(question)
    answers = page.locator(".answers").screenshot()
    sheet = page.locator(".sheet").first.screenshot()
    title = page.locator("h1").inner_text()
    return title, {"verdict": verdict, "trend": trend, "answers": answers, "page": sheet}


def _worst_question(overview: Page) -> str:
    """Return the address of the first of the worst questions that the overview links."""
    return str(overview.locator(".worst a").first.evaluate("link => link.href"))


if __name__ == "__main__":
    sys.exit(main())
