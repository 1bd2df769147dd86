"""Gold texts located in printed documents: share, time a span, false hits and overlap, by what was done to the texts.

    python bench/alignment.py

Prints 40 documents from the pages of ../shared/data/wiki-urls, or from the bundled benchmarks where it is missing:
prose with marks of notes, and at every third paragraph a floating table, which stands between the lines of a text that
goes on overleaf. Milliseconds are processor time of one thread; the index of each document is timed on its own.
"""

import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the prose and what is done to it belong to the tests

from rag_eval_pipeline.corpus.rendering.browser import BrowserPool, browser_pool  # noqa: E402
from rag_eval_pipeline.corpus.rendering.render import render  # noqa: E402
from rag_eval_pipeline.corpus.text.alignment import Located, TextIndex  # noqa: E402
from rag_eval_pipeline.corpus.text.pdf import read_texts  # noqa: E402
from rag_eval_pipeline.web.content_types import Body  # noqa: E402
from rag_eval_pipeline.web.egress import EgressPolicy  # noqa: E402
from rag_eval_pipeline.web.egress_proxy import EgressProxy  # noqa: E402
from tests.corpus.text.prose import (  # noqa: E402
    PERTURBATIONS,
    Article,
    articles,
    bundled_articles,
    caption,
    foreign,
    marked,
    shared,
)

PAGES = REPOSITORY.parent / "shared" / "data" / "wiki-urls" / "pages"
DOCUMENTS = 40
PARAGRAPHS = 36  # of a document: some 20,000 characters, as a usual article has
SPANS = 6  # of a document
SEED = 3


class Line(NamedTuple):
    """A row of the table."""

    found: list[Sequence[Located]]
    milliseconds: list[float]
    overlaps: list[float]


def documents() -> list[Article]:
    """Documents of an even length, of paragraphs taken from all articles by chance."""
    found = articles(PAGES) if PAGES.is_dir() else bundled_articles()
    texts = list(dict.fromkeys(text for article in found for text in article.paragraphs))
    random.Random(SEED).shuffle(texts)
    size = min(PARAGRAPHS, len(texts) // DOCUMENTS)
    return [Article(f"document {n}", texts[n * size : (n + 1) * size]) for n in range(DOCUMENTS)]


def html(article: Article, rng: random.Random) -> str:
    words = " ".join(article.paragraphs).split()
    parts = [f"<h1>{escape(article.name)}</h1>"]
    for number, text in enumerate(article.paragraphs):
        if number % 3 == 0:
            rows = "".join(f"<tr><td>{escape(row)}" for row in caption(rng, words, 6).splitlines())
            parts.append(f'<table style="float:right;width:40%;font-size:80%">{rows}</table>')
        parts.append(f"<p>{escape(marked(text, rng))}</p>")
    return f"<!doctype html><meta charset=utf-8><title>{escape(article.name)}</title>{''.join(parts)}"


async def print_all(pages: Sequence[str]) -> list[bytes]:
    async def one(pool: BrowserPool, page: str) -> bytes:
        return (await render(pool, Body("html", page.encode(), "http://document.invalid/"), load_limit_s=30)).pdf

    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        return [await one(pool, page) for page in pages]


def measure(texts: Sequence[tuple[TextIndex, str, str]]) -> Line:
    """Locates texts; each with its index, as it is given and as it was."""
    line = Line([], [], [])
    for index, given, original in texts:
        started = time.thread_time()
        found = index.locate(given)
        line.milliseconds.append((time.thread_time() - started) * 1000)
        line.found.append(found)
        expected = index.locate(original) if found and original else ()
        if expected:
            line.overlaps.append(shared(found, expected))
    return line


def show(name: str, line: Line) -> None:
    n = len(line.found)
    methods = Counter(found[0].method for found in line.found if found)
    located = f"{100 * sum(map(bool, line.found)) / n:6.1f} %"
    slow = statistics.quantiles(line.milliseconds, n=20)[-1]
    overlap = f"{statistics.mean(line.overlaps):6.3f}" if line.overlaps else f"{'-':>6}"
    how = ", ".join(f"{method} {count}" for method, count in methods.most_common())
    print(f"{name:26}{n:5}{located:>10}{statistics.mean(line.milliseconds):8.2f}{slow:8.2f}{overlap:>8}  {how}")


def main() -> None:
    made = documents()
    rng = random.Random(SEED)
    pages = [read_texts(pdf) for pdf in asyncio.run(print_all([html(article, rng) for article in made]))]
    started = time.thread_time()
    indexes = [TextIndex(texts) for texts in pages]
    milliseconds = (time.thread_time() - started) * 1000 / len(indexes)
    characters = sum(len(index.text) for index in indexes)
    print(
        f"{len(indexes)} documents, {sum(map(len, pages))} pages, {characters:,} characters; "
        f"index {milliseconds:.1f} ms a document\n"
    )
    print(f"{'gold texts':26}{'n':>5}{'located':>10}{'ms':>8}{'p95':>8}{'overlap':>8}  how")
    for name, perturb in PERTURBATIONS.items():
        chosen = [
            (index, perturb(text, rng), text)
            for article, index in zip(made, indexes, strict=True)
            for text in rng.sample(article.paragraphs, min(SPANS, len(article.paragraphs)))
        ]
        # A cut is not where the whole is.
        show(name, measure([(index, given, "" if name == "cut out of it" else text) for index, given, text in chosen]))
    strange = [
        (index, text, "")
        for article, index in zip(made, indexes, strict=True)
        for text in rng.sample(list(foreign(article, made)), SPANS)
    ]
    control = measure(strange)
    show("texts of other documents", control)
    print(f"\nfalse hits: {sum(map(bool, control.found))} of {len(control.found)}")


if __name__ == "__main__":
    main()
