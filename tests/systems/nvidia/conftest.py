"""A corpus of three small documents, and a way to open the system over it at a mock server."""

import contextlib

import pytest

from examples.mock_server.process import mock_rag_server
from rag_eval_pipeline.systems.nvidia_rag import open_nvidia
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from tests.examples import plain_http
from tests.examples.papers import papers_corpus
from tests.patience import PATIENCE_S


@pytest.fixture
def corpus(tmp_path):
    return papers_corpus(tmp_path)


@pytest.fixture(scope="session")
def reading():
    """A server that answers from the documents that it is sent."""
    with mock_rag_server(media_every=2) as running:
        yield running


@pytest.fixture
def server(reading):
    return reading


@pytest.fixture(scope="session")
def canned_process():
    with mock_rag_server(canned=True) as running:
        yield running


@pytest.fixture
def canned(canned_process):
    """A server of canned answers without collections, counts and faults; `reset` scripts its faults."""
    collections = plain_http.get(f"{canned_process.ingestor}/v1/collections").json()["collections"]
    names = [collection["collection_name"] for collection in collections]
    plain_http.request("DELETE", f"{canned_process.ingestor}/v1/collections", json=names)
    canned_process.reset(rate=0)
    return canned_process


@pytest.fixture
def settings():
    """`settings(server, **changes)`: both servers at one port, quick retries, quick looks at tasks."""

    def settings(server, *, endpoint=None, **changes):
        quick = {"backoff_seconds": 0.01, "attempt_seconds": PATIENCE_S, "total_seconds": PATIENCE_S} | (endpoint or {})
        upload = {"poll_seconds": 0.05} | changes.pop("upload", {})
        where = {"rag": {"base_url": server.rag} | quick, "ingestor": {"base_url": server.ingestor} | quick}
        return NvidiaSettings.model_validate(where | {"upload": upload} | changes)

    return settings


@pytest.fixture
def opened(settings):
    """`async with opened(server, corpus, **changes) as system`."""

    @contextlib.asynccontextmanager
    async def opened(server, corpus, **changes):
        async with open_nvidia(settings(server, **changes), corpus) as system:
            yield system

    return opened
