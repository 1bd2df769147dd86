"""The wheel, in an environment of its own and outside the clone: what a user of a release has."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.conftest import REPOSITORY
from tests.patience import PATIENCE_S
from tests.ports import free_port

UV = (sys.executable, "-m", "uv")


@pytest.fixture(scope="module")
def command(tmp_path_factory) -> Path:
    """The installed `rag-eval`."""
    folder = tmp_path_factory.mktemp("release")
    build = (*UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable)
    subprocess.run([*build, "--out-dir", folder, REPOSITORY], check=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = (*UV, "pip", "install", "--quiet", "--python", environment)
    subprocess.run([*install, "-r", REPOSITORY / "requirements" / "run.txt"], check=True)
    subprocess.run([*install, "--no-deps", wheel], check=True)
    return environment / "bin" / "rag-eval"


def variables():
    """Nothing that leads to the clone or its environment."""
    return {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "DAGSTER_HOME", "VIRTUAL_ENV"}
    }


@pytest.mark.long  # installs every package
def test_installed_wheel_gives_a_first_score_and_serves_it(command: Path, tmp_path: Path):
    def run(*arguments, cwd):
        done = subprocess.run(
            [command, *arguments], cwd=cwd, env=variables(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("new", "empty", cwd=tmp_path)
    assert "Exact match" in run("try", cwd=tmp_path)
    (workspace,) = (path.parents[2] for path in tmp_path.glob("*/data/reports/index.html"))

    ports = free_port(), free_port()
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            [command, "up", "--port", str(ports[0]), "--report-port", str(ports[1])],
            cwd=workspace, env=variables(), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        urls = [f"http://127.0.0.1:{ports[0]}/server_info", f"http://127.0.0.1:{ports[1]}/"]
        while not all(map(is_there, urls)):
            assert up.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(PATIENCE_S) == 0


def is_there(url):
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False
