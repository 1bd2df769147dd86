"""The text of a printed page, in thirty scripts, is the text that the page has: no letter twice, no blank inside a word."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rag_eval_pipeline.corpus.rendering.browser import browser_pool
from rag_eval_pipeline.corpus.rendering.render import render
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy

pytestmark = pytest.mark.browser

# Lines that fit on a sheet; most are the first article of the Universal Declaration of Human Rights.
SCRIPTS = {
    entry["script"]: (entry["lang"], entry["lines"])
    for entry in json.loads(Path(__file__).with_name("scripts.json").read_text("utf-8"))
}
STYLES = ("", "font-family:serif", "font-weight:bold;font-size:23px", "text-align:justify;font-size:14px")


def page_of(lang: str, lines: list[str]) -> str:
    """Each line on its own and all of them as one block, in each style."""
    blocks = (
        f'<p dir="auto" style="{style};white-space:nowrap">{"<br>".join(lines)}</p>'
        f'<p dir="auto" style="{style}">{" ".join(lines)}</p>'
        for style in STYLES
    )
    return f'<!doctype html><meta charset="utf-8"><html lang="{lang}" dir="auto"><title>x</title>{"".join(blocks)}'


MIXED = """<!doctype html><meta charset="utf-8"><html lang="en"><title>x</title>
<p style="text-align:justify">The Hindi word <i>राष्ट्र</i> (<b>rāṣṭra</b>) means “nation”<sup>[1]</sup>, cf. <a href="x">d͡ʒ</a> and <i>e&#x301;t&#x304;</i>.</p>
<table border="1"><tr><td>नाम</td><td>Name</td><td>मूल्य 1,234.50</td></tr>
<tr><td>राष्ट्र</td><td>Nation<sup>2</sup></td><td>H<sub>2</sub>O</td></tr></table>"""
MIXED_TEXT = """The Hindi word राष्ट्र (rāṣṭra) means “nation”[1], cf. d͡ʒ and e\u0301t\u0304.
नाम Name मूल्य 1,234.50
राष्ट्र Nation2 H2O"""


@pytest.fixture(scope="module")
def printed(own_temp) -> dict[str, list[str]]:
    """The text of each page, by script."""

    async def all_of_them() -> dict[str, bytes]:
        async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:
            bodies = {
                name: Body("html", page_of(*script).encode(), "http://document.invalid/")
                for name, script in SCRIPTS.items()
            }
            bodies["mixed"] = Body("html", MIXED.encode(), "http://document.invalid/")
            pdfs = [await render(pool, body, load_limit_s=30) for body in bodies.values()]
            return {name: printed.pdf for name, printed in zip(bodies, pdfs, strict=True)}

    return {name: read_texts(pdf) for name, pdf in asyncio.run(all_of_them()).items()}


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", SCRIPTS)
def test_read_texts_returns_the_text_of_a_script(name, printed):
    _, lines = SCRIPTS[name]
    letters = {char for line in lines for char in line if char.isalpha()}
    charset = " ".join(f"{ord(char):x}" for char in letters)
    if shutil.which("fc-list") and not subprocess.check_output(["fc-list", f":charset={charset}"]):
        pytest.skip(f"no installed font has the letters of {name}")

    text = "\n".join(printed[name])

    found = text.split("\n")
    assert [line for line in lines if found.count(line) < len(STYLES)] == []
    assert squeezed(text) == squeezed("".join([*lines, *lines] * len(STYLES)))


def test_read_texts_keeps_the_brackets_of_a_thai_enumeration(printed):
    """Both close: only a line that is read from the right has its brackets turned."""
    assert "ก) น้ำ ข) ดิน" in "\n".join(printed["Thai"]).split("\n")


def test_read_texts_separates_scripts_and_cells(printed):
    assert printed["mixed"] == [MIXED_TEXT]
