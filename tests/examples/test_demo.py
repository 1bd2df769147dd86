"""`make demo` plays its nights once: a run with nothing changed only reports, and what changed is played again."""

import subprocess
import sys

import pytest

from rag_eval_pipeline import demo
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY


def test_demo_is_played_again_only_after_a_change(tmp_path):
    workspace = Workspace(tmp_path / "demo")
    digest = demo.prepare(workspace)
    (workspace.results / "old.results.json").parent.mkdir(parents=True)
    (workspace.root / "corpus" / "kept.pdf").touch()

    assert demo.prepare(workspace) == digest  # it was not finished
    assert not workspace.results.exists()
    assert (workspace.root / "corpus" / "kept.pdf").exists()
    demo.finish(workspace, digest)
    assert demo.prepare(workspace) == digest  # there is no report
    workspace.reports.mkdir(parents=True)
    (workspace.reports / "index.html").touch()
    demo.finish(workspace, digest)
    assert demo.prepare(workspace) is None
    demo.finish(workspace, "of other files")
    assert demo.prepare(workspace) == digest


@pytest.mark.long
def test_demo_finds_the_regression_and_its_cause(tmp_path):
    root = tmp_path / "demo"

    first, second = (
        subprocess.run(
            [sys.executable, "-m", "rag_eval_pipeline.demo", "--workspace", str(root)],
            cwd=REPOSITORY, capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    )  # fmt: skip

    verdict, look, worst, quiet, report, following = first.splitlines()[-6:]
    assert verdict.startswith("✗ REGRESSED  hybrid-mini on harbour-handbook, night of 15 November: Exact match ")
    assert verdict.endswith("p < 0.001, confirmed by a rerun 4 h later)")
    assert look.strip().startswith("Look at retrieval: Hit@1 ")
    assert "questions of section tariffs got worse" in look
    assert worst.strip().startswith("Worst: “")
    assert quiet == "· nothing sure hybrid, hybrid-next"
    assert report.startswith(f"Report:      {root / 'data' / 'reports' / 'index.html'}")
    assert following.startswith("Next:        rag-eval new my-rag")
    assert second.splitlines()[0] == "Nothing has changed since the last demo."
    assert second.splitlines()[-6:] == first.splitlines()[-6:]
