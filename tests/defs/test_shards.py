"""A large benchmark through Dagster: one run ends, a run for each shard, one that merges; nothing asked for twice."""

import json
import shutil

import dagster as dg
import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.shard_plan import read_shard_plan
from rag_eval_pipeline.conversion.shards import run_shard
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import sensors
from rag_eval_pipeline.defs.partitions import PARTITION_TAG, benchmarks
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.evaluation.expected_pairs import read_registry
from rag_eval_pipeline.monitoring.workspace_states import benchmark_states
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.test_shards import ASKED, NAME, make, planned, products, rows  # noqa: F401
from tests.defs.test_assets import CONVERSION

AFTER_QUESTIONS = ["corpus", "corpus_text", "train_json", "evaluation_dataset", "ground_truth"]


@pytest.fixture
def large(tmp_path, planned, instance):  # noqa: F811
    """A benchmark of nine documents whose corpus waits for three shards, in a workspace of its own."""
    shutil.copytree(planned.root, tmp_path / "large", symlinks=True)
    instance.add_dynamic_partitions(benchmarks.name, [NAME])
    return Workspace(tmp_path / "large")


@pytest.fixture
def run(large, instance):
    def execute(job, key, selection=None, config=None):
        if selection is not None:
            return dg.materialize(
                CONVERSION, instance=instance, partition_key=key, run_config=config,
                selection=dg.AssetSelection.assets(*selection),
                resources={"workspace": WorkspaceResource(root=str(large.root))},
            )  # fmt: skip
        return defs.resolve_job_def(job).execute_in_process(
            instance=instance, partition_key=key, asset_selection=selection, run_config=config or {},
            resources={"workspace": WorkspaceResource(root=str(large.root))}, raise_on_error=False,
        )  # fmt: skip

    return execute


@pytest.fixture
def tick(large, instance):
    """Evaluates the sensor as the daemon does: its cursor is kept, its partitions are made, its keys used once."""
    cursor, used = None, set()

    def evaluate():
        nonlocal cursor
        resources = {"workspace": WorkspaceResource(root=str(large.root))}
        context = dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources)
        evaluate.result = result = sensors.corpus_shards_sensor(context)
        cursor = result.cursor
        for request in result.dynamic_partitions_requests:
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    instance.delete_dynamic_partition(request.partitions_def_name, key)
        assert used.isdisjoint(one.run_key for one in result.run_requests)
        used.update(one.run_key for one in result.run_requests)
        return result.run_requests

    return evaluate


def partitions(instance):
    return instance.get_dynamic_partitions("corpus_shards")


def executed(result):
    return [event.step_key for event in result.all_events if event.event_type_value == "STEP_SUCCESS"]


def test_large_benchmark_is_converted_by_a_run_for_each_shard_and_one_that_merges(large, run, tick, instance, tmp_path):
    first = run("convert", NAME)
    shards = tick()
    assert (tick(), partitions(instance)) == ([], [one.partition_key for one in shards])
    made = [run(one.job_name, one.partition_key) for one in shards]
    [merge] = tick()
    rest = run(merge.job_name, merge.partition_key, merge.asset_selection, merge.run_config)
    assert [tick(), partitions(instance)] == [[], []]

    assert (first.success, executed(first)) == (True, ["questions", "corpus"])
    skipped = [event.step_key for event in first.all_events if event.event_type_value == "STEP_SKIPPED"]
    assert skipped == AFTER_QUESTIONS[1:]
    assert first.asset_materializations_for_node("corpus") == []
    assert [one.success for one in made] == [True] * 3
    assert (rest.success, executed(rest)) == (True, AFTER_QUESTIONS)
    assert {check.check_name for check in rest.get_asset_check_evaluations()} >= {"every_document_on_disk"}
    whole = make(tmp_path / "whole")
    convert(whole, NAME)
    assert products(large) == products(whole)


def test_shard_that_failed_is_requested_again_by_another_conversion_only(large, run, tick):
    first, second, failed = tick()
    for one in (first, second):
        run(one.job_name, one.partition_key)
    assert [tick(), tick()] == [[], []]
    assert tick.result.skip_reason.skip_message == f"{NAME}: 2 of 3 shards are made"

    run("convert", NAME)

    [again] = tick()
    assert again.partition_key == failed.partition_key


def test_plan_that_cannot_be_read_is_named_and_keeps_its_partitions(large, tick, instance):
    tick()
    before = partitions(instance)
    plan = large.benchmark(NAME).shards / "plan.json"
    plan.unlink()
    plan.mkdir()

    assert tick() == []
    assert f"{NAME}: " in tick.result.skip_reason.skip_message
    assert "plan.json" in tick.result.skip_reason.skip_message
    assert partitions(instance) == before != []


def test_second_conversion_of_one_source_requests_its_shards_and_merge_anew(large, run, tick):
    for one in tick():
        run_shard(large, one.partition_key)
    [merge] = tick()
    assert run("convert", NAME, merge.asset_selection, merge.run_config).success
    assert tick() == []
    shutil.rmtree(large.benchmark(NAME).dataset)

    run("convert", NAME)

    again = tick()
    assert len(again) == 3
    for one in again:
        run_shard(large, one.partition_key)
    assert [one.job_name for one in tick()] == ["convert"]


def test_shard_made_by_hand_is_merged_like_the_others(large, run, tick):
    for one in tick():
        run_shard(large, one.partition_key)

    assert [one.job_name for one in tick()] == ["convert"]


def test_merge_repeats_what_was_asked_for(large, run, tick):
    run("convert", NAME, config={"ops": {"corpus": {"config": {"recheck": True}}}})
    for one in tick():
        run_shard(large, one.partition_key)
    [merge] = tick()

    assert merge.run_config["ops"]["corpus"]["config"] == {"recheck": True, "accept": False}
    assert run("convert", NAME, merge.asset_selection, merge.run_config).success
    assert Stamp.read(large.benchmark(NAME).stamp).checks["corpus.documents_as_on_the_web"]


def test_shards_are_not_requested_while_a_conversion_holds_the_benchmark_or_is_queued(large, run, tick, instance):
    with locked(large.benchmark(NAME).lock, holder="rag-eval convert", exclusive=True):
        assert tick() == []
    job = defs.resolve_job_def("convert")
    queued = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={PARTITION_TAG: NAME})
    assert tick() == []
    instance.delete_run(queued.run_id)

    assert len(tick()) == 3


def test_requests_of_a_tick_are_limited(large, run, tick, monkeypatch):
    monkeypatch.setattr(sensors, "MAX_REQUESTS_PER_TICK", 2)

    assert [len(tick()) for _ in range(3)] == [2, 1, 0]


def test_shards_of_an_edited_source_end_without_a_word_of_failure(large, run, tick, instance):
    old = tick()
    (large.benchmark(NAME).source / "q.jsonl").write_text(rows(ASKED[:-1]))

    ended = run("convert_shard", old[0].partition_key)

    assert ended.success
    assert tick() == []
    assert partitions(instance) == []
    run("convert", NAME)
    assert len(tick()) == 3


def test_workspace_sensor_does_not_convert_what_is_made_in_shards(large, run, tick, instance):
    key = tick()[0].partition_key
    job = defs.resolve_job_def("convert_shard")
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={PARTITION_TAG: key})

    context = dg.build_sensor_context(
        instance=instance, resources={"workspace": WorkspaceResource(root=str(large.root))}
    )
    assert sensors.workspace_sensor(context).run_requests == []
    assert json.loads(sensors.workspace_sensor(context).cursor)["asked"] == {}
    assert read_shard_plan(large.benchmark(NAME)) is not None


def test_status_counts_the_shards_that_are_made(large, tick):
    run_shard(large, tick()[0].partition_key)

    [state] = benchmark_states(large, read_registry(large))

    assert (state.state, state.shards) == ("converting", "1 of 3 shards")
