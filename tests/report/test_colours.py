"""Light, dark, or as the system has it: chosen with mouse or keyboard, remembered, and never the other for a moment."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
LIGHT, DARK = "rgb(245, 246, 248)", "rgb(15, 19, 25)"
AT_BODY = """new MutationObserver((_, observer) => {
  if (!document.body) return;
  window.atBody = document.documentElement.dataset.colours;
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });"""


def ground(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def choice(page, name):
    return page.get_by_role("radio", name=name)


@pytest.mark.parametrize(("scheme", "colour"), [("light", LIGHT), ("dark", DARK)])
def test_at_first_it_is_as_the_system_has_it(scheme, colour, evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme=scheme)

    expect(choice(page, "System")).to_be_checked()
    assert ground(page) == colour
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    assert ground(page) == (DARK if scheme == "light" else LIGHT)


def test_a_choice_holds_against_the_system_on_every_page_and_after_loading_again(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="light")

    choice(page, "Dark").check(force=True)

    assert ground(page) == DARK
    page.reload()
    assert ground(page) == DARK
    page.goto((evaluated.reports / "glossary.html").as_uri())
    expect(choice(page, "Dark")).to_be_checked()
    assert ground(page) == DARK
    choice(page, "System").check(force=True)
    assert ground(page) == LIGHT
    page.reload()
    expect(choice(page, "System")).to_be_checked()
    assert ground(page) == LIGHT


def test_the_choice_is_known_before_anything_is_drawn(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="light")
    choice(page, "Dark").check(force=True)
    page.add_init_script(AT_BODY)

    page.reload()

    assert page.evaluate("window.atBody") == "dark"


def test_it_is_chosen_by_keyboard(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="dark")
    choice(page, "System").focus()

    page.keyboard.press("ArrowRight")

    expect(choice(page, "Light")).to_be_focused()
    expect(choice(page, "Light")).to_be_checked()
    assert ground(page) == LIGHT
    page.keyboard.press("ArrowRight")
    assert ground(page) == DARK
    expect(page.get_by_role("group", name="Colours")).to_be_visible()


def test_a_dark_choice_prints_light(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="dark")
    choice(page, "Dark").check(force=True)

    page.emulate_media(media="print")

    assert ground(page) == "rgb(255, 255, 255)"
    expect(page.get_by_role("group", name="Colours")).to_be_hidden()


def test_what_is_kept_and_is_no_choice_is_the_systems(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="light")
    page.evaluate("localStorage.setItem('rag-eval-colours', '<b>')")

    page.reload()

    expect(choice(page, "System")).to_be_checked()
    assert ground(page) == LIGHT


def test_a_browser_that_keeps_nothing_has_its_choice_for_the_page(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="light")
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } });")
    page.reload()

    choice(page, "Dark").check(force=True)

    assert ground(page) == DARK
