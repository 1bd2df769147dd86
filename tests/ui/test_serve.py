"""`make up` ends what it began: webserver, daemon, code server, runs and their browsers."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from ui.server import Server

pytestmark = pytest.mark.ui

PAGES = 400  # a minute's rendering at least: it is still going on when the signal comes
SLOW = """name: slow
title: Many pages
version: 1.0.0
license: Apache-2.0
released: 2025-01-01
source: {path: questions.csv}
questions: "SELECT question, 'yes' AS answer, [{document: name}] AS contexts FROM source"
documents: "SELECT name, html FROM source ORDER BY name"
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A benchmark of many pages."""
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text(SLOW)
    rows = [f"Is this page {n}?,page-{n},<p>This is page {n}.</p>" for n in range(PAGES)]
    (folder / "questions.csv").write_text("\n".join(["question,name,html", *rows]))
    return folder


def test_serve_ends_its_runs_and_browsers_on_ctrl_c(tmp_path: Path, slow: Path):  # on SIGTERM: the server of test_ui
    server = Server(tmp_path, [slow])
    try:
        server.wait("a run that renders", lambda: server.is_up() and server.has_browser())
    finally:
        left = server.stop(signal.SIGINT)

    assert left == []
    assert server.process.returncode == 0
    assert not server.is_up()
    assert server.log.read_text().endswith("Stopped.\n")
    assert "Traceback" not in server.log.read_text()
    # Interrupted, not a failed step, which would not be retried at the next start.
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        [run] = instance.get_runs(dg.RunsFilter(job_name="convert"))
        assert "DagsterExecutionInterruptedError" in "".join(str(event) for event in instance.all_logs(run.run_id))


def test_serve_refuses_a_busy_port_before_a_second_daemon_starts():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        command = [sys.executable, "-m", "rag_eval_pipeline.defs.serve", "--port", port]
        told = subprocess.run(command, capture_output=True, text=True, check=False)

    assert told.returncode == 2
    assert (told.stdout, told.stderr.count("\n")) == ("", 1)
    assert f"127.0.0.1:{port}" in told.stderr
