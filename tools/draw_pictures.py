"""Draw docs/pictures from the report of `make demo`, in a real browser.

    DEMO_SERVE=0 make demo && python tools/draw_pictures.py

`regression.png` (1280 x 640) shows the verdict, its trend, and the worst question with the marked page; `report-*.png`
are whole pages; `alert-*.png` are what Slack, Teams and mail programs make of the demo's alert, in plain colours of our
own.
"""

import base64
import email.policy
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from rag_eval_pipeline.corpus.rendering.browser import find_browser
from rag_eval_pipeline.monitoring.alert_files import AlertSettings, read_alerts
from rag_eval_pipeline.monitoring.alert_messages import mail_of, message_of, slack_message, teams_message
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
WORKSPACE = Workspace(REPOSITORY / ".demo")
REPORTS = WORKSPACE.reports
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
<img style="left: 24px; bottom: 24px; width: 525px" src="{trend}">
<div><h1>{question}</h1><img src="{answers}"></div>
"""
ALERTS = AlertSettings(
    report_url="https://reports.example.com/rag", mail_from="rag-eval@example.com", mail_to="team@example.com",
    questions_shown=2,
)  # fmt: skip
POST = """<!doctype html><meta charset="utf-8"><style>
* {{ box-sizing: border-box }}
body {{ margin: 0; padding: 20px; background: #fff; color: #1d1c1d; font: 15px/1.46 "Noto Sans", sans-serif }}
main {{ display: grid; grid-template-columns: 36px 1fr; gap: 0 12px }}
main p, h1 {{ margin: 0 0 8px }} h1 {{ font-size: 18px; line-height: 1.35 }}
i {{ width: 36px; height: 36px; border-radius: 8px; background: #1c5fae; color: #fff; font: 600 14px/36px "Noto Sans";
  text-align: center }}
header {{ margin-bottom: 4px }} small {{ color: #616061; font-size: 12px }} .pre {{ white-space: pre-wrap }}
.card {{ border: 1px solid #d8dbe0; border-radius: 8px; padding: 14px 16px; box-shadow: 0 1px 3px #0002 }}
button {{ font: 600 14px/1.4 "Noto Sans"; background: #fff; color: inherit; border: 1px solid #b9bcc2;
  border-radius: 6px; padding: 5px 12px }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0 0 12px; padding-bottom: 12px;
  border-bottom: 1px solid #d8dbe0; color: #616061 }}
dd {{ margin: 0; color: #1d1c1d }}
</style>{body}"""


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
        for name, html in _alerts().items():
            post = browser.new_page(viewport={"width": 760, "height": 200}, device_scale_factor=1.5)
            post.set_content(POST.format(body=html))
            post.screenshot(path=str(PICTURES / f"alert-{name}.png"), full_page=True)
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


def _alerts() -> dict[str, str]:
    """Return the demo's alert as each receiver shows what it is sent."""
    alert = next(one for one in read_alerts(WORKSPACE).alerts if one.kind == "regressed")
    message = message_of(alert, ALERTS, REPORTS)
    [card] = teams_message(message)["attachments"]
    mail = email.message_from_bytes(mail_of(message, alert, ALERTS), policy=email.policy.default)
    head = "".join(f"<dt>{name}</dt><dd>{escape(str(mail[name]))}</dd>" for name in ("From", "To", "Date"))
    body = mail.get_body(("html", "plain"))
    assert body is not None, "a mail has a body"
    poster = f"<main><i>RE</i><div><header><b>rag-eval</b> <small>{alert.created_at:%H:%M}</small></header>"
    return {
        "slack": f"{poster}{''.join(map(_slack_block, slack_message(message)['blocks']))}</div></main>",
        "teams": f"{poster}<div class=card>{_teams_card(card['content'])}</div></div></main>",
        "mail": f"<h1>{escape(str(mail['Subject']))}</h1><dl>{head}</dl>{body.get_content()}",
    }


def _slack_block(block: dict[str, Any]) -> str:
    if block["type"] == "actions":
        return "".join(f"<button>{escape(one['text']['text'])}</button>" for one in block["elements"])
    text = block["text"]["text"]
    if block["type"] == "header":
        return f"<h1>{escape(text)}</h1>"
    bold = re.sub(r"[*]([^*]+)[*]", r"<b>\1</b>", text)  # the text is escaped as HTML's is
    return f"<p class=pre>{bold}</p>"


def _teams_card(card: dict[str, Any]) -> str:
    runs = ("".join(map(_teams_run, block["inlines"])) for block in card["body"])
    return "".join(f"<p>{line}</p>" for line in runs) + "".join(
        f"<button>{one['title']}</button>" for one in card["actions"]
    )


def _teams_run(run: dict[str, Any]) -> str:
    tag, size = "b" if run["weight"] == "Bolder" else "span", 18 if run["size"] == "Large" else 14
    return f'<{tag} style="font-size: {size}px">{escape(run["text"])}</{tag}>'


def _worst_question(overview: Page) -> str:
    """Return the address of the first of the worst questions that the overview links."""
    return str(overview.locator(".worst a").first.evaluate("link => link.href"))


if __name__ == "__main__":
    sys.exit(main())
