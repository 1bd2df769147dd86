"""Dagster instances: `rag-eval` reports to that of its workspace, old runs are pruned, orphaned ones are marked failed."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_eval_pipeline import cli
from rag_eval_pipeline.defs.partitions import corpus_shard_keys, pair_key
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES
from rag_eval_pipeline.serving.instance import fail_runs, find_orphaned_runs, prune_runs, report_existing

OBSERVATORY = "cairnmoor-observatory"
RAILWAY = "skarn-railway"
PAIR = pair_key(OBSERVATORY, "embedded")
EVALUATION = ("responses", *SCORE_FILES, "evaluation_results")
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


def test_evaluate_reports_to_the_instance_of_dagster_home(rag_eval, workspace, tmp_path, monkeypatch):
    home = tmp_path / "instance"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("RAG_EVAL_WORKSPACE", str(workspace.root))

    code, out, err = rag_eval(workspace.root, "evaluate", OBSERVATORY, "--system", "embedded")

    assert (code, err) == (0, "Next: rag-eval report --open\n")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for asset in EVALUATION:
            assert instance.get_materialized_partitions(dg.AssetKey(asset)) == {str(PAIR)}
        assert instance.get_dynamic_partitions("benchmarks") == [OBSERVATORY]
        assert instance.get_dynamic_partitions("systems") == ["embedded"]
        [record] = instance.fetch_materializations(dg.AssetKey("evaluation_results"), limit=1).records
    values = record.asset_materialization.metadata
    assert f"({values['evaluation_id'].value})" in out.splitlines()[0]
    assert 0 < values["F1"].value < 1
    # An instance of another workspace hears nothing.
    monkeypatch.setenv("RAG_EVAL_WORKSPACE", str(tmp_path / "other"))
    assert rag_eval(workspace.root, "report")[0] == 0
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.fetch_materializations(dg.AssetKey("report"), limit=1).records == []


def test_convert_reports_to_the_instance_of_the_workspace(rag_eval, workspace):
    own = workspace.root / ".dagster"
    own.mkdir()

    assert rag_eval(workspace.root, "convert", OBSERVATORY)[0] == 0

    with dg.DagsterInstance.from_config(str(own)) as instance:
        for asset in ("questions", "corpus", "corpus_text", "train_json", "evaluation_dataset", "ground_truth"):
            assert instance.get_materialized_partitions(dg.AssetKey(asset)) == {OBSERVATORY}


def test_what_was_made_before_the_instance_is_reported_to_it_once(evaluated, tmp_path):
    """Else a backfill of what is missing would ask all questions again."""
    home = tmp_path / "home"
    home.mkdir()

    for _ in range(2):
        report_existing(home, evaluated)

    with dg.DagsterInstance.from_config(str(home)) as instance:
        systems = ("embedded", "embedded-weak")
        pairs = {str(pair_key(benchmark, system)) for benchmark in (RAILWAY, OBSERVATORY) for system in systems}
        for asset in EVALUATION:
            assert instance.get_materialized_partitions(dg.AssetKey(asset)) == pairs
        assert RAILWAY in instance.get_materialized_partitions(dg.AssetKey("corpus"))
        records = instance.fetch_materializations(dg.AssetKey("evaluation_results"), limit=9).records
    assert len(records) == len(pairs)


def test_report_succeeds_if_the_instance_cannot_be_used(rag_eval, tmp_path):
    own = tmp_path / ".dagster"
    for folder in (own, tmp_path / "data" / "sources"):
        folder.mkdir(parents=True)
    (own / "dagster.yaml").write_text("storage: {postgres: nonsense}\n")

    code, out, err = rag_eval(tmp_path, "report")

    assert (code, out.endswith("index.html\n"), err.count("\n")) == (0, True, 2)  # and what comes next
    assert f"{own}: Dagster has no record of this and may show it as missing" in err


LETTERS = dg.StaticPartitionsDefinition(["a", "b"])


@dg.asset(partitions_def=LETTERS)
def letter():
    pass


@dg.asset
def board():
    print("logged")


@dg.asset(partitions_def=corpus_shard_keys)
def corpus_shards():
    pass


@dg.job
def nothing():
    """A job of no steps."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of an instance; to make one takes seconds."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def instance():
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


def test_prune_runs_keeps_those_of_shards_only_while_they_are_partitions(instance):
    keys = [f"large~12345678~{number:04}" for number in range(3)]
    instance.add_dynamic_partitions("corpus_shards", keys)
    runs = [made(instance, corpus_shards, key) for key in keys]
    instance.delete_dynamic_partition("corpus_shards", keys[0])

    assert prune_runs(instance, days=90, now=datetime.now(UTC) + timedelta(days=91)) == [runs[0]]


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
