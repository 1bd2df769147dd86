"""Runs of an instance: old ones are deleted but for those that a partition needs, orphaned ones are marked failed."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_eval_pipeline import cli
from rag_eval_pipeline.defs.instance import fail_orphaned_runs, prune_runs

LETTERS = dg.StaticPartitionsDefinition(["a", "b"])


@dg.asset(partitions_def=LETTERS)
def letter():
    print("logged")


@dg.asset
def board():
    pass


@dg.job
def nothing():
    """A job of no steps."""


@pytest.fixture
def instance(tmp_path, monkeypatch):
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        yield instance


def run_ids(instance):
    return {run.run_id for run in instance.get_runs()}


def made(instance, asset, partition=None):
    return dg.materialize([asset], instance=instance, partition_key=partition).run_id


def test_prune_runs_keeps_the_newest_of_each_partition(instance):
    old = [made(instance, letter, "a"), made(instance, board)]
    newest = [made(instance, letter, "b"), made(instance, letter, "a"), made(instance, board)]
    finished = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.FAILURE).run_id
    started = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED).run_id
    later = datetime.now(UTC) + timedelta(days=91)

    assert prune_runs(instance, days=92, now=later) == []
    assert set(prune_runs(instance, days=90, now=later, dry_run=True)) == {*old, finished}
    assert run_ids(instance) == {*old, *newest, finished, started}
    assert set(prune_runs(instance, days=90, now=later)) == {*old, finished}

    assert run_ids(instance) == {*newest, started}
    assert instance.get_materialized_partitions(dg.AssetKey("letter")) == {"a", "b"}
    assert instance.all_logs(old[0]) == []


def test_prune_runs_deletes_their_logs(instance, tmp_path):
    old, newest = made(instance, board), made(instance, board)
    assert {old, newest} <= {path.name for path in (tmp_path / "storage").iterdir()}

    prune_runs(instance, days=30, now=datetime.now(UTC) + timedelta(days=31))

    assert old not in {path.name for path in (tmp_path / "storage").iterdir()}
    assert newest in {path.name for path in (tmp_path / "storage").iterdir()}


def test_prune_command_uses_the_instance_of_the_workspace(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with_instance, without = tmp_path / "with", tmp_path / "without"
    for root in (with_instance, without):
        (root / "data" / "sources").mkdir(parents=True)
    (with_instance / ".dagster").mkdir()
    (with_instance / ".dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    runs = []
    for root in (with_instance, without):
        cli.app(["prune", "--dry-run", "--json", "--workspace", str(root)], standalone_mode=False)
        runs.append(json.loads(capsys.readouterr().out)["runs"])

    assert runs == [[], None]


def test_fail_orphaned_runs_marks_started_runs_only(instance):
    for status in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS):
        instance.create_run_for_job(nothing, status=status)

    assert [fail_orphaned_runs("The server has ended.") for _ in range(2)] == [1, 0]
    assert sorted(run.status.value for run in instance.get_runs()) == ["FAILURE", "SUCCESS"]


def test_fail_orphaned_runs_leaves_another_launcher_alone(tmp_path, monkeypatch):
    (tmp_path / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nrun_launcher: {module: dagster._core.test_utils, class: ExplodingRunLauncher}\n"
    )
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED)

        assert fail_orphaned_runs("The server has ended.") == 0
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.STARTED]
