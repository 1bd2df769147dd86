"""A trial run of the browser: started as for a corpus, behind the guard, to see what it does on this machine.

It prints one small page of its own and asks nothing of the network.
"""

import asyncio
import contextlib
from typing import NamedTuple

import psutil

from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.egress.config import EgressConfig
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.bodies import local_body
from rag_eval_pipeline.corpus.rendering.pages import render
from rag_eval_pipeline.corpus.rendering.pool import browser_pool
from rag_eval_pipeline.corpus.text.pdf_reader import read_texts


class Trial(NamedTuple):
    """What was seen of a browser that could be started, and so was refused this machine's own addresses.

    Args:
        sandboxed: Whether its pages are confined.
        users: As whom the processes run that draw pages.
        text: What a page that it printed says, read from the PDF.
    """

    sandboxed: bool
    users: tuple[str, ...]
    text: str


def try_browser(lines: list[str]) -> Trial:
    """Starts the browser and prints a page.

    Args:
        lines: What the page says, a paragraph each.

    Raises:
        ServiceError: `browser_missing`, `browser_failed`, `driver_failed`, `egress_open`.
        DocumentError: The page could not be printed.
    """
    return asyncio.run(_try_browser("".join(f"<p>{line}</p>" for line in lines)))


async def _try_browser(html: str) -> Trial:
    body = local_body(PlannedDocument(key="trial", names=(), body="html", content=f"<title>Trial</title>{html}"))
    config = EgressConfig()  # no host is asked, so none has to be allowed
    async with Guard(EgressPolicy(config)) as guard, browser_pool(guard) as pool:
        process = await pool.process()
        async with process.context(scripts=True) as context:
            await (await context.new_page()).set_content("<p>A page that waits while its process is looked at.")
            users = _users_of_pages()
        printed = await render(pool, body, load_limit_s=config.page_load_limit_s)
    return Trial(process.sandboxed, users, "\n".join(read_texts(printed.pdf)))


def _users_of_pages() -> tuple[str, ...]:
    """Owners of the processes below this one that draw pages, sorted."""
    users = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # a spare one that has just ended
            if "--type=renderer" in " ".join(child.cmdline()):
                users.add(child.username())
    return tuple(sorted(users))
