"""`rag-eval new` makes a workspace of files that the package carries; it never replaces a file."""

import tomllib
from pathlib import Path, PurePosixPath

import dagster as dg
import pytest
from setuptools.glob import glob

from rag_eval_pipeline import cli
from rag_eval_pipeline.cli.doctor import Machine, registry
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.scaffold.workspaces import instance_settings, new_workspace, template_files
from rag_eval_pipeline.workspace import Workspace, default_root
from tests.conftest import REPOSITORY

SHARED = [
    "dagster.yaml",
    "workspace.yaml",
    *(
        f"data/config/{name}.config.yaml"
        for name in ("alerts", "egress", "evaluation_defaults", "retention", "verdicts")
    ),
]


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def new(monkeypatch, capsys):
    """Runs `rag-eval new`; returns exit code, standard output, standard error."""

    def run(folder):
        monkeypatch.setattr("sys.argv", ["rag-eval", "new", str(folder)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


def test_new_makes_a_workspace_that_other_commands_find(new, tmp_path, monkeypatch):
    folder = tmp_path / "my evaluation"

    code, _, error = new(folder)

    assert code == 0
    assert error.splitlines()[-1] == f"Next: cd '{folder}' && rag-eval init NAME --from FILE|FOLDER|URL"
    assert (folder / "data" / "sources").is_dir()
    assert (folder / ".gitignore").read_text().startswith(".venv/\n")
    assert registry(Machine(Workspace(folder))).found == "0 benchmarks, 1 system"
    monkeypatch.delenv("RAG_EVAL_WORKSPACE", raising=False)
    monkeypatch.chdir(folder / "data" / "config")
    assert Path(default_root()) == folder


def test_folder_without_sources_is_no_workspace_of_dagster(tmp_path, monkeypatch):
    monkeypatch.delenv("RAG_EVAL_WORKSPACE", raising=False)
    monkeypatch.setattr("rag_eval_pipeline.workspace.PROJECT", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(dg.Failure, match=r"\[no_workspace\]\. Name one: RAG_EVAL_WORKSPACE=DIR"):
        _ = WorkspaceResource().workspace


def test_new_works_twice_and_restores_a_missing_file(new, tmp_path):
    new(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "dagster.yaml").unlink()

    code, out, _ = new(tmp_path)
    again = new(tmp_path)

    assert (code, contents(tmp_path)) == (0, before)
    assert "  dagster.yaml\n" in out
    assert again[0] == 0
    assert "all files of a new workspace are there" in again[1]


def test_new_refuses_to_replace_a_file_and_writes_nothing(new, tmp_path):
    (tmp_path / "README.md").write_text("mine")

    code, _, err = new(tmp_path)

    assert code == 2
    assert str(tmp_path / "README.md") in err
    assert "[file_exists]" in err
    assert contents(tmp_path) == {"README.md": b"mine"}


@pytest.mark.parametrize("name", SHARED)
def test_template_has_the_settings_of_the_repository(name):
    assert (REPOSITORY / "rag_eval_pipeline/scaffold/template" / name).read_bytes() == (REPOSITORY / name).read_bytes()


def test_instance_settings_are_those_of_the_workspace(tmp_path):
    workspace, _ = new_workspace(tmp_path)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: true}\n")
    own = instance_settings(workspace)
    (tmp_path / "dagster.yaml").unlink()

    assert own == b"telemetry: {enabled: true}\n"
    assert instance_settings(workspace) == template_files()[PurePosixPath("dagster.yaml")]


def test_package_data_covers_every_file_of_the_package():
    package = REPOSITORY / "rag_eval_pipeline"
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["rag_eval_pipeline"]
    covered = {path for pattern in patterns for path in glob(str(package / pattern), recursive=True)}

    files = {str(path) for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}

    assert files - covered == set()
