"""Proof that a browser cannot reach this machine, made before it is given a page.

Chromium goes past a proxy for loopback addresses unless told not to, and a policy on the machine can set another proxy:
then pages would read local services into PDFs. Trust is no substitute for asking.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.errors import ServiceError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

_PROOF_LIMIT_MS = 15_000.0


async def prove_closed(context: "BrowserContext", guard: Guard) -> None:
    """Asks the browser for this machine's own addresses, which must be refused without a connection.

    Raises:
        ServiceError: `egress_open`.
    """
    from playwright.async_api import Error

    connections = 0

    def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(count, "127.0.0.1", 0) as canary:
        port = canary.sockets[0].getsockname()[1]
        page = await context.new_page()
        before = guard.denied
        for host in ("127.0.0.1", "localhost"):
            with contextlib.suppress(Error):
                await page.goto(f"http://{host}:{port}/", timeout=_PROOF_LIMIT_MS)
        denied = guard.denied - before
    if connections or denied < 2:
        raise ServiceError(
            "egress_open",
            f"The browser reached this machine {connections} times and was refused {denied} times where 2 were due",
            hint="Nothing is rendered while pages can reach local services. Does a browser policy set a proxy?",
        )
