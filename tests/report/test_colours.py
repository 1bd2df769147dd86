"""Light, dark, or as the system has it: chosen with mouse or keyboard, and remembered."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
LIGHT, DARK = "rgb(245, 246, 248)", "rgb(15, 19, 25)"


def ground(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def choice(page, name):
    return page.get_by_role("radio", name=name)


@pytest.mark.parametrize(("scheme", "colour"), [("light", LIGHT), ("dark", DARK)])
def test_colours_are_those_of_the_system_at_first(scheme, colour, evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme=scheme)

    expect(choice(page, "System")).to_be_checked()
    assert ground(page) == colour
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    assert ground(page) == (DARK if scheme == "light" else LIGHT)


def test_colours_chosen_hold_on_every_page_and_after_a_reload(evaluated, open_page):
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


def test_colours_are_chosen_by_keyboard(evaluated, open_page):
    page = open_page(evaluated.reports / "index.html", scheme="dark")
    choice(page, "System").focus()

    page.keyboard.press("ArrowRight")

    expect(choice(page, "Light")).to_be_focused()
    expect(choice(page, "Light")).to_be_checked()
    assert ground(page) == LIGHT
    page.keyboard.press("ArrowRight")
    assert ground(page) == DARK
    expect(page.get_by_role("group", name="Colours")).to_be_visible()
