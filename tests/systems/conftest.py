"""A small corpus that systems of every kind are asked about."""

import asyncio
import contextlib
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from rag_eval_pipeline.systems.base import PageText, Query, SystemCorpus
from rag_eval_pipeline.systems.kind_settings import PythonSettings
from rag_eval_pipeline.systems.python_callable import open_python
from tests.patience import PATIENCE_S

LIGHT = "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne. Its tower is 31 metres tall."
HARBOUR = "The harbour of Tollan was built in 1901. It holds forty boats."
PAGES = [
    PageText("light.pdf", 1, 0, LIGHT),
    PageText("tollan.pdf", 1, 0, "Contents"),
    PageText("tollan.pdf", 2, 9, HARBOUR),
    PageText("a[1].pdf", 1, 0, "One."),
    PageText("cats.pdf", 1, 0, "Cats sleep."),
    PageText("cats.pdf", 2, 12, "They purr."),
]
FILES = ["light.pdf", "tollan.pdf", "a[1].pdf", "cats.pdf", "big dogs.pdf", "report_3.pdf"]


def corpus_in(folder: Path) -> SystemCorpus:
    return SystemCorpus(
        benchmark="coast",
        folder=folder / "corpus",
        files=FILES,
        aliases={alias: name for name in FILES for alias in (name, name.removesuffix(".pdf"))},
        fingerprint="1",
        system="recorded",
        started=datetime(2026, 11, 15, 2, tzinfo=UTC),
        pages=lambda: PAGES,
        settings_folder=folder,
        state_folder=folder / "state",
    )


@pytest.fixture
def corpus(tmp_path: Path) -> SystemCorpus:
    return corpus_in(tmp_path)


@pytest.fixture
def opened(corpus, tmp_path):
    """`async with opened(code, **settings) as system`: the code is in rag_under_test.py of the folder `code`."""

    @contextlib.asynccontextmanager
    async def opened(code, *, attribute="ask", **settings):
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        (folder / "rag_under_test.py").write_text(textwrap.dedent(code))
        given = {"callable": f"rag_under_test:{attribute}", "path": ["code"]} | settings
        # A worker that is neither heard of nor given up fails its test.
        async with asyncio.timeout(PATIENCE_S), open_python(PythonSettings.model_validate(given), corpus) as system:
            yield system

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield opened
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


async def answer(system, text):
    return await system.answer(Query("q7", text))


async def time_out(system, text, begun):
    """Ask a question that is given up, as at its limit, once its call has made the file `begun`."""
    asked = asyncio.create_task(answer(system, text))
    while not begun.exists():
        assert not asked.done()
        await asyncio.sleep(0.01)
    begun.unlink()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
