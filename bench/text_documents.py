"""Texts to PDFs: each printed on its own, against Playwright's own calls and against fifty a print that are cut apart.

    python bench/text_documents.py [number of texts]

CPU milliseconds a text of the whole process tree, one run; compare the lines of one run with each other, not with
another machine's. `same` counts the texts whose bytes are those they have when printed alone.
"""

import asyncio
import contextlib
import hashlib
import html
import io
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import psutil
import pypdfium2

from rag_eval_pipeline.corpus import builder
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.corpus.rendering.browser import BrowserProcess, browser_pool
from rag_eval_pipeline.corpus.rendering.render import PRINT_OPTIONS
from rag_eval_pipeline.corpus.rendering.text_pages import TEXT_PAGE
from rag_eval_pipeline.corpus.text.pdf import fix_dates
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy

TEXTS = 2_000
AT_ONCE = 4
GROUP = 50
WORDS = [
    *("the", "of", "railway", "bridge", "Übergang", "naïve", "station", "1904", "tunnel"),
    *("class-C", "viaduct", "was", "built", "between", "(see", "note)"),
]
OLD_PAGE = TEXT_PAGE.replace("@media screen{body{display:none}}", "").replace("125px", "14px").replace("72px", "8px")

Print = Callable[[Sequence[str]], Awaitable[list[bytes]]]


def cpu_s() -> float:
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + (times.children_user + times.children_system)
    return total


def cut(printed: bytes, sections: int) -> list[bytes]:
    """One file a sheet; pdfium gives each an id of its own, but that is not what makes them differ."""
    whole = pypdfium2.PdfDocument(printed)
    if len(whole) != sections:
        raise SystemExit(f"{len(whole)} sheets of {sections} texts: a text takes more than one")
    files = []
    for number in range(sections):
        part = pypdfium2.PdfDocument.new()
        part.import_pages(whole, [number])
        buffer = io.BytesIO()
        part.save(buffer)
        files.append(buffer.getvalue())
    return files


async def alone(process: BrowserProcess, texts: Sequence[str]) -> list[bytes]:
    async with process.text_page() as page:
        return [await page.print(text) for text in texts]


async def by_playwright(process: BrowserProcess, texts: Sequence[str]) -> list[bytes]:
    async with process.context(scripts=False) as context:
        page = await context.new_page()
        made = []
        for text in texts:
            await page.set_content(OLD_PAGE.replace("></pre>", f">\n{html.escape(text, quote=False)}</pre>"))
            made.append(fix_dates(await page.pdf(**PRINT_OPTIONS)))
        return made


async def fifty_a_print(process: BrowserProcess, texts: Sequence[str]) -> list[bytes]:
    async with process.context(scripts=False) as context:
        page = await context.new_page()
        sections = "".join(f'<pre style="break-after:page">\n{html.escape(text, quote=False)}</pre>' for text in texts)
        await page.set_content(OLD_PAGE.replace("<pre dir=auto></pre>", sections))
        return cut(fix_dates(await page.pdf(**PRINT_OPTIONS)), len(texts))


async def measure(label: str, texts: Sequence[str], expected: dict[str, bytes], make: Print) -> dict[str, bytes]:
    groups = iter([texts[start : start + GROUP] for start in range(0, len(texts), GROUP)])
    made: dict[str, bytes] = {}

    async def work() -> None:
        for group in groups:
            made.update(zip(group, await make(group), strict=True))

    before, started = cpu_s(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    cpu_ms, wall_ms = (1000 * spent / len(texts) for spent in (cpu_s() - before, time.perf_counter() - started))
    same = sum(hashlib.sha256(made[t]).digest() == hashlib.sha256(expected[t]).digest() for t in expected)
    kb = sum(map(len, made.values())) / len(made) / 1024
    print(f"{label:34}{cpu_ms:9.2f}{wall_ms:9.2f}{kb:8.1f}{same:6}/{len(expected)}")
    return made


async def printing(texts: Sequence[str]) -> None:
    print(f"{'':34}{'CPU ms':>9}{'wall ms':>9}{'kB':>8}{'same':>6}")
    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        process = await pool.process()
        for label, way in (
            ("each on its own (this project)", alone),
            ("each by set_content and page.pdf", by_playwright),
            ("fifty a print, cut by pdfium", fifty_a_print),
        ):
            single = await way(process, texts[:1]) + await way(process, texts[1:2])
            await measure(
                label, texts, dict(zip(texts[:2], single, strict=True)), lambda group, way=way: way(process, group)
            )


def building(texts: Sequence[str]) -> None:
    planned = [
        PlannedDocument(f"d{n}", (FileName(f"d{n}.pdf"),), "text", None, None, text) for n, text in enumerate(texts)
    ]
    print(f"\n{'a corpus, checked and on disk':34}{'CPU ms':>9}{'wall ms':>9}{'peak MB':>9}")
    for label, size in (("published one by one", 1), ("published by eights", 8)):
        builder.TEXTS_PER_BATCH = size
        peak = 0

        def look(done: int, total: int) -> None:
            nonlocal peak
            peak = max(peak, psutil.Process().memory_info().rss)

        with tempfile.TemporaryDirectory() as folder:
            before, started = cpu_s(), time.perf_counter()
            build_corpus(planned, Path(folder) / "corpus", [], EgressPolicy(), progress=look)
            spent = cpu_s() - before, time.perf_counter() - started
        cpu_ms, wall_ms = (1000 * value / len(texts) for value in spent)
        print(f"{label:34}{cpu_ms:9.2f}{wall_ms:9.2f}{peak / 1e6:9.0f}")


def main(count: int) -> None:
    rng = random.Random(1)
    texts = [f"Paragraph {n}. " + " ".join(rng.choices(WORDS, k=100)) for n in range(count)]
    asyncio.run(printing(texts))
    building(texts)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TEXTS)
