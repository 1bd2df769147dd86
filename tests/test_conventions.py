"""Conventions of the code that a reader cannot check at a glance."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

HEAVY = ("apprise", "duckdb", "pandas", "playwright", "pypdfium2", "scipy", "tantivy")
ARROW = ("numpy", "pyarrow")
# A command on an evaluated benchmark -> the packages that it has no use for.
UNUSED_BY = {
    ("list",): {*HEAVY, *ARROW, "httpx", "rich"},
    ("status",): {*HEAVY, "httpx", "rich"},
    ("history",): {*HEAVY, "httpx", "rich"},
    ("leaderboard",): {*HEAVY, "httpx"},
    ("recipes",): {*HEAVY, "httpx", "rich"},
    ("init", "new", "--from", "data/sources/skarn-railway/questions.jsonl"): {*HEAVY, "httpx", "rich"},
    ("plan", "skarn-railway"): {*HEAVY, "httpx", "rich"},
    ("compare", "EVALUATION", "EVALUATION"): {*HEAVY, "httpx"},
    ("system", "probe", "embedded"): {*HEAVY, "httpx", "rich"} - {"tantivy"},
}
PACKAGE = REPOSITORY / "rag_eval_pipeline"
MODULES = sorted(PACKAGE.rglob("*.py"))


def loaded_by(statement: str, cwd: Path = REPOSITORY) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cwd, env=environment
    )
    return {name.partition(".")[0] for name in result.stdout.splitlines()[-1].split()}


def test_definitions_load_without_heavy_packages():
    assert loaded_by("import rag_eval_pipeline.definitions").isdisjoint({*HEAVY, "pyarrow"})


def test_help_loads_without_heavy_packages():
    statement = "from typer.testing import CliRunner; from rag_eval_pipeline.cli import app\n"
    statement += "assert CliRunner().invoke(app, ['--help']).exit_code == 0"

    assert loaded_by(statement).isdisjoint({*HEAVY, *ARROW, "msgspec", "pydantic", "rich"})


def test_commands_load_no_package_that_they_have_no_use_for(evaluated):
    [newest, *_] = sorted(path.name for path in evaluated.runs.glob("eval_run_*"))
    loaded = {}
    for command, unused in UNUSED_BY.items():
        words = [newest if word == "EVALUATION" else word for word in command]
        code = f"import sys\nsys.argv = {['rag-eval', *words]}\nfrom rag_eval_pipeline.cli import main\n"
        code += "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
        loaded[command] = loaded_by(code, evaluated.root) & unused

    assert loaded == dict.fromkeys(UNUSED_BY, set())


def test_library_loads_without_dagster():
    assert "dagster" not in loaded_by("import rag_eval_pipeline.cli, rag_eval_pipeline.conversion.convert")


@pytest.mark.fault(63)
def test_durations_are_measured_by_a_clock_that_nobody_sets():
    asking = [path.name for path in MODULES if re.search(r"(?<!date)time\.time\(", path.read_text())]

    assert asking == ["browser.py"]  # compares with the times of files


def test_each_dependency_is_imported_and_each_package_imported_is_a_dependency():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named, of_extra = (
        {re.split(r"[=<>~\[ ]", line, maxsplit=1)[0].lower() for line in lines}
        for lines in (
            project["dependencies"],
            [line for extra in ("nli", "celery") for line in project["optional-dependencies"][extra]],
        )
    )
    of_extra = {name.replace("-", "_") for name in of_extra} - {"redis"} | {"celery"}  # Celery loads redis by its URLs
    own = {*sys.stdlib_module_names, PACKAGE.name, "pydantic_core"}  # pydantic requires one version of its core
    imported = set().union(*(imported_by(path) for path in MODULES)) - own
    assert of_extra <= imported  # they are imported as they are called, and are not installed here
    imported -= of_extra
    distributions = {name: {one.lower() for one in found} for name, found in packages_distributions().items()}

    assert {name for name in imported if not distributions.get(name, set()) & named} == set()
    assert named - set().union(*(distributions[name] for name in imported)) == {
        "dagster-webserver",  # `rag-eval up` starts it
        "sniffio",  # httpcore imports it at each request
    }


@cache
def imported_by(path: Path) -> set[str]:
    """Return the top-level packages that a module imports, in functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_dagster_is_imported_where_it_is_defined_served_and_launched_only():
    importing = [path for path in MODULES if "dagster" in imported_by(path)]

    assert [
        path
        for path in importing
        if path.parent.name not in ("defs", "serving", "celery") and path.name != "definitions.py"
    ] == []
