"""A corpus of three documents, and a way to open a system over a recorded file."""

import contextlib

import pytest

from rag_eval_pipeline.systems.base import PageText, SystemCorpus
from rag_eval_pipeline.systems.replay import ReplaySettings, open_replay


@pytest.fixture
def corpus(tmp_path):
    names = ["cats.pdf", "big dogs.pdf", "report_3.pdf"]
    return SystemCorpus(
        benchmark="pets",
        folder=tmp_path / "corpus",
        files=names,
        aliases={alias: name for name in names for alias in (name, name.removesuffix(".pdf"))},
        fingerprint="1",
        pages=lambda: [PageText("cats.pdf", 1, 0, "Cats sleep.")],
        settings_folder=tmp_path,
        state_folder=tmp_path / "state",
    )


@pytest.fixture
def replayed(corpus, tmp_path):
    """`async with replayed(name, content) as system`; content is text or bytes, None leaves the file away."""

    @contextlib.asynccontextmanager
    async def replayed(name, content, **settings):
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        async with open_replay(ReplaySettings.model_validate({"path": name} | settings), corpus) as system:
            yield system

    return replayed
