"""A corpus of two documents, and a way to open a system over code that a test writes."""

import contextlib
import sys
import textwrap

import pytest

from rag_eval_pipeline.systems.base import PageText, SystemCorpus
from rag_eval_pipeline.systems.python_callable import PythonSettings, open_python


@pytest.fixture
def corpus(tmp_path):
    pages = [PageText("cats.pdf", 1, 0, "Cats sleep."), PageText("cats.pdf", 2, 12, "They purr.")]
    return SystemCorpus(
        benchmark="pets",
        folder=tmp_path / "corpus",
        files=["cats.pdf", "big dogs.pdf"],
        aliases={
            "cats.pdf": "cats.pdf",
            "cats": "cats.pdf",
            "big dogs.pdf": "big dogs.pdf",
            "big dogs": "big dogs.pdf",
        },
        fingerprint="1",
        pages=lambda: pages,
        settings_folder=tmp_path,
        state_folder=tmp_path / "state",
    )


@pytest.fixture
def opened(corpus, tmp_path):
    """`async with opened(code, **settings) as system`: the code stands in rag_under_test.py of a folder of its own."""

    @contextlib.asynccontextmanager
    async def opened(code, *, attribute="ask", **settings):
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        (folder / "rag_under_test.py").write_text(textwrap.dedent(code))
        checked = PythonSettings.model_validate(
            {"callable": f"rag_under_test:{attribute}", "path": ["code"]} | settings
        )
        async with open_python(checked, corpus) as system:
            yield system

    path = list(sys.path)
    yield opened
    assert sys.path == path
    assert "rag_under_test" not in sys.modules
