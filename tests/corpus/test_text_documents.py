"""Plain text and Markdown to PDFs: what is written is what is printed, and equal texts give equal bytes."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from corpus.conftest import descendants
from corpus.making import png
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.rendering import text_pages
from rag_eval_pipeline.corpus.rendering.browser import browser_pool
from rag_eval_pipeline.corpus.rendering.render import render
from rag_eval_pipeline.corpus.rendering.text_pages import LINES_MAX, check_length, markdown_page
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from tests.patience import PATIENCE_S

TEXTS = {
    "plain": "A paragraph about a railway bridge.",
    "markup": "</pre><script>document.title='x'</script><b>&amp; <!-- stays -->",
    "quotes": "back\\slash 'single' \"double\" `tick` ${x} \u2028 line",
    "first newline": "\n\nthird line",
    "old ends of lines": "one\r\ntwo\rthree",
    "control characters": "nul\0gone, bell\x07, escape\x1b",
    "scripts": "Übergang 深圳 مرحبا नमस्ते 🚀 עברית",
    "right to left": "مرحبا بالعالم",
    "a long word": "x" * 400,
    "many sheets": "\n".join(f"line {n}" for n in range(400)),
    "a text after it": "short again",
    **{f"text {n}": f"Document {n}. " + "The bridge was built in 1904. " * n for n in range(4)},
}


def text_document(name: str, text: str) -> PlannedDocument:
    return PlannedDocument(name, (FileName(f"{name}.pdf"),), "text", None, None, text)


def markdown_document(name: str, text: str) -> PlannedDocument:
    return PlannedDocument(name, (FileName(f"{name}.pdf"),), "markdown", None, None, text)


def text_body(text: str) -> Body:
    return Body("text", text.encode(), "http://document.invalid/x", "utf-8")


async def render_all(texts: Sequence[str], *, at_once: int) -> list[bytes]:
    """PDFs in the order of the texts, however they were made."""
    printed: dict[int, bytes] = {}
    waiting = iter(enumerate(texts))
    async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:

        async def work() -> None:
            for place, text in waiting:
                printed[place] = (await render(pool, text_body(text), load_limit_s=PATIENCE_S)).pdf

        await asyncio.gather(*(work() for _ in range(at_once)))
    return [printed[place] for place in range(len(texts))]


class Built(NamedTuple):
    """Rows by key, the folder of their PDFs, and what was reported while they were made."""

    rows: dict[str, CorpusDocument]
    folder: Path
    reported: list[int]

    def text(self, name: str) -> str:
        return "\f".join(read_texts(self.folder / f"{name}.pdf"))


@pytest.fixture(scope="module")
def built(notes, own_temp, tmp_path_factory) -> Built:
    """Texts, a Markdown file with a picture beside it, and Markdown without a file."""
    file = PlannedDocument("notes.md", (FileName("notes.md.pdf"),), "file", None, notes / "notes.md")
    texts = [text_document(name, text) for name, text in {**TEXTS, "blank": " "}.items()]
    folder, reported = tmp_path_factory.mktemp("corpus") / "c", []

    def report(done: int, total: int) -> None:
        reported.append(done)

    rows = build_corpus([*texts, file, markdown_document("row", MARKDOWN)], folder, [], EgressPolicy(), progress=report)
    return Built({row.key: row for row in rows}, folder, reported)


@pytest.mark.browser
async def test_text_pdf_does_not_depend_on_order_or_concurrency(built, own_temp):
    shuffled = random.Random(7).sample([*TEXTS], len(TEXTS))

    mixed = dict(zip(shuffled, await render_all([TEXTS[name] for name in shuffled], at_once=1), strict=True))

    assert [name for name in TEXTS if (built.folder / f"{name}.pdf").read_bytes() != mixed[name]] == []


@pytest.mark.browser
def test_text_is_printed_as_it_is_written(built):
    rows, found = built.rows, {name: built.text(name) for name in TEXTS}

    assert sorted(built.reported) == list(range(len(rows) + 1))  # 0, and one call a document
    assert rows["blank"].error_code == "empty_body"
    assert {rows[name].origin for name in TEXTS} == {"rendered"}
    # One line with hyphens: were each letter placed by itself, pdfium would read it from top to bottom.
    assert found["markup"] == TEXTS["markup"]
    assert found["first newline"].strip() == "third line"
    assert found["old ends of lines"].split() == ["one", "two", "three"]
    assert found["a long word"].replace("\n", "") == "x" * 400
    assert found["many sheets"].split() == TEXTS["many sheets"].split()
    assert found["a text after it"] == "short again"
    assert all(part in found["quotes"] for part in ("back\\slash", "'single'", '"double"', "`tick`", "${x}"))
    assert all(word in found["scripts"] for word in ("Übergang", "深圳", "नमस्ते", "🚀"))
    assert rows["many sheets"].pages > 1
    assert rows["a text after it"].pages == 1


def test_text_that_is_too_long_is_refused():
    check_length("\r\n" * (LINES_MAX - 6_000))
    check_length("word " * 400_000)

    for endless in ("\n" * (LINES_MAX + 1), "\r" * (LINES_MAX + 1), "深" * 50 * (LINES_MAX + 1)):
        with pytest.raises(DocumentError) as refused:
            check_length(endless)
        assert refused.value.code == "page_too_long"


@pytest.mark.browser
async def test_text_page_that_dies_is_printed_again_and_an_idle_dead_one_is_not_used(own_temp, monkeypatch):
    monkeypatch.setattr(text_pages, "_CRASH_NOTICE_LIMIT_S", PATIENCE_S)
    long = "\n".join(f"line {n}" for n in range(10_000))
    async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:
        process = await pool.process()
        async with process.text_page() as page:
            await page.print("warm")
        kill_renderers()
        while page.is_usable:
            await asyncio.sleep(0.02)
        first = await render(pool, text_body("x"), load_limit_s=PATIENCE_S)
        printing = asyncio.create_task(render(pool, text_body(long), load_limit_s=PATIENCE_S))
        before = renderer_seconds()
        while renderer_seconds() < before + 0.1:  # printing takes seconds, and this a few hundredths
            await asyncio.sleep(0.02)
        kill_renderers()
        second = await printing
        started = pool.started

    assert [rendered.pdf[:5] for rendered in (first, second)] == [b"%PDF-"] * 2
    assert started == 1  # the browser itself went on


def renderer_seconds() -> float:
    total = 0.0
    for renderer in descendants("--type=renderer"):
        with contextlib.suppress(psutil.Error):
            total += renderer.cpu_times().user
    return total


def kill_renderers() -> None:
    for renderer in descendants("--type=renderer"):
        with contextlib.suppress(psutil.Error):
            renderer.kill()


MARKDOWN = """\
# A heading

Some *emphasis*, `code` and a [link](https://example.org/x).

| Line | Length |
|------|-------:|
| Skarn | 42 km |

- one
- two

~~gone~~ <b>bold</b><br>after the break

<script>document.body.textContent = "REPLACED"</script>

![red](img/red.png)

    indented <i>block</i>
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "img").mkdir()
    (folder / "img" / "red.png").write_bytes(png(200, 0, 0))
    (folder / "notes.md").write_text(MARKDOWN)
    return folder


@pytest.mark.browser
def test_markdown_is_printed_as_its_reader_sees_it(built):
    rows, lines = built.rows, {name: built.text(name).split("\n") for name in ("notes.md", "row")}

    for found in lines.values():
        text = " ".join(found)
        assert found[0] == "A heading"
        assert "Some emphasis, code and a link." in found
        assert {"Skarn 42 km", "after the break", "indented <i>block</i>"} <= {line.strip() for line in found}
        assert not any(sign in text for sign in ("#", "|", "*", "`", "](", "~~", "<b>", "REPLACED"))
    assert (rows["notes.md"].images_expected, rows["notes.md"].images_drawn) == (1, 1)
    assert rows["notes.md"].flags == rows["row"].flags  # scripts are off for all, and that is no event
    assert "js_off" not in rows["row"].flags
    assert [resource.partition(" ")[2] for resource in rows["notes.md"].resources] == ["img/red.png"]


def test_markdown_page_keeps_address_folder_and_flags():
    body = Body("markdown", "é".encode("windows-1252"), "https://h/a", "windows-1252", Path("/x"), None, ("repaired",))

    page = markdown_page(body)

    assert (page.kind, page.charset) == ("html", "utf-8")
    assert (page.url, page.folder, page.final_url, page.flags) == (body.url, body.folder, None, body.flags)
    assert "<p>é</p>" in page.data.decode()


def test_markdown_page_keeps_deep_lists():
    deep = "\n".join("  " * depth + f"- level {depth}" for depth in range(40))

    page = markdown_page(Body("markdown", deep.encode(), "https://h/a", "utf-8")).data.decode()

    assert all(f"<li>level {depth}" in page for depth in range(40))
