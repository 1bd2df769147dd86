"""Runs that a crash has left behind are told to have failed; finished ones and other launchers' are left alone."""

import dagster as dg
import pytest

from rag_eval_pipeline.defs.lost_runs import fail_lost_runs


@dg.job
def nothing():
    """A job of no steps."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


def states(instance):
    return [run.status for run in instance.get_runs()]


def test_what_was_running_when_the_server_went_has_failed(home):
    with dg.DagsterInstance.get() as instance:
        instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED)
        instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.SUCCESS)

        assert fail_lost_runs("The server has ended.") == 1

        assert sorted(state.value for state in states(instance)) == ["FAILURE", "SUCCESS"]
        assert fail_lost_runs("The server has ended.") == 0


def test_runs_of_another_launcher_are_not_ours_to_judge(home):
    (home / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nrun_launcher: {module: dagster._core.test_utils, class: ExplodingRunLauncher}\n"
    )
    with dg.DagsterInstance.get() as instance:
        instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED)

        assert fail_lost_runs("The server has ended.") == 0

        assert states(instance) == [dg.DagsterRunStatus.STARTED]
