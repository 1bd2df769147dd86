"""Assets through Dagster: metadata people look at, checks a partition each, and faults in one line."""

import json
import logging

import dagster as dg
import pytest

from rag_eval_pipeline.corpus.manifest import read_planned
from rag_eval_pipeline.defs import conversion, evaluation
from rag_eval_pipeline.defs.metadata import png_image
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.lock import locked

RAILWAY = "skarn-railway"
CONVERSION = [asset for asset in vars(conversion).values() if isinstance(asset, dg.AssetsDefinition)]


def metadata(result, asset):
    events = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in events[-1].metadata.items()}


def fault(result):
    (event,) = result.get_step_failure_events()
    return event.step_key, event.step_failure_data.user_failure_data.description


def test_convert_evaluate_aggregate(run):
    converted = run("convert", RAILWAY)
    evaluated = run("evaluate", pair_key(RAILWAY, "embedded"))
    aggregated = run("aggregate")

    assert (converted.success, evaluated.success, aggregated.success) == (True, True, True)
    checks = converted.get_asset_check_evaluations()
    assert {check.check_name for check in checks} >= {"rows_conserved", "every_gold_document_on_disk"}
    assert all(check.passed and check.partition == RAILWAY for check in checks)
    assert metadata(converted, "train_json")["accepted"] == 40.0
    corpus = metadata(converted, "corpus")
    assert corpus["new_or_changed"] == corpus["quarantined"] == corpus["drifted"] == 0.0
    assert all(corpus[name] > 0 for name in ("documents", "pages", "bytes"))
    assert corpus["slowest"] == "none"  # nothing was made this time
    assert corpus["first_pages"].startswith("![first pages](data:image/png;base64,")
    assert len(corpus["first_pages"]) <= 200_000
    assert metadata(evaluated, "responses")["asked"] == 40.0
    assert 0 < metadata(evaluated, "evaluation_results")["F1"] < 1
    board = metadata(aggregated, "leaderboard")
    assert board[f"F1/{RAILWAY}/embedded"] == metadata(evaluated, "evaluation_results")["F1"]
    assert board["chart"].startswith("![F1 by benchmark and system](data:image/svg+xml;base64,")
    assert "\n" not in board["chart"]


def test_assets_name_unknown_retrieved_documents(run, workspace, instance):
    folder = workspace.config / "systems"
    rows = [{"id": str(n), "answer": f"x{n}", "contexts": [{"document": "kb/Line opening"}]} for n in range(40)]
    (folder / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "recorded.config.yaml").write_text("kind: replay\nsettings: {path: recorded.jsonl}\n")
    instance.add_dynamic_partitions(systems.name, ["recorded"])

    evaluated = run("evaluate", pair_key(RAILWAY, "recorded"))

    sentence = (
        "0 of 40 retrieved passages name a document of the corpus, so retrieval is not scored [unknown_documents]. "
        "Returned: 'kb/Line opening'; the corpus has 'line-opening.pdf'. Check the document names in the recording; ids "
        "and titles are mapped to files by contexts.names."
    )
    (check,) = [c for c in evaluated.get_asset_check_evaluations() if c.check_name == "retrieved_documents_known"]
    assert (evaluated.success, check.passed, check.severity) == (True, False, dg.AssetCheckSeverity.WARN)
    assert check.metadata["warning"].value == sentence
    assert metadata(evaluated, "evaluation_results")["warnings"] == sentence


def test_excluded_pair_is_skipped_by_each_asset_whether_its_benchmark_is_converted_or_not(run, workspace, instance):
    workspace.system_file("third").write_text("kind: embedded\nbenchmarks: [other]\n")
    instance.add_dynamic_partitions(systems.name, ["third"])
    pair = pair_key(RAILWAY, "third")
    resources = {"workspace": WorkspaceResource(root=str(workspace.root))}
    workspace.benchmark(RAILWAY).stamp.unlink()

    whole = run("evaluate", pair)
    alone = [
        dg.materialize([asset], instance=instance, partition_key=pair, resources=resources, raise_on_error=False)
        for asset in vars(evaluation).values()
        if isinstance(asset, dg.AssetsDefinition)
    ]

    assert len(alone) == 6
    for result in (whole, *alone):
        assert result.success
        assert not result.get_asset_materialization_events()
        warnings = [log.user_message for log in instance.all_logs(result.run_id) if log.level == logging.WARNING]
        assert [text.partition(": ")[0] for text in warnings] == ["Skipped"]
        assert "third.config.yaml" in warnings[0]
        assert "[excluded_benchmark]" in warnings[0]
    assert not (workspace.evaluations / f"{RAILWAY}.third").exists()


def test_log_has_a_line_on_each_document_and_a_warning_on_each_that_is_missing(run, workspace, instance):
    paths = workspace.benchmark(RAILWAY)
    first, second = sorted(path.name for path in paths.corpus.iterdir())[:2]
    (paths.corpus / first).unlink()
    (paths.corpus / second).write_bytes(b"altered")
    rows = read_planned(paths.planned, base=paths.source)
    body = next(row.path for row in rows if row.names[0].name == second)
    body.write_bytes(b"")

    result = run("convert", RAILWAY)

    logs = instance.all_logs(result.run_id)
    said = [(log.level, log.user_message) for log in logs if log.step_key == "corpus" and not log.dagster_event]
    assert [level for level, text in said if text.startswith(f"{first}: unchanged, ")] == [logging.INFO]
    assert [level for level, text in said if text.endswith("[empty_body]")] == [logging.WARNING]
    assert any(text.startswith(f"corpus of {RAILWAY}: ") for _, text in said)


def test_picture_that_cannot_be_drawn_is_a_reason_and_no_failure():
    def draw():
        raise FileNotFoundError(2, "No such file or directory", "a.pdf")

    assert png_image(draw, "first pages").value == "not drawn: [Errno 2] No such file or directory: 'a.pdf'"


def test_failed_blocking_check_ends_the_run_and_leaves_no_stamp(run, workspace):
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(spec.read_text().replace("questions: 40", "questions: 41"))

    result = run("convert", RAILWAY)

    assert not result.success
    assert [check.check_name for check in result.get_asset_check_evaluations() if not check.passed] == [
        "counts_as_expected"
    ]
    assert not workspace.benchmark(RAILWAY).stamp.exists()
    step, text = fault(run("evaluate", pair_key(RAILWAY, "embedded")))
    assert step == "responses"
    assert "[not_converted]" in text


def test_conversion_by_hand_is_refused_between_the_steps_of_a_run(run, workspace, instance, resources):
    lock = workspace.benchmark(RAILWAY).lock
    refusals = []

    @dg.asset(partitions_def=benchmarks, deps=["corpus"])
    def by_hand():
        with pytest.raises(ServiceError) as refused, locked(lock, holder="test", exclusive=True, wait_seconds=0):
            pass
        refusals.append(str(refused.value))

    result = dg.materialize(
        [*CONVERSION, by_hand],
        instance=instance,
        partition_key=RAILWAY,
        resources=resources,
    )

    assert result.success
    [refusal] = refusals
    assert f"is in use by run {result.run_id[:8]} of {RAILWAY}, process " in refusal


@pytest.mark.parametrize("selection", [["questions"], ["corpus_text", "train_json"]], ids=str)
def test_lock_is_free_after_the_last_step_of_a_run(selection, run, workspace, instance, resources):
    result = dg.materialize(
        CONVERSION,
        selection=selection,
        instance=instance,
        partition_key=RAILWAY,
        resources=resources,
    )

    assert result.success
    with locked(workspace.benchmark(RAILWAY).lock, holder="test", exclusive=True, wait_seconds=0):
        pass


def test_lock_is_free_after_a_run_that_failed(run, workspace):
    paths = workspace.benchmark(RAILWAY)
    spec = paths.spec.read_text()
    for change in (spec.replace("questions: 40", "questions: 41"), spec + "nonsense: 1\n"):
        paths.spec.write_text(change)

        assert not run("convert", RAILWAY).success

        with locked(paths.lock, holder="test", exclusive=True, wait_seconds=0):
            pass


FAULTS = {
    "a partition without a folder": ("convert", "broken", "questions", "[no_benchmark]"),
    "a benchmark without a folder": ("evaluate", pair_key("broken", "embedded"), "responses", "[no_benchmark]"),
    "a system without a file": ("evaluate", pair_key(RAILWAY, "nobody"), "responses", "[no_system]"),
}


@pytest.mark.parametrize(("job", "partition", "step", "code"), FAULTS.values(), ids=FAULTS)
def test_faults_are_one_line(job, partition, step, code, run):
    found, text = fault(run(job, partition))

    assert found == step
    assert code in text
    assert "\n" not in text.strip()
