"""A results file that cannot be read is named wherever results are shown, stays where it lies, and costs no other."""

import json

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.reporting.comparison import compare_named
from rag_eval_pipeline.reporting.history_table import query_history, update_history
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

DAMAGED = "eval_run_20261002_001"


@pytest.fixture
def workspace(tmp_path):
    """Three nights of two systems; the second night of the first is cut in the middle."""
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s", "t"])
    for night in range(3):
        for number, system in enumerate(("s", "t"), start=1):
            publish_night(workspace, "b", system, night, questions=3, skill=0.5, number=number)
    path = workspace.results / f"{DAMAGED}.results.json"
    path.write_bytes(path.read_bytes()[:3000])
    return workspace


def rag_eval(workspace, *arguments):
    done = CliRunner().invoke(app, [*arguments, "--workspace", str(workspace.root)])
    return done.exit_code, done.stdout, done.stderr


SHOWN = {
    #              arguments                                               exit  what is shown of the others
    "leaderboard": (("leaderboard", "--json"),                             0,    "eval_run_20261003_001"),
    "history":     (("history",),                                          2,    "eval_run_20261003_001"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "other"), SHOWN.values(), ids=SHOWN)
def test_it_is_named_and_the_others_are_shown(arguments, code, other, workspace):
    exit_code, out, err = rag_eval(workspace, *arguments)

    assert (exit_code, other in out) == (code, True)
    assert DAMAGED in err
    assert "[corrupt_result]. Restore it, or score its answers again (rag-eval rescore) and remove it." in err
    assert len([line for line in err.splitlines() if "corrupt_result" in line]) == 1


def test_a_comparison_with_it_says_why_there_is_none(workspace):
    path = workspace.results / f"{DAMAGED}.results.json"

    with pytest.raises(InputError) as caught:
        compare_named(workspace, str(path), "eval_run_20261003_001")

    assert (caught.value.code, caught.value.file.startswith(str(path))) == ("bad_json", True)


def test_it_is_not_moved_and_the_tables_have_the_others(workspace):
    path = workspace.results / f"{DAMAGED}.results.json"
    before = path.read_bytes()

    [line] = update_history(workspace)

    assert line.startswith(f"{path}: expected a results file")
    assert path.read_bytes() == before
    [counted] = query_history(workspace, "SELECT count(DISTINCT evaluation_id) AS n FROM results")
    assert counted == {"n": 5}


VERSIONS = {
    "of a later release": ({"schema_version": "9.0"}, "newer_schema", "a later release wrote it"),
    "of no release": ({"schema_version": "new"}, "bad_version", "a schema version such as 1.0"),
}


@pytest.mark.parametrize(("change", "code", "said"), VERSIONS.values(), ids=VERSIONS)
def test_a_file_of_another_form_is_named_with_what_to_do(change, code, said, workspace):
    path = workspace.results / "eval_run_20261001_002.results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    _, _, err = rag_eval(workspace, "leaderboard")

    [line] = [line for line in err.splitlines() if path.name in line]
    assert f"[{code}]" in line
    assert said in line
