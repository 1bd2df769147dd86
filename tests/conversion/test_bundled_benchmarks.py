"""The benchmarks that come with the project can be planned, and come to the counts that their specs expect."""

from pathlib import Path

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.workspace import Workspace

WORKSPACE = Workspace(Path(__file__).resolve().parents[2])


@pytest.mark.parametrize("name", WORKSPACE.benchmarks())
def test_it_is_planned_as_expected(name):
    found = plan(WORKSPACE.benchmark(name))

    assert found.spec.expect.differences(found.counts.record()) == []
    assert found.counts.quarantined == 0
    assert found.counts.conserved
    assert all(document.path is None or document.path.is_file() for document in found.documents)
    assert {document.body for document in found.documents} <= {"file", "text", "html"}
