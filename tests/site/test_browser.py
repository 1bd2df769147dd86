"""The site in a real browser, opened from files: it works, for everybody, and with thousands of questions."""

import json
import re

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.site.outcomes import OUTCOMES
from rag_eval_pipeline.site.site import write_site
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.site.conftest import RAILWAY, rows, run_folder

pytestmark = pytest.mark.browser
WRITTEN = 400


@pytest.fixture(scope="session", params=[2_000, pytest.param(10_000, marks=pytest.mark.long)])
def count(request):
    return request.param


@pytest.fixture(scope="session")
def many(count, tmp_path_factory):
    """A run of so many questions, which are those of a smaller one again and again, and the run of the night before."""
    workspace = Workspace(tmp_path_factory.mktemp("many"))
    register(workspace, ["wide"], ["asked"])
    for night in range(2):
        name = publish_night(
            workspace, "wide", "asked", night, questions=WRITTEN, skill=0.6, number=1, with_responses=False
        )
        path = workspace.results / f"{name}.results.json"
        results = json.loads(path.read_text())
        rows = results["query_results"]
        results["query_results"] = [{**rows[n % WRITTEN], "query_id": str(n)} for n in range(count)]
        path.write_text(json.dumps(results))
    write_site(workspace, write_comparisons(workspace))
    return workspace.reports / "runs/eval_run_20261002_001/index.html"


@pytest.fixture
def pages(site):
    """A page of each kind."""
    run = run_folder(site)
    names = [
        "index.html", f"benchmarks/{RAILWAY}.html", f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html",
        f"comparisons/{RAILWAY}.systems.html",
    ]  # fmt: skip
    return [*(site.reports / name for name in names), run / "index.html", run / "question.html"]


def column(page, place):
    return [text.strip() for text in page.locator(f".rows tbody tr:not(.gap) td:nth-child({place})").all_inner_texts()]


def test_thousands_of_questions_are_a_table_of_which_only_a_window_is_in_the_page(many, count, open_page):
    page = open_page(many)

    expect(page.get_by_role("status")).to_have_text(f"{count:,} questions")
    assert 10 <= rows(page).count() < 100
    assert page.locator(".rows table").get_attribute("aria-rowcount") == str(count + 1)
    rows(page).first.get_by_role("link").focus()
    page.locator(".rows").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(page.get_by_role("cell", name=str(count - 1), exact=True)).to_be_visible()
    assert rows(page).count() < 100
    # The row with the focus stays, and the table is no higher for it.
    assert page.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')") == "2"
    assert abs(page.locator(".rows tbody").evaluate("element => element.offsetHeight") - count * 66) < 66


def test_thousands_of_questions_are_searched_filtered_and_sorted(many, count, open_page):
    page = open_page(many)
    status = page.get_by_role("status")

    page.get_by_role("searchbox").fill("stood 1887")
    expect(status).to_have_text(f"{count // 200} of {count:,} questions")  # years 1800 to 1999
    page.get_by_role("searchbox").fill("no such words")
    expect(status).to_have_text(f"Nothing matches: 0 of {count:,} questions")
    page.get_by_role("button", name="Clear filters").click()
    expect(rows(page).first).to_be_visible()

    wrong = page.get_by_role("button", name=re.compile("[0-9,]+ wrong$"))
    label = wrong.inner_text()
    wrong.click()
    expect(status).to_have_text(f"{label.split()[0]} of {count:,} questions")
    assert set(column(page, 2)) == {"wrong"}
    wrong.click()
    page.get_by_label("Since the night before").select_option("worse")
    assert {text[0] for text in column(page, 6)} == {"−"}
    page.get_by_label("Since the night before").select_option("")

    heading = page.get_by_role("columnheader", name="F1", exact=True)
    for order, value in (("descending", "1.00"), ("ascending", "0.00")):
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", order)
        assert set(column(page, 5)) == {value}


def test_question_of_the_last_file_opens_by_its_address(many, count, open_page):
    page = open_page(many.with_name("question.html"), fragment=str(count - 1))

    expect(page.get_by_text(f"Question {count - 1}")).to_be_visible()
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_text(f"Question {count - 2}")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_page_of_a_question_shows_what_there_is(site, open_page):
    page = open_page(run_folder(site) / "index.html")

    page.get_by_role("button", name="F1").first.click()
    rows(page).first.get_by_role("link").click()

    for heading in (
        "Gold answer", "Baseline answer", "Present answer", "Claims and their support", "Citations", "Retrieved",
        "All systems, newest night", "Answers over nights", "Over nights", "Scores",
    ):  # fmt: skip
        expect(page.get_by_role("heading", name=heading, exact=True, level=2)).to_be_visible()
    assert page.locator(".chip.doubted").count() > 0  # nobody has calibrated the judge
    assert page.locator(".chip.supported").count() == 0


def test_page_of_the_corpus_is_drawn_with_gold_and_cited_text_marked(site, open_page):
    page = open_page(run_folder(site) / "question.html", fragment="0")
    for place in range(40):
        page.goto(f"{page.url.partition('#')[0]}#{place}")
        expect(page.locator(".lead")).to_contain_text(f"Question svr-{place + 1:03d} ")
        if page.locator(".sheet .gold").count() and page.locator(".sheet .cited").count():
            break

    image = page.locator(".sheet").first.locator("img")
    image.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.sheet img').naturalWidth > 0")
    assert "gold text filled" in image.get_attribute("alt")


def test_everything_is_reached_by_keyboard(many, count, open_page):
    page = open_page(many)
    expect(page.get_by_role("status")).to_have_text(f"{count:,} questions")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    seen = []
    for _ in range(22):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("[document.activeElement.tagName, document.activeElement.textContent.trim()].join(' ')")
        )
    assert any(one.startswith("INPUT") for one in seen)
    assert any(one.startswith("SELECT") for one in seen)
    assert "BUTTON F1" in seen

    page.get_by_role("columnheader", name="F1", exact=True).get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="F1", exact=True)).to_have_attribute("aria-sort", "descending")
    rows(page).first.get_by_role("link").focus()
    for _ in range(60):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')") == "62"
    expect(page.locator(":focus")).to_be_in_viewport()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_no_page_scrolls_sideways_and_colours_are_those_of_the_system(width, scheme, pages, open_page):
    for path in pages:
        page = open_page(path, width=width, scheme=scheme)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        if width == 390:
            cut = "regions => regions.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)"
            assert page.locator(".wide").evaluate_all(cut) == [], path
            low = "rows => rows.filter(row => row.scrollHeight > row.clientHeight + 1).map(row => row.innerText)"
            assert page.locator(".rows tbody tr:not(.gap)").evaluate_all(low) == [], path
        else:
            longest = f"chips => {{ for (const one of chips) one.textContent = {max(OUTCOMES.values(), key=len)!r}; }}"
            page.locator(".rows .chip").evaluate_all(longest)
            cut = "cells => cells.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
            assert page.locator(".rows td.w-outcome").evaluate_all(cut) == [], path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")


def test_matrix_shows_the_chosen_metric_and_the_leaderboard_is_sorted_by_its_headings(site, open_page):
    page = open_page(site.reports / "index.html")

    page.get_by_label("Metric").select_option("f1")

    expect(page.get_by_role("region", name="F1 by benchmark and system")).to_be_visible()
    expect(page.get_by_role("region", name="Exact match by benchmark and system")).to_be_hidden()
    board = page.get_by_role("region", name="Leaderboard")
    board.get_by_role("button", name="F1", exact=True).click()
    f1 = board.locator("tbody tr td:nth-child(4)")
    values = [float(value) for value in f1.evaluate_all("cells => cells.map((cell) => cell.dataset.value)")]
    assert values == sorted(values)


def test_print_has_no_controls_and_is_light(site, open_page):
    page = open_page(run_folder(site) / "index.html", scheme="dark")
    expect(page.get_by_role("status")).to_have_text("40 questions")

    page.emulate_media(media="print")

    expect(page.locator(".controls").first).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


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


FOCUS = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  return { name: one.tagName, outline: style.outlineStyle, width: parseFloat(style.outlineWidth), height: one.getBoundingClientRect().height };
}"""


def test_every_page_has_landmarks_a_title_names_and_a_visible_focus(pages, open_page):
    for path in pages:
        page = open_page(path)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        page.get_by_role("heading", level=2).first.wait_for()
        assert page.title()
        assert page.locator("html").get_attribute("lang") == "en"
        for role in ("banner", "main", "navigation", "contentinfo"):
            assert page.get_by_role(role).count() >= 1, (path, role)
        assert page.evaluate(UNNAMED) == [], path
        for _ in range(10):
            page.keyboard.press("Tab")
            found = page.evaluate(FOCUS)
            if found["name"] == "BODY":
                break  # the last link was before
            assert (found["outline"] != "none", found["width"] >= 2, found["height"] > 0) == (True,) * 3, (path, found)


def test_link_to_the_content_leads_there(pages, open_page):
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
def test_text_has_the_contrast_of_wcag_aa(scheme, site, open_page):
    page = open_page(site.reports / "index.html", scheme=scheme)

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
