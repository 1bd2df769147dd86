"""Servers over three small documents, shared by a module's tests: each test asks questions of its own."""

import pytest

from rag_eval_pipeline.loopback.launch import loopback_server
from tests.loopback.paper import write_papers


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return write_papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def server(papers):
    with loopback_server(corpus=papers, media_every=2) as running:
        yield running


@pytest.fixture(scope="module")
def canned():
    with loopback_server(canned=True) as running:
        yield running
