"""Sensors and schedules: new and edited files are requested once, results are aggregated once, nights are complete."""

import errno
import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml

from rag_eval_pipeline.clock import NOW_VARIABLE
from rag_eval_pipeline.conversion.stamp import Stamp, source_digest
from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import evaluation
from rag_eval_pipeline.defs.partitions import PARTITION_TAG, pair_key
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.runless_events import DATA_VERSION
from rag_eval_pipeline.defs.schedules import nightly, recheck
from rag_eval_pipeline.defs.sensors import (
    MAX_REQUESTS_PER_TICK,
    aggregation_sensor,
    confirmation_sensor,
    run_failure_alerts,
    workspace_sensor,
)
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.baseline_files import baseline_file
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation, published_evaluations
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.monitoring.alert_files import read_alerts
from tests.defs.test_aggregation import failure_context
from tests.paid_server import set_system

VERSIONED = ("evaluation_dataset", "ground_truth")
RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
PAIRS = [
    f"evaluate {benchmark}|{system}" for benchmark in (OBSERVATORY, RAILWAY) for system in ("embedded", "embedded-weak")
]


@pytest.fixture(scope="module")
def _stored(tmp_path_factory, revisions_read_once):
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("instance"))) as instance:
        yield instance


@pytest.fixture
def stored(_stored):
    """An instance on the disk without partitions: a schedule's tick needs one."""
    for name in ("benchmarks", "systems"):
        for partition in _stored.get_dynamic_partitions(name):
            _stored.delete_dynamic_partition(name, partition)
    return _stored


@pytest.fixture
def make_tick(instance):
    """Makes a function that evaluates the sensor as the daemon does: its cursor is kept, its partitions are made."""

    def make(workspace):
        cursor = None

        def run():
            nonlocal cursor
            resources = {"workspace": WorkspaceResource(root=str(workspace.root))}
            context = dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources)
            run.result = result = workspace_sensor(context)
            cursor = result.cursor
            for event in result.asset_events:
                instance.report_runless_asset_event(event)
            for request in result.dynamic_partitions_requests:
                if isinstance(request, dg.AddDynamicPartitionsRequest):
                    instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
                else:
                    for key in request.partition_keys:
                        instance.delete_dynamic_partition(request.partitions_def_name, key)
            return sorted(f"{request.job_name} {request.partition_key}" for request in result.run_requests or ())

        return run

    return make


@pytest.fixture
def tick(make_tick, workspace):
    return make_tick(workspace)


def test_workspace_sensor_evaluates_converted_benchmarks_once(tick, instance):
    assert [tick(), tick()] == [PAIRS, []]
    assert instance.get_dynamic_partitions("benchmarks") == [OBSERVATORY, RAILWAY]
    assert instance.get_dynamic_partitions("systems") == ["embedded", "embedded-weak"]


def test_workspace_sensor_requests_nothing_that_results_show(make_tick, evaluated):
    assert make_tick(evaluated)() == []


def test_workspace_sensor_reports_once_what_was_made_without_dagster(make_tick, evaluated, instance):
    """Else a backfill of what is missing would ask all questions again."""
    tick = make_tick(evaluated)
    counts = [(tick(), len(tick.result.asset_events))[1] for _ in range(2)]
    restarted = make_tick(evaluated)
    restarted()

    n_assets, pairs = 6, {pair.removeprefix("evaluate ") for pair in PAIRS}
    assert counts == [n_assets * (2 + len(pairs)), 0]
    assert restarted.result.asset_events == []
    for asset in ("questions", "ground_truth"):
        assert instance.get_materialized_partitions(dg.AssetKey(asset)) == {OBSERVATORY, RAILWAY}
    for asset in ("responses", "judge_scores", "evaluation_results"):
        assert instance.get_materialized_partitions(dg.AssetKey(asset)) == pairs
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))
    tick()
    assert {event.partition for event in tick.result.asset_events} == {f"{RAILWAY}|embedded"}


def test_workspace_sensor_reports_what_a_run_would(make_tick, workspace, instance, run):
    """The same numbers and data versions, and nothing of what a run reports itself."""
    pair, tick = f"{RAILWAY}|embedded", make_tick(workspace)
    evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
    tick()
    reported = {event.asset_key: event for event in tick.result.asset_events if event.partition in (RAILWAY, pair)}
    os.utime(workspace.benchmark(RAILWAY).stamp)
    unfinished = instance.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED, tags={PARTITION_TAG: RAILWAY})
    tick()
    assert tick.result.asset_events == []
    instance.delete_run(unfinished.run_id)

    made = run("convert", RAILWAY), run("evaluate", pair_key(RAILWAY, "embedded"))

    tick()
    assert tick.result.asset_events == []
    [newest] = {event.metadata["evaluation_id"].value for event in reported.values() if event.partition == pair}
    for of_run in (event.materialization for result in made for event in result.get_asset_materialization_events()):
        without = reported[of_run.asset_key]
        numbers = {name: value for name, value in without.metadata.items() if isinstance(value.value, int | float)}
        changed = {"new_or_changed", "Latency p50 (ms)"}  # of a conversion that had made nothing, and of other answers
        assert {name: of_run.metadata[name] for name in numbers if name not in changed} == {
            name: value for name, value in numbers.items() if name not in changed
        }
        of_conversion = None if of_run.asset_key.path[-1] not in VERSIONED else of_run.tags[DATA_VERSION]
        assert without.tags.get(DATA_VERSION) == (newest if without.partition == pair else of_conversion)


def test_workspace_sensor_converts_an_edited_benchmark_before_evaluating_it(workspace, tick):
    tick()
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(spec.read_text() + "\n# edited\n")

    assert [tick(), tick()] == [[f"convert {RAILWAY}"], []]


def test_workspace_sensor_remakes_a_deleted_dataset_under_a_new_run_key(workspace, tick):
    stamp = workspace.benchmark(RAILWAY).stamp
    content = stamp.read_bytes()
    keys = []
    for _ in range(2):
        stamp.unlink()
        for _ in range(2):  # requested, then waited for
            tick()
            keys += [one.run_key for one in tick.result.run_requests or () if one.job_name == "convert"]
        stamp.write_bytes(content)
        tick()

    assert len(keys) == len(set(keys)) == 2


def test_workspace_sensor_leaves_a_running_conversion_alone(workspace, tick, instance):
    run = instance.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": RAILWAY})

    assert tick() == [pair for pair in PAIRS if RAILWAY not in pair]
    workspace.benchmark(RAILWAY).stamp.unlink()
    assert tick() == []
    instance.delete_run(run.run_id)
    assert tick() == [f"convert {RAILWAY}"]


def test_workspace_sensor_follows_benchmarks_and_systems_that_come_and_go(workspace, tick, instance):
    tick()
    workspace.benchmark(RAILWAY).stamp.touch()  # a new conversion
    assert tick() == [pair for pair in PAIRS if RAILWAY in pair]
    away = workspace.root / "away"
    shutil.move(workspace.benchmark(RAILWAY).source, away)
    assert tick() == []
    assert instance.get_dynamic_partitions("benchmarks") == [OBSERVATORY]
    shutil.move(away, workspace.benchmark(RAILWAY).source)
    assert tick() == [pair for pair in PAIRS if RAILWAY in pair]
    folder = workspace.sources / "new"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text("name: new\n")
    assert tick() == ["convert new"]
    assert "new" in instance.get_dynamic_partitions("benchmarks")
    workspace.system_file("third").write_text("kind: embedded\n")
    assert tick() == [f"evaluate {OBSERVATORY}|third", f"evaluate {RAILWAY}|third"]


@pytest.mark.parametrize("text", ["kind: embedded\nnightly: false\n", "kind: embedded\nbenchmarks: [other]\n"])
def test_workspace_sensor_never_evaluates_a_system_that_opts_out(text, workspace, tick, instance):
    workspace.system_file("third").write_text(text)

    assert tick() == PAIRS
    assert "third" in instance.get_dynamic_partitions("systems")


def test_workspace_sensor_names_systems_of_which_nobody_has_said_whether_they_are_nightly(workspace, tick):
    workspace.system_file("third").write_text("kind: python\nsettings: {callable: 'mine:answer'}\n")
    workspace.system_file("fourth").write_text("kind: embedded\nnightly: false\n")
    tick()
    tick()

    assert tick.result.skip_reason.skip_message == (
        "nothing new (benchmarks: 2, systems: 4); third is not nightly: set `nightly: true` in "
        "data/config/systems/third.config.yaml"
    )


def test_workspace_sensor_names_skipped_files_in_each_tick_and_evaluates_the_others(workspace, tick):
    workspace.system_file("broken").write_text("kind: [")
    (workspace.config / "systems" / "mine.yaml").write_text("kind: embedded\n")
    (workspace.sources / "My Bench").mkdir()
    (workspace.sources / "My Bench" / "benchmark.yaml").write_text("name: mine\n")
    assert tick() == PAIRS

    for _ in range(2):
        assert tick() == []
        for part in ("broken.config.yaml", "[bad_yaml]", "mine.yaml", "data/sources/My Bench", "[bad_name]"):
            assert part in tick.result.skip_reason.skip_message


def test_workspace_sensor_names_a_file_that_cannot_be_read_and_goes_on_with_the_others(workspace, tick, monkeypatch):
    file, opened = workspace.benchmark(RAILWAY).source / "notes.csv", Path.open
    file.write_text("a note\n")

    def refuse(path, *arguments, **options):
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        requested = tick()
        added = {key for change in tick.result.dynamic_partitions_requests for key in change.partition_keys}
        again = tick()

    assert requested == [f"evaluate {OBSERVATORY}|{system}" for system in ("embedded", "embedded-weak")]
    assert RAILWAY in added
    assert (again, tick.result.dynamic_partitions_requests) == ([], [])
    line = (
        f"data/sources/{RAILWAY}/notes.csv: expected a place to read and write, found 'Permission denied' [os_error]."
    )
    assert tick.result.skip_reason.skip_message.endswith(f"skipped: {line}")
    assert tick() == [f"convert {RAILWAY}"]


def test_workspace_sensor_requests_a_broken_benchmark_once_for_each_error(workspace, tick):
    tick()
    folder = workspace.sources / "broken"
    folder.mkdir()
    for text in ("name: [", "title: no name\n", "\x00"):
        (folder / "benchmark.yaml").write_text(text)

        assert [tick(), tick()] == [["convert broken"], []]


def test_workspace_sensor_repeats_a_cancelled_run_only_after_an_edit(workspace, tick, instance):
    tick()
    instance.create_run_for_job(
        _job("evaluate"), status=dg.DagsterRunStatus.CANCELED, tags={"dagster/partition": f"{RAILWAY}|embedded"}
    )

    assert tick() == []
    with workspace.system_file("embedded").open("a") as file:
        file.write("# edited\n")
    assert tick() == [f"evaluate {OBSERVATORY}|embedded", f"evaluate {RAILWAY}|embedded"]


@pytest.mark.parametrize("status", ["FAILURE", "CANCELED"])
def test_workspace_sensor_repeats_no_night_that_failed_or_was_cancelled(status, paid, server, tick, instance):
    """The run is of another sensor or schedule, or of a person; the earlier evaluation of the pair is published."""
    server.refused = {len(server.asked)}
    with pytest.raises(ServiceError):
        evaluate(paid, load_pair(paid, RAILWAY, "paid"))
    instance.create_run_for_job(
        _job("evaluate"), status=dg.DagsterRunStatus[status], tags={PARTITION_TAG: f"{RAILWAY}|paid"}
    )

    assert [tick(), tick()] == [[], []]
    with paid.system_file("paid").open("a") as file:
        file.write("# edited\n")
    assert f"evaluate {RAILWAY}|paid" in tick()


def test_workspace_sensor_limits_the_requests_of_a_tick(workspace, tick, instance):
    tick()
    for number in range(2 * MAX_REQUESTS_PER_TICK):
        folder = workspace.sources / f"b{number:03d}"
        folder.mkdir()
        (folder / "benchmark.yaml").write_text("name: x\n")

    requested = [tick() for _ in range(3)]

    assert [len(one) for one in requested] == [MAX_REQUESTS_PER_TICK] * 2 + [0]
    assert len(set(sum(requested, []))) == 2 * MAX_REQUESTS_PER_TICK
    assert len(instance.get_dynamic_partitions("benchmarks")) == 2 * MAX_REQUESTS_PER_TICK + 2


def test_workspace_sensor_gives_equal_content_equal_run_keys(make_tick, workspace):
    keys = []
    for _ in range(2):
        tick = make_tick(workspace)  # a killed tick leaves no cursor
        tick()
        keys.append([request.run_key for request in tick.result.run_requests])

    assert keys[0] == keys[1]
    assert json.loads(tick.result.cursor)["asked"].keys() == {
        f"evaluate:{pair.removeprefix('evaluate ')}" for pair in PAIRS
    }


def schedule_context(workspace, stored):
    return dg.build_schedule_context(
        instance=stored,
        scheduled_execution_time=datetime(2026, 11, 21, 2, tzinfo=UTC),
        resources={"workspace": WorkspaceResource(root=str(workspace.root))},
    )


def test_nightly_requests_each_converted_pair_beside_a_broken_file_and_adds_missing_partitions(workspace, stored):
    workspace.benchmark(OBSERVATORY).stamp.unlink()
    workspace.system_file("broken").write_text("kind: [")

    requests = nightly(schedule_context(workspace, stored))

    assert [(r.run_key, str(r.partition_key), r.tags["night"]) for r in requests] == [
        (f"2026-11-21:{RAILWAY}|{system}", f"{RAILWAY}|{system}", "2026-11-21")
        for system in ("embedded", "embedded-weak")
    ]
    # A request for a partition that Dagster does not know fails the tick, and with it every pair's night.
    assert {"embedded", "embedded-weak"} <= set(stored.get_dynamic_partitions("systems"))
    assert set(stored.get_dynamic_partitions("benchmarks")) == {RAILWAY, OBSERVATORY}


def test_schedules_give_a_reason_when_they_request_nothing(workspace, stored):
    for name in (RAILWAY, OBSERVATORY):
        workspace.benchmark(name).stamp.unlink()

    assert nightly(schedule_context(workspace, stored)).skip_message == "no converted benchmark has a nightly system"
    assert recheck(schedule_context(workspace, stored)).skip_message == "no converted benchmark has recheck: nightly"


def test_recheck_requests_benchmarks_that_ask_for_it(workspace, stored):
    paths = workspace.benchmark(RAILWAY)
    with paths.spec.open("a") as spec:
        spec.write("recheck: nightly\n")
    stamp = Stamp.read(paths.stamp)
    stamp.model_copy(update={"source_digest": source_digest(paths)}).write(paths.stamp)
    [request] = recheck(schedule_context(workspace, stored))

    assert (request.run_key, request.partition_key) == (f"2026-11-21:recheck:{RAILWAY}", RAILWAY)
    assert request.run_config == {"ops": {"corpus": {"config": {"recheck": True}}}}
    assert dg.validate_run_config(defs.resolve_job_def("convert"), request.run_config)


@pytest.fixture
def aggregation_tick(workspace, instance):
    """Evaluates the sensor on the workspace's results."""

    def tick(cursor=None):
        resources = {"workspace": WorkspaceResource(root=str(workspace.root))}
        return aggregation_sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources))

    return tick


def test_aggregation_runs_once_for_new_results(workspace, aggregation_tick):
    nothing = aggregation_tick()
    publish_results(workspace)
    first = aggregation_tick(nothing.cursor)
    second = aggregation_tick(first.cursor)
    publish_results(workspace)
    third = aggregation_tick(second.cursor)

    assert [result.skip_reason.skip_message for result in (nothing, second)] == ["no new results"] * 2
    assert len(first.run_requests) == len(third.run_requests) == 1
    assert first.run_requests[0].run_key != third.run_requests[0].run_key


WAITS = {
    #                                   job that runs  minutes  aggregated
    "a run that goes on for long":      ("evaluate",   61,      True),
    "a run that began not long ago":    ("evaluate",   59,      False),
    "an aggregation never runs twice":  ("aggregate",  600,     False),
}  # fmt: skip


@pytest.mark.parametrize(("job", "minutes", "aggregated"), WAITS.values(), ids=WAITS)
def test_aggregation_waits_an_hour_at_most(
    job, minutes, aggregated, workspace, instance, aggregation_tick, monkeypatch
):
    publish_results(workspace)
    instance.create_run_for_job(_job(job), status=dg.DagsterRunStatus.STARTED)
    began = datetime(2026, 11, 21, 2, tzinfo=UTC)
    cursor = None
    for now in (began, began + timedelta(minutes=minutes)):
        monkeypatch.setenv(NOW_VARIABLE, now.isoformat())
        result = aggregation_tick(cursor)
        if cursor is None:
            assert result.skip_reason.skip_message == "new results wait: 1 run is not finished"
        cursor = result.cursor

    assert bool(result.run_requests) is aggregated


def test_aggregation_follows_removed_and_replaced_results(workspace, aggregation_tick):
    paths = [publish_results(workspace), publish_results(workspace)]
    before = aggregation_tick().cursor
    paths[0].unlink()
    removed = aggregation_tick(before)
    os.utime(paths[1], ns=(0, paths[1].stat().st_mtime_ns + 1))

    assert len(removed.run_requests) == len(aggregation_tick(removed.cursor).run_requests) == 1


def test_aggregation_follows_a_pinned_baseline(workspace, aggregation_tick):
    publish_results(workspace)
    before = aggregation_tick().cursor
    path = baseline_file(workspace, RAILWAY, "embedded")
    path.parent.mkdir(parents=True)
    path.write_text("{}")

    pinned = aggregation_tick(before)

    assert len(pinned.run_requests) == 1
    assert aggregation_tick(pinned.cursor).skip_reason.skip_message == "no new results"


def test_failed_aggregation_is_repeated_after_an_hour_until_one_succeeds(
    workspace, instance, aggregation_tick, monkeypatch
):
    def at(minutes, cursor):
        monkeypatch.setenv(
            NOW_VARIABLE, (datetime(2026, 11, 21, 2, tzinfo=UTC) + timedelta(minutes=minutes)).isoformat()
        )
        return aggregation_tick(cursor)

    publish_results(workspace)
    first = at(0, None)
    instance.create_run_for_job(_job("aggregate"), status=dg.DagsterRunStatus.FAILURE)
    early = at(59, first.cursor)
    second = at(60, early.cursor or first.cursor)
    third = at(120, second.cursor)
    instance.create_run_for_job(_job("aggregate"), status=dg.DagsterRunStatus.SUCCESS)
    last = at(180, third.cursor)

    assert early.skip_reason.skip_message == "the last aggregation failed; it is repeated an hour after its request"
    keys = [request.run_key for tick in (first, second, third) for request in tick.run_requests]
    assert len(set(keys)) == 3
    assert last.skip_reason.skip_message == "no new results"


def publish_results(workspace):
    """Write a results file; the sensor does not read it."""
    workspace.results.mkdir(parents=True, exist_ok=True)
    path = workspace.results / f"eval_run_20261121_{len(list(workspace.results.iterdir())) + 1:03d}.results.json"
    path.write_text("{}")
    return path


def _job(name="anything"):
    @dg.job(name=name)
    def job():
        pass

    return job


@pytest.fixture
def paid(workspace, server, tick):
    """A workspace whose one system is a paid server that takes part in nights, and is evaluated on both benchmarks."""
    for name in ("embedded", "embedded-weak"):
        workspace.system_file(name).unlink()
    set_system(workspace, server)
    for benchmark in (OBSERVATORY, RAILWAY):
        evaluate(workspace, load_pair(workspace, benchmark, "paid"))
    assert (tick(), server.asked.total()) == ([], 56)
    return workspace


def run_asked_for(workspace, instance, request):
    """Runs a request as the daemon does."""
    return defs.resolve_job_def(request.job_name or "evaluate").execute_in_process(
        instance=instance,
        partition_key=request.partition_key,
        run_config=request.run_config,
        tags=request.tags,
        resources={"workspace": WorkspaceResource(root=str(workspace.root))},
        raise_on_error=False,
    )


def set_defaults(workspace, **changes):
    path = workspace.defaults_config
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def test_changed_metric_or_judge_is_scored_on_stored_answers_until_the_next_night(paid, server, tick, instance, stored):
    both = [f"evaluate {OBSERVATORY}|paid", f"evaluate {RAILWAY}|paid"]
    set_defaults(paid, tolerance_chars=3)
    assert tick() == both
    for request in tick.result.run_requests:
        assert run_asked_for(paid, instance, request).success
    assert tick() == []
    set_defaults(paid, judge={"kind": "none"})
    assert tick() == both
    set_defaults(paid, measures=["no_such_measure@3"])
    assert [tick(), tick()] == [both, []]
    set_defaults(paid, measures=["hit@1"])
    assert (tick(), server.asked.total()) == (both, 56)

    small, _ = nightly(schedule_context(paid, stored))
    assert run_asked_for(paid, stored, small).success

    assert server.asked.total() == 56 + 16


@pytest.mark.parametrize("recovers", [True, False])
def test_void_night_is_asked_again_an_hour_later_three_times_at_most(
    recovers, paid, server, stored, resources, monkeypatch
):
    """It is no night of its own: the evaluation that nobody could answer is taken up again, and says so."""

    def at(time):
        monkeypatch.setenv(NOW_VARIABLE, f"2031-01-05T{time}:00Z")
        found = confirmation_sensor(dg.build_sensor_context(instance=stored, resources=resources))
        return [found.skip_message] if isinstance(found, dg.SkipReason) else found

    idle, pair = "no rerun is due", f"{RAILWAY}|paid"
    before = len(published_evaluations(paid, RAILWAY, "paid"))
    server.refused = {len(server.asked)}
    _, request = nightly(schedule_context(paid, stored))
    for time, early in (("02:00", "02:59"), ("03:00", "03:59"), ("04:00", "04:59"), ("05:00", "05:59")):
        assert at(time) == ([idle] if time == "02:00" else [request]), time
        result = run_asked_for(paid, stored, request)
        assert not result.success
        run_failure_alerts(failure_context(result, stored, resources))
        hour = f"{int(time[:2]) + 1:02}:00"
        waits = f"; {pair} is void and asked again at {hour} UTC" if time != "05:00" else ""
        assert at(early) == [idle + waits]
        [request] = at(hour)
        assert request == idle or request.partition_key == pair
        if time == "03:00" and recovers:
            server.refused = set()
            assert run_asked_for(paid, stored, request).success
            break

    [alert] = read_alerts(paid).alerts
    assert alert.error.endswith(" The night is void, and is asked again at 03:00 UTC.")
    assert alert.evaluation_id == newest_evaluation(paid, RAILWAY, "paid").record.evaluation_id
    assert len(published_evaluations(paid, RAILWAY, "paid")) == before + recovers
    assert at("12:00") == [idle]
    if recovers:
        [*_, note] = newest_evaluation(paid, RAILWAY, "paid").record.warnings
        assert note.startswith("void at 02:00 and 03:00 UTC (paid was not asked any more: 20 questions in a row failed")
        assert note.endswith("[failing]), asked again at 04:00: fine")


def test_score_asset_can_be_materialized_alone_after_a_changed_metric(paid, server, tick, instance, resources):
    set_defaults(paid, tolerance_chars=3)
    assets = [
        evaluation.retrieval_scores, evaluation.citation_scores, evaluation.answer_scores, evaluation.judge_scores,
        evaluation.evaluation_results,
    ]  # fmt: skip

    for some in (assets[:1], assets):
        pair = pair_key(RAILWAY, "paid")
        assert dg.materialize(some, instance=instance, partition_key=pair, resources=resources).success

    assert (tick(), server.asked.total()) == ([f"evaluate {OBSERVATORY}|paid"], 56)
