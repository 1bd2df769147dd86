"""Rules of the house that a reader cannot check at a glance."""

import ast
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

HEAVY = ("duckdb", "pandas", "playwright", "pyarrow", "pypdfium2", "scipy", "tantivy")
PACKAGE = REPOSITORY / "rag_eval_pipeline"
MODULES = sorted(PACKAGE.rglob("*.py"))


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    return {name.partition(".")[0] for name in result.stdout.split()}


def test_definitions_load_without_heavy_packages():
    assert loaded_by("import rag_eval_pipeline.definitions").isdisjoint(HEAVY)


def test_help_loads_without_heavy_packages():
    statement = "from typer.testing import CliRunner; from rag_eval_pipeline.cli import app\n"
    statement += "assert CliRunner().invoke(app, ['--help']).exit_code == 0"

    assert loaded_by(statement).isdisjoint(HEAVY)


def test_the_library_stands_without_dagster():
    assert "dagster" not in loaded_by("import rag_eval_pipeline.cli, rag_eval_pipeline.conversion.steps")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_opens_with_a_sentence(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))

    assert docstring is not None
    assert docstring.splitlines()[0].rstrip().endswith((".", "?", ":"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_defs_import_dagster(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])

    assert "dagster" not in imported or path.parent.name == "defs" or path.name == "definitions.py"
