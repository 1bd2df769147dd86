"""The site in a real browser, opened from files: it works, and ten thousand questions are a table like any other."""

import re

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.report.site import write_site
from rag_eval_pipeline.reporting.history import read_history
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

pytestmark = pytest.mark.browser
RAILWAY = "skarn-railway"
MANY = 10_000


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A run of 10,000 questions and the run of the night before."""
    workspace = Workspace(tmp_path_factory.mktemp("many"))
    register(workspace, ["wide"], ["asked"])
    for night in range(2):
        publish_night(
            workspace, "wide", "asked", night, questions=MANY, skill=0.6, number=1, with_responses=False
        )  # fmt: skip
    write_site(workspace)
    return workspace.reports / "runs/eval_run_20261002_001/index.html"


def newest(workspace, system="embedded"):
    return workspace.reports / "runs" / read_history(workspace).by_pair[RAILWAY, system][-1].evaluation_id


def rows(page):
    return page.locator(".rows tbody tr:not(.gap)")


def column(page, place):
    return [text.strip() for text in page.locator(f".rows tbody tr:not(.gap) td:nth-child({place})").all_inner_texts()]


def test_ten_thousand_questions_are_a_table_of_which_only_a_window_is_in_the_page(many, open_page):
    page = open_page(many)

    expect(page.get_by_role("status")).to_have_text("10,000 questions")
    assert 10 <= rows(page).count() < 100
    assert page.locator(".rows table").get_attribute("aria-rowcount") == str(MANY + 1)
    page.locator(".rows").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(page.get_by_role("cell", name="9999", exact=True)).to_be_visible()
    assert rows(page).count() < 100


def test_ten_thousand_questions_are_searched_filtered_and_sorted(many, open_page):
    page = open_page(many)
    status = page.get_by_role("status")

    page.get_by_role("searchbox").fill("stood 1887")
    expect(status).to_have_text("50 of 10,000 questions")  # years 1800 to 1999: each 50 times
    page.get_by_role("searchbox").fill("no such words")
    expect(status).to_have_text("0 of 10,000 questions")
    page.get_by_role("searchbox").fill("")

    outcome = page.get_by_label("Outcome")
    label = outcome.locator("option", has_text="wrong (").inner_text()
    outcome.select_option(label=label)
    expect(status).to_have_text(f"{re.search('[0-9,]+', label)[0]} of 10,000 questions")
    assert set(column(page, 2)) == {"wrong"}
    outcome.select_option("")

    heading = page.get_by_role("columnheader", name="F1", exact=True)
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert set(column(page, 5)) == {"1.00"}
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert set(column(page, 5)) == {"0.00"}


def test_questions_that_got_worse_since_the_night_before_are_one_choice(many, open_page):
    page = open_page(many)

    page.get_by_label("Since the night before").select_option("worse")

    assert {text[0] for text in column(page, 8)} == {"−"}


def test_a_question_of_the_last_file_opens_by_its_address(many, open_page):
    page = open_page(many.with_name("question.html"), fragment="9999")

    expect(page.get_by_text("Question 9999")).to_be_visible()
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_text("Question 9998")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_the_page_of_a_question_shows_what_there_is(evaluated, open_page):
    page = open_page(newest(evaluated) / "index.html")

    page.get_by_role("button", name="F1").first.click()
    rows(page).first.get_by_role("link").click()

    for heading in (
        "Gold answer",
        "Answer",
        "Claims and their support",
        "Citations",
        "Retrieved",
        "Over nights",
        "Scores",
    ):
        expect(page.get_by_role("heading", name=heading, exact=True, level=2)).to_be_visible()
    assert page.locator(".chip.doubted").count() > 0  # nobody has calibrated the judge
    assert page.locator(".chip.supported").count() == 0


def test_a_page_of_the_corpus_is_drawn_with_gold_and_cited_text_marked(evaluated, open_page):
    page = open_page(newest(evaluated) / "question.html", fragment="0")
    sheet = page.locator(".sheet").first
    for place in range(40):
        page.goto(f"{page.url.partition('#')[0]}#{place}")
        expect(page.get_by_text(f"Question {place} ")).to_be_visible()
        if page.locator(".sheet .gold").count() and page.locator(".sheet .cited").count():
            break

    image = sheet.locator("img")
    image.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.sheet img').naturalWidth > 0")
    assert "gold text filled" in image.get_attribute("alt")


def test_everything_is_reached_by_keyboard(many, open_page):
    page = open_page(many)
    expect(page.get_by_role("status")).to_have_text("10,000 questions")

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
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"

    page.get_by_role("columnheader", name="F1", exact=True).get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="F1", exact=True)).to_have_attribute("aria-sort", "descending")
    rows(page).first.get_by_role("link").focus()
    for _ in range(60):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')") == "62"
    focused = page.locator(":focus")
    expect(focused).to_be_in_viewport()


def test_a_row_with_the_focus_stays_when_it_is_scrolled_out_of_sight(many, open_page):
    page = open_page(many)
    rows(page).first.get_by_role("link").focus()

    page.locator(".rows").evaluate("element => element.scrollTop = element.scrollHeight")

    expect(page.get_by_role("cell", name="9999", exact=True)).to_be_visible()
    assert page.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')") == "2"
    height = page.locator(".rows tbody").evaluate("element => element.offsetHeight")
    assert abs(height - MANY * 42) < 42  # the row that stays is no row more


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_scrolls_sideways(width, scheme, evaluated, open_page):
    run = newest(evaluated).relative_to(evaluated.reports)
    names = ["index.html", f"benchmarks/{RAILWAY}.html", f"{run}/index.html", f"{run}/question.html"]
    names += [f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html", "glossary.html"]
    for name in names:
        page = open_page(evaluated.reports / name, width=width, scheme=scheme)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")


def test_a_figure_of_the_matrix_is_chosen(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html")

    page.get_by_label("Figure").select_option("exact_match")

    expect(page.get_by_role("region", name="Exact match by benchmark and system")).to_be_visible()
    expect(page.get_by_role("region", name="F1 by benchmark and system")).to_be_hidden()


def test_the_leaderboard_is_sorted_by_its_headings(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html")
    board = page.get_by_role("region", name="Leaderboard")

    board.get_by_role("button", name="F1", exact=True).click()

    values = [float(text) for text in board.locator("tbody tr td:nth-child(11)").all_inner_texts()]
    assert values == sorted(values)


def test_the_print_has_no_controls_and_is_light(evaluated, open_page):
    page = open_page(newest(evaluated) / "index.html", scheme="dark")
    expect(page.get_by_role("status")).to_have_text("40 questions")

    page.emulate_media(media="print")

    expect(page.locator(".controls").first).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
