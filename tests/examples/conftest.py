"""Mock servers with three small documents, shared by a module's tests: each test asks questions of its own."""

import pytest

from examples.mock_rag_server import mock_rag_server
from tests.examples.papers import write_papers


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return write_papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def server(papers):
    with mock_rag_server(corpus=papers, media_every=2) as running:
        yield running


@pytest.fixture(scope="module")
def canned():
    with mock_rag_server(canned=True) as running:
        yield running
