"""Everybody can read the report: landmarks, headings, names, contrast, the keyboard, and no request for anything."""

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.reporting.history import read_history

pytestmark = pytest.mark.browser
RAILWAY = "skarn-railway"


@pytest.fixture
def pages(evaluated):
    """A page of each kind."""
    run = read_history(evaluated).by_pair[RAILWAY, "embedded"][-1].evaluation_id
    names = [
        "index.html", f"benchmarks/{RAILWAY}.html", f"runs/{run}/index.html", f"runs/{run}/question.html",
        f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html", "glossary.html",
    ]  # fmt: skip
    return [evaluated.reports / name for name in names]


UNNAMED = """() => {
  const found = [];
  const say = (what, one) => found.push(`${what}: ${one.outerHTML.slice(0, 80)}`);
  for (const one of document.querySelectorAll("table")) if (!one.caption?.textContent.trim()) say("table without caption", one);
  for (const one of document.querySelectorAll("th")) if (!one.scope) say("heading of a table without scope", one);
  for (const one of document.querySelectorAll("th")) if (!one.textContent.trim()) say("empty heading of a table", one);
  for (const one of document.querySelectorAll("svg[role=img]")) if (!one.getAttribute("aria-label")) say("chart without name", one);
  for (const one of document.querySelectorAll("input, select")) if (!one.labels.length) say("control without label", one);
  for (const one of document.querySelectorAll("img")) if (!one.alt) say("picture without text", one);
  for (const one of document.querySelectorAll("a, button")) if (!one.textContent.trim()) say("link without text", one);
  for (const one of document.querySelectorAll("[tabindex='0']")) if (!one.getAttribute("aria-label")) say("region without name", one);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) found.push(`id twice: ${id}`);
  const named = [...document.querySelectorAll("nav, section[aria-labelledby], [role=region]")].map((one) => {
    const by = one.getAttribute("aria-labelledby");
    return one.getAttribute("aria-label") ?? document.getElementById(by)?.textContent ?? `nothing with the id ${by}`;
  });
  for (const name of new Set(named.filter((name, place) => named.indexOf(name) !== place))) found.push(`landmark twice: ${name}`);
  let last = 0;
  for (const one of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const level = Number(one.tagName[1]);
    if (level > last + 1) say(`level ${level} after ${last}`, one);
    last = level;
  }
  return found;
}"""


def test_every_page_has_landmarks_a_title_and_everything_a_name(pages, open_page):
    for path in pages:
        page = open_page(path)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        page.get_by_role("heading", level=2).first.wait_for()
        assert page.title()
        assert page.locator("html").get_attribute("lang") == "en"
        for role in ("banner", "main", "navigation", "contentinfo"):
            assert page.get_by_role(role).count() >= 1, (path, role)
        assert page.evaluate(UNNAMED) == [], path


FOCUS = """() => {
  const one = document.activeElement;
  const shown = one.matches("input[type=radio]") ? one.nextElementSibling : one;
  const box = shown.getBoundingClientRect();
  const style = getComputedStyle(shown);
  return { name: `${one.tagName} ${one.textContent.trim().slice(0, 30)}`, outline: style.outlineStyle, width: parseFloat(style.outlineWidth), height: box.height };
}"""


def test_whatever_has_the_focus_shows_it(pages, open_page):
    for path in pages:
        page = open_page(path)
        page.get_by_role("heading", level=2).first.wait_for()
        for _ in range(14):
            page.keyboard.press("Tab")
            found = page.evaluate(FOCUS)
            if found["name"].startswith("BODY"):
                break  # the last link was before
            assert (found["outline"] != "none", found["width"] >= 2, found["height"] > 0) == (True,) * 3, (path, found)


def test_the_link_to_the_content_leads_there(pages, open_page):
    page = open_page(pages[0])

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.id") == "content"


def contrast(page, foreground, background):
    """Contrast of two custom properties of the style sheet by WCAG 2."""
    return page.evaluate(
        """([front, back]) => {
            const light = (name) => {
                const probe = document.createElement("span");
                probe.style.color = `var(${name})`;
                document.body.append(probe);
                const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
                probe.remove();
                const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
        }""",
        [foreground, background],
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(scheme, evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme=scheme)

    pairs = [
        (ink, ground)
        for ink in ("--ink", "--muted", "--accent", "--bad", "--good")
        for ground in ("--surface", "--ground")
    ]
    pairs += [("--good", "--good-soft"), ("--bad", "--bad-soft"), ("--warn", "--warn-soft"), ("--muted", "--raised")]
    low = {pair: found for pair in pairs if (found := contrast(page, *pair)) < 4.5}
    assert low == {}
    marks = {f"--s{n}": found for n in range(6) if (found := contrast(page, f"--s{n}", "--surface")) < 3}
    assert marks == {}
