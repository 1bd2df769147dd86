"""Dagster instances: old runs are pruned, orphaned ones are marked failed."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler import instigation
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from rag_eval_pipeline import cli
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.serving.instance import (
    claim_instance,
    fail_runs,
    find_orphaned_runs,
    forget_ticks_ahead,
    prune_runs,
)
from rag_eval_pipeline.workspace import Workspace

NO_TELEMETRY = "telemetry: {enabled: false}\n"


@pytest.fixture
def rag_eval(monkeypatch, capsys):
    """Runs a command on a workspace; returns exit code, standard output, standard error."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("RAG_EVAL_WORKSPACE", raising=False)

    def run(root, *arguments):
        monkeypatch.setattr("sys.argv", ["rag-eval", *arguments, "--workspace", str(root)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


LETTERS = dg.StaticPartitionsDefinition(["a", "b"])


@dg.asset(partitions_def=LETTERS)
def letter():
    pass


@dg.asset
def board():
    print("logged")


@dg.job
def nothing():
    """A job of no steps."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of an instance; to make one takes seconds."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def instance(revisions_read_once):
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def stored(home, monkeypatch):
    (home / "dagster.yaml").write_text(NO_TELEMETRY)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get() as instance:
        yield instance
        for run in instance.get_runs():
            instance.delete_run(run.run_id)


def made(instance, asset, partition=None):
    return dg.materialize([asset], instance=instance, partition_key=partition).run_id


def test_prune_runs_keeps_the_newest_of_each_partition(instance):
    old = [made(instance, letter, "a"), made(instance, board)]
    newest = [made(instance, letter, "b"), made(instance, letter, "a"), made(instance, board)]
    finished = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.FAILURE).run_id
    started = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED).run_id
    later = datetime.now(UTC) + timedelta(days=91)

    def run_ids():
        return {run.run_id for run in instance.get_runs()}

    assert prune_runs(instance, days=92, now=later) == []
    assert set(prune_runs(instance, days=90, now=later, dry_run=True)) == {*old, finished}
    assert run_ids() == {*old, *newest, finished, started}
    assert set(prune_runs(instance, days=90, now=later)) == {*old, finished}

    assert run_ids() == {*newest, started}
    assert instance.get_materialized_partitions(dg.AssetKey("letter")) == {"a", "b"}
    assert instance.all_logs(old[0]) == []


def test_prune_runs_deletes_their_logs(stored, home):
    old, newest = made(stored, board), made(stored, board)
    assert {old, newest} <= {path.name for path in (home / "storage").iterdir()}

    prune_runs(stored, days=30, now=datetime.now(UTC) + timedelta(days=31))

    assert {old, newest} & {path.name for path in (home / "storage").iterdir()} == {newest}


def test_prune_command_uses_the_instance_of_the_workspace(rag_eval, home, stored, tmp_path):
    with_instance, without = tmp_path / "with", tmp_path / "without"
    for root in (with_instance, without):
        (root / "data" / "sources").mkdir(parents=True)
    (with_instance / ".dagster").symlink_to(home)

    found = [json.loads(rag_eval(root, "prune", "--dry-run", "--json")[1])["runs"] for root in (with_instance, without)]

    assert found == [[], None]


@pytest.mark.fault(58)
def test_orphaned_runs_are_the_started_ones_of_the_default_launcher(stored, home):
    started, _ = (
        stored.create_run_for_job(nothing, status=status).run_id
        for status in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS)
    )

    other = "run_launcher: {module: dagster._core.test_utils, class: ExplodingRunLauncher}\n"
    (home / "dagster.yaml").write_text(NO_TELEMETRY + other)
    assert find_orphaned_runs() == []
    (home / "dagster.yaml").write_text(NO_TELEMETRY)
    assert find_orphaned_runs() == [started]
    for _ in range(2):
        fail_runs([run.run_id for run in stored.get_runs()], "The server has ended.")
    assert find_orphaned_runs() == []
    assert sorted(run.status.value for run in stored.get_runs()) == ["FAILURE", "SUCCESS"]
    assert [log.message for log in stored.all_logs(started)].count("The server has ended.") == 1


def test_instance_of_another_workspace_is_refused_and_the_same_one_is_not(tmp_path, monkeypatch):
    one, other = (Workspace(tmp_path / name) for name in ("one", "other"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))

    claim_instance(one)
    claim_instance(one)
    with pytest.raises(InputError, match=rf"\[other_workspace\].*write [-0-9a-f]{{36}} into .*{other.identity}"):
        claim_instance(other)
    other.identity.write_bytes(one.identity.read_bytes())  # what the hint says
    claim_instance(other)


@pytest.mark.fault(63)
def test_what_a_clock_that_was_ahead_recorded_is_dated_now(stored):
    """Dagster would evaluate nothing, no sensor either, until the clock has reached the last tick."""
    ahead = (datetime.now(UTC) + timedelta(days=14)).timestamp()
    repository = RemoteRepositoryOrigin(InProcessCodeLocationOrigin(LoadableTargetOrigin()), "r")
    recorded = {
        "SCHEDULE": instigation.ScheduleInstigatorData("0 2 * * *", 1.0, ahead),
        "SENSOR": instigation.SensorInstigatorData(ahead, cursor="c", last_tick_start_timestamp=ahead),
    }
    for name, data in recorded.items():
        origin, kind = repository.get_instigator_origin(name), instigation.InstigatorType(name)
        state = instigation.InstigatorState(origin, kind, instigation.InstigatorStatus.RUNNING, data)
        stored.add_instigator_state(state)
        for at in (2.0, ahead):
            skipped = instigation.TickStatus.SKIPPED
            tick = instigation.TickData(
                state.instigator_origin_id, name, kind, skipped, at, selector_id=state.selector_id
            )
            stored.create_tick(tick)

    forget_ticks_ahead()

    now = datetime.now(UTC).timestamp()
    assert len(stored.all_instigator_state()) == len(recorded)
    for state in stored.all_instigator_state():
        times = [at for name, at in state.instigator_data._asdict().items() if name.endswith("_timestamp") and at]
        ticks = stored.get_ticks(state.instigator_origin_id, state.selector_id)
        assert max(times) <= now
        assert [tick.timestamp for tick in ticks][1:] == [2.0]
        assert ticks[0].timestamp <= now
        assert getattr(state.instigator_data, "cursor", "c") == "c"
