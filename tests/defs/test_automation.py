"""What runs by itself: each new or edited thing once, nothing that the files already show, one aggregation afterwards."""

import json
from datetime import UTC, datetime

import dagster as dg
import pytest

from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.automation import (
    REQUESTS_PER_TICK,
    aggregation_sensor,
    nightly,
    recheck,
    workspace_sensor,
)
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.passes import evaluate

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def tick(workspace, instance):
    """Evaluates the sensor as the daemon does: its cursor is kept, its partitions are made."""
    cursor = None

    def run():
        nonlocal cursor
        context = dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"workspace": WorkspaceResource(root=str(workspace.root))}
        )
        result = workspace_sensor(context)
        cursor = result.cursor
        for request in result.dynamic_partitions_requests:
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    instance.delete_dynamic_partition(request.partitions_def_name, key)
        return sorted(f"{request.job_name} {request.partition_key}" for request in result.run_requests)

    return run


PAIRS = [
    f"evaluate {benchmark}|{system}" for benchmark in (OBSERVATORY, RAILWAY) for system in ("embedded", "embedded-weak")
]


def test_converted_benchmarks_are_evaluated_once(tick, instance):
    assert tick() == PAIRS
    assert tick() == []
    assert instance.get_dynamic_partitions("benchmarks") == [OBSERVATORY, RAILWAY]
    assert instance.get_dynamic_partitions("systems") == ["embedded", "embedded-weak"]


def test_a_new_instance_folder_asks_nobody_again(workspace, tick):
    for system in ("embedded", "embedded-weak"):
        for benchmark in (OBSERVATORY, RAILWAY):
            evaluate(workspace, load_pair(workspace, benchmark, system))

    assert tick() == []


def test_an_edited_benchmark_is_converted_again_and_not_evaluated_before(workspace, tick):
    tick()
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(spec.read_text() + "\n# edited\n")

    assert tick() == [f"convert {RAILWAY}"]
    assert tick() == []


def test_a_dataset_that_was_lost_is_made_again_under_another_run_key(workspace, tick, instance):
    resources = {"workspace": WorkspaceResource(root=str(workspace.root))}
    stamp = workspace.benchmark(RAILWAY).stamp
    keys, cursor = [], None
    for _ in range(2):
        content = stamp.read_bytes()
        stamp.unlink()
        for _ in range(2):  # asked for, then waited for
            result = workspace_sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources))
            cursor = result.cursor
            keys += [request.run_key for request in result.run_requests if request.job_name == "convert"]
        stamp.write_bytes(content)
        result = workspace_sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources))
        cursor = result.cursor

    assert len(keys) == len(set(keys)) == 2


def test_what_is_being_converted_is_neither_converted_twice_nor_evaluated(workspace, tick, instance):
    run = instance.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": RAILWAY})

    assert tick() == [pair for pair in PAIRS if RAILWAY not in pair]
    workspace.benchmark(RAILWAY).stamp.unlink()
    assert tick() == []
    instance.delete_run(run.run_id)
    assert tick() == [f"convert {RAILWAY}"]


def test_an_evaluation_that_failed_is_asked_for_again_after_a_new_conversion(workspace, tick):
    tick()

    workspace.benchmark(RAILWAY).stamp.touch()

    assert tick() == [pair for pair in PAIRS if RAILWAY in pair]


def test_a_new_benchmark_gets_a_partition_and_a_conversion_in_one_tick(workspace, tick, instance):
    tick()
    folder = workspace.sources / "new"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text("name: new\n")

    assert tick() == ["convert new"]
    assert "new" in instance.get_dynamic_partitions("benchmarks")


def test_a_removed_benchmark_loses_its_partition(workspace, tick, instance):
    tick()
    workspace.benchmark(RAILWAY).spec.unlink()

    assert tick() == []
    assert instance.get_dynamic_partitions("benchmarks") == [OBSERVATORY]


def test_a_new_system_is_evaluated_on_every_benchmark(workspace, tick):
    tick()
    workspace.system_file("third").write_text("kind: embedded\n")

    assert tick() == [f"evaluate {OBSERVATORY}|third", f"evaluate {RAILWAY}|third"]


@pytest.mark.parametrize("text", ["kind: embedded\nnightly: false\n", "kind: embedded\nbenchmarks: [other]\n"])
def test_a_system_that_stays_out_is_a_partition_and_never_asked(text, workspace, tick, instance):
    tick()
    workspace.system_file("third").write_text(text)

    assert tick() == []
    assert "third" in instance.get_dynamic_partitions("systems")


def test_a_broken_system_file_holds_up_nobody(workspace, tick):
    workspace.system_file("broken").write_text("kind: [")

    assert tick() == PAIRS


def test_a_tick_asks_for_a_limited_number_of_runs(workspace, tick):
    for number in range(REQUESTS_PER_TICK):
        workspace.system_file(f"s{number:02d}").write_text("kind: embedded\n")

    assert [len(tick()) for _ in range(4)] == [REQUESTS_PER_TICK, REQUESTS_PER_TICK, 4, 0]


def test_run_keys_are_the_same_for_the_same_content(workspace, instance):
    resources = {"workspace": WorkspaceResource(root=str(workspace.root))}
    ticks = [workspace_sensor(dg.build_sensor_context(instance=instance, resources=resources)) for _ in range(2)]

    first, second = ([request.run_key for request in result.run_requests] for result in ticks)
    assert first == second
    assert json.loads(ticks[0].cursor)["asked"].keys() == {
        f"evaluate:{pair.removeprefix('evaluate ')}" for pair in PAIRS
    }


def test_every_night_asks_for_each_converted_pair(workspace):
    workspace.benchmark(OBSERVATORY).stamp.unlink()
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 11, 21, 2, tzinfo=UTC),
        resources={"workspace": WorkspaceResource(root=str(workspace.root))},
    )

    requests = nightly(context)

    assert [(r.run_key, str(r.partition_key), r.tags["night"]) for r in requests] == [
        (f"2026-11-21:{RAILWAY}|{system}", f"{RAILWAY}|{system}", "2026-11-21")
        for system in ("embedded", "embedded-weak")
    ]


def test_pages_are_looked_at_again_each_night_where_a_benchmark_asks_for_it(workspace):
    paths = workspace.benchmark(RAILWAY)
    with paths.spec.open("a") as spec:
        spec.write("recheck: nightly\n")
    stamp = Stamp.read(paths.stamp)
    stamp.model_copy(update={"source_digest": source_digest(paths)}).write(paths.stamp)
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 11, 21, 1, tzinfo=UTC),
        resources={"workspace": WorkspaceResource(root=str(workspace.root))},
    )

    [request] = recheck(context)

    assert (request.run_key, request.partition_key) == (f"2026-11-21:recheck:{RAILWAY}", RAILWAY)
    assert request.run_config == {"ops": {"corpus": {"config": {"recheck": True}}}}
    assert dg.validate_run_config(defs.resolve_job_def("convert"), request.run_config)


def test_one_aggregation_when_results_are_new_and_nothing_runs(instance):
    def evaluate_tick(cursor=None):
        return aggregation_sensor(dg.build_sensor_context(instance=instance, cursor=cursor))

    nothing = evaluate_tick()
    report_results(instance)
    first = evaluate_tick()
    second = evaluate_tick(first.cursor)
    report_results(instance)
    third = evaluate_tick(first.cursor)

    assert [result.skip_message for result in (nothing, second)] == ["no new results"] * 2
    assert len(first.run_requests) == len(third.run_requests) == 1
    assert first.run_requests[0].run_key != third.run_requests[0].run_key


def test_no_aggregation_while_a_run_is_not_finished(instance):
    report_results(instance)
    instance.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED)

    assert aggregation_sensor(dg.build_sensor_context(instance=instance)).skip_message == "1 runs are not finished"


def report_results(instance):
    instance.report_runless_asset_event(dg.AssetMaterialization("evaluation_results"))


def _job():
    @dg.job
    def anything():
        pass

    return anything
