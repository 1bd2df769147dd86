"""`make demo` plays its nights once: a run with nothing changed only reports, and what changed is played again."""

import re
import subprocess
import sys

import pytest

from examples import demo_nights as demo
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
            [sys.executable, "-m", "examples.demo_nights", "--workspace", str(root)],
            cwd=REPOSITORY, capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    )  # fmt: skip

    closing = first.splitlines()[-6:]
    readme = re.search(r"^```text\n(✗ .*?)^```", (REPOSITORY / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert readme is not None
    for line, printed in zip(readme[1].splitlines(), closing, strict=True):
        assert printed == line.replace("http://127.0.0.1:3001/", str(root / "data" / "reports" / "index.html"))
    assert second.splitlines()[0] == "Nothing has changed since the last demo."
    assert second.splitlines()[-6:] == closing
