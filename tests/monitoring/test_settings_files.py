"""Every settings file is checked as the pipeline reads it, by `rag-eval validate` and by status."""

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.monitoring.settings_files import DEFAULTS, READERS, check_settings, settings_faults

SPEC = "data/sources/skarn-railway/benchmark.yaml"
SYSTEM = "data/config/systems/embedded.config.yaml"
FILES = [SPEC, SYSTEM, *(f"data/config/{name}" for name in READERS)]


def test_settings_files_of_a_workspace_are_valid(workspace):
    written = [path for path in (workspace.root / name for name in FILES) if path.exists()]

    assert {path.name for path in written} >= {DEFAULTS, "verdicts.config.yaml", "benchmark.yaml"}
    for path in written:
        check_settings(path)
    assert list(settings_faults(workspace)) == []


@pytest.mark.parametrize("name", FILES)
def test_settings_file_with_an_unknown_key_is_refused_by_its_name(name, workspace):
    path = workspace.root / name
    path.write_text((path.read_text() if path.exists() else "") + "\nnonsens: 1\n")

    done = CliRunner().invoke(app, ["validate", str(path)])

    assert (done.exit_code, "nonsens" in done.stderr) == (2, True)
    if name.removeprefix("data/config/") in READERS and not name.endswith(DEFAULTS):
        [line] = settings_faults(workspace)
        assert line.startswith(name)


def test_settings_file_is_checked_in_its_place_only(workspace, tmp_path):
    stray = tmp_path / "verdicts.config.yaml"
    stray.write_text("units: questions\n")

    with pytest.raises(InputError, match="unknown_form.*Known in data/config"):
        check_settings(stray)
