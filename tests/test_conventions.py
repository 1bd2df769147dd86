"""Conventions of the code that a reader cannot check at a glance."""

import ast
import subprocess
import sys

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


def test_library_loads_without_dagster():
    assert "dagster" not in loaded_by("import rag_eval_pipeline.cli, rag_eval_pipeline.conversion.steps")


def test_only_defs_import_dagster():
    importing = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]}
            else:
                continue
            if "dagster" in names:
                importing.add(path)

    assert [
        path for path in importing if path.parent.name != "defs" and path.name not in ("definitions.py", "demo.py")
    ] == []
