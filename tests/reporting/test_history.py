"""Which evaluation of a pair is shown, and which of its questions first."""

import json
import shutil

import pytest

from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.reporting.history import read_header, read_history
from rag_eval_pipeline.reporting.results_headers import HeaderFault

OBSERVATORY = "cairnmoor-observatory"  # 16 questions


def evaluated(workspace, system="embedded"):
    _, published = evaluate(workspace, load_pair(workspace, OBSERVATORY, system))
    return published.evaluation_id


def edit(path, change):
    results = json.loads(path.read_text())
    change(results)
    path.write_text(json.dumps(results))


def test_the_newest_evaluation_is_the_last_by_its_time_whatever_its_name(workspace):
    ids = [evaluated(workspace) for _ in range(3)]
    times = ("2026-11-21T02:00:00Z", "2026-11-23T02:00:00Z", "2026-11-22T04:00:00+02:00")
    for name, time in zip(ids, times, strict=True):
        edit(results_path(workspace, name), lambda results, time=time: results.update(timestamp=time))

    history = read_history(workspace)

    assert [h.evaluation_id for h in history.by_pair[OBSERVATORY, "embedded"]] == [ids[0], ids[2], ids[1]]
    assert [header.evaluation_id for header in history.newest()] == [ids[1]]


def test_a_copy_under_another_name_is_no_second_evaluation(workspace):
    name = evaluated(workspace)
    copy = workspace.results / "eval_run_20991231_001.results.json"
    shutil.copy(results_path(workspace, name), copy)

    history = read_history(workspace)

    assert [header.evaluation_id for header in history.by_pair[OBSERVATORY, "embedded"]] == [name]
    assert [line.partition(":")[0] for line in history.damaged] == [str(copy)]


def test_a_benchmark_that_is_gone_is_gone_from_the_history(workspace):
    evaluated(workspace)
    shutil.rmtree(workspace.benchmark(OBSERVATORY).source)

    assert read_history(workspace).by_pair == {}


@pytest.mark.parametrize("level", ["page", "document"])
def test_a_figure_of_retrieval_is_of_the_level_to_look_at_first(level, workspace):
    path = results_path(workspace, evaluated(workspace))

    def change(results):
        results["retrieval_level"] = level
        results["retrieval_metrics"]["hit@1"]["value"] = 0.25
        results["page_retrieval_metrics"]["hit@1"]["value"] = 0.75

    edit(path, change)

    assert read_header(path).metric("hit@1").value == {"page": 0.75, "document": 0.25}[level]
    assert read_header(path).metric("hit@7").reason == "not_measured"


@pytest.mark.parametrize("limits", ["soon", [1.0], {"low": 1.0, "high": 2.0}], ids=str)
def test_limits_that_are_no_two_numbers_are_damage(limits, workspace):
    path = results_path(workspace, evaluated(workspace))

    def change(results):
        results["performance_metrics"]["latency_intervals"]["p50"] = limits

    edit(path, change)

    with pytest.raises(HeaderFault, match=rf"{path.name}: expected a results file, found: .*\[corrupt_result\]"):
        read_header(path)
