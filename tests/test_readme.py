"""The README is true: its commands run and print what it says, its targets exist, its leaderboard is the demo's."""

import re
import shlex
import shutil
import subprocess
from io import StringIO

import pytest
import yaml
from rich.console import Console

from rag_eval_pipeline import cli
from rag_eval_pipeline.conversion.spec import BenchmarkSpec
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.reporting.leaderboard import leaderboard_table, read_leaderboard
from rag_eval_pipeline.systems.config import parse_system
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import CONVERTED, REPOSITORY

README = (REPOSITORY / "README.md").read_text()
NUMBER = re.compile(r"[01]\.\d{2,3}")
BLOCKS = [(kind, body) for kind, body in re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)]


@pytest.fixture(scope="module")
def demo(bundled, _evaluated, tmp_path_factory):
    """The bundled benchmarks as `make demo` leaves them."""
    root = tmp_path_factory.mktemp("demo") / "workspace"
    shutil.copytree(bundled, root, symlinks=True)
    shutil.copytree(_evaluated / "data" / "evaluation", root / "data" / "evaluation", dirs_exist_ok=True)
    workspace = Workspace(root)
    for benchmark in set(workspace.benchmarks()) - set(CONVERTED):
        for system in workspace.systems():
            evaluate(workspace, load_pair(workspace, benchmark, system))
    return workspace


def commands():
    """Each `$ rag-eval ...` of a console block with the lines that follow it."""
    for kind, body in BLOCKS:
        if kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, *output = part.splitlines()
                yield pytest.param(command, output, id=command)


@pytest.mark.parametrize(("command", "output"), list(commands()))
def test_commands_run_and_print_what_stands_here(command, output, demo, monkeypatch, capsys):
    monkeypatch.chdir(demo.root)
    monkeypatch.setattr("sys.argv", shlex.split(command))

    with pytest.raises(SystemExit) as exit_:
        cli.main()

    assert exit_.value.code in (0, None)
    if output:
        assert capsys.readouterr().out.splitlines() == output


def test_leaderboard_is_the_one_that_make_demo_prints(demo):
    screen = StringIO()
    Console(file=screen, width=80).print(leaderboard_table(read_leaderboard(demo)))

    printed = next(body for kind, body in BLOCKS if "cairnmoor" in body)
    ours, theirs = (re.split(r"[\s-]+", text.strip()) for text in (printed, screen.getvalue()))
    assert len(ours) == len(theirs)
    for printed_cell, cell in zip(ours, theirs, strict=True):
        if NUMBER.fullmatch(printed_cell):
            # Other fonts than those of the set-up break pages elsewhere, which moves a score a little.
            assert float(cell) == pytest.approx(float(printed_cell), abs=0.03)
        else:
            assert cell == printed_cell


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make ([a-z]+)\b(?=`|  )", README))))
def test_targets_exist(target):
    done = subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_yaml_is_valid():
    benchmark, system = (yaml.safe_load(body) for kind, body in BLOCKS if kind == "yaml")

    assert BenchmarkSpec.model_validate(benchmark).name == "frames"
    assert parse_system(system, "README.md").kind == "openai"


def test_it_is_short():
    assert len(README.splitlines()) <= 160
