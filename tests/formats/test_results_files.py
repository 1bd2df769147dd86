"""Published evaluations are listed, filtered, compared and never overwritten unasked."""

import json
from datetime import date

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.store import DatasetStore, ResultsFilter, compare_results
from tests.formats.result_values import metric, results_value


def results(evaluation_id="eval_run_20250830_001", **change):
    return EvaluationResults.model_validate_json(json.dumps(results_value(evaluation_id, **change)))


@pytest.fixture
def store(tmp_path):
    return DatasetStore(tmp_path)


@pytest.mark.parametrize("form", [".results.json", ".results.json.gz"])
def test_reading_gives_what_was_written(form, tmp_path):
    results().write(tmp_path / f"x{form}")

    assert EvaluationResults.read(tmp_path / f"x{form}") == results()


def test_nulls_are_written_because_readers_look_for_the_keys(tmp_path):
    results().write(tmp_path / "x.results.json")

    assert '"p_value": null' in (tmp_path / "x.results.json").read_text()


def test_saving_and_loading(store):
    path = store.save_evaluation_results(results())

    assert path == store.results / "eval_run_20250830_001.results.json"
    assert store.load_evaluation_results("eval_run_20250830_001") == results()


def test_the_same_results_are_written_once_and_others_refused_naming_the_fields(store):
    path = store.save_evaluation_results(results())
    before = path.stat().st_mtime_ns
    store.save_evaluation_results(results())
    assert path.stat().st_mtime_ns == before

    with pytest.raises(InputError) as error:
        store.save_evaluation_results(results(system_version="2", benchmark="y"))
    assert error.value.code == "results_conflict"
    assert "benchmark, system_version" in str(error.value)

    store.save_evaluation_results(results(system_version="2"), overwrite=True)
    assert store.load_evaluation_results("eval_run_20250830_001").system_version == "2"


@pytest.mark.parametrize("evaluation_id", ["../eval", "*", "eval_run_2025*", "", "eval/1"])
def test_an_evaluation_that_is_not_there(evaluation_id, store):
    store.save_evaluation_results(results())

    with pytest.raises(InputError) as error:
        store.load_evaluation_results(evaluation_id)
    assert error.value.code == "no_results"
    assert "eval_run_20250830_001" in str(error.value)


def test_an_id_that_can_be_no_file_name_is_not_saved(store):
    with pytest.raises(InputError) as error:
        store.save_evaluation_results(results("../x"))
    assert error.value.code == "bad_identifier"


def test_two_files_of_one_evaluation_are_ambiguous(store):
    results().write(store.results / "e.results.json")
    results().write(store.results / "e.results.json.gz")

    with pytest.raises(InputError) as error:
        store.load_evaluation_results("e")
    assert error.value.code == "ambiguous_results"


FILTERS = {
    #                            filter                                                        evaluations
    "all":                      (ResultsFilter(),                                              ["e1", "e2", "e3"]),
    "a dataset":                (ResultsFilter(dataset="x"),                                   ["e1", "e2"]),
    "a dataset with version":   (ResultsFilter(dataset="x_v2.0.0"),                            ["e2"]),
    "a system":                 (ResultsFilter(system="other"),                                ["e3"]),
    "from a day on":            (ResultsFilter(since=date(2025, 8, 31)),                       ["e2", "e3"]),
    "up to a day, in UTC":      (ResultsFilter(until=date(2025, 8, 31)),                       ["e1", "e2"]),
    "a day and a dataset":      (ResultsFilter(dataset="x", since=date(2025, 8, 31)),          ["e2"]),
    "nothing":                  (ResultsFilter(dataset="x_v3.0.0"),                            []),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "expected"), FILTERS.values(), ids=FILTERS)
def test_listing_filters_and_sorts_by_time(wanted, expected, store):
    store.save_evaluation_results(
        results("e3", timestamp="2025-09-01T00:00:00Z", dataset_id="y", benchmark="y", system="other")
    )
    # 01:00 in Paris is the day before in UTC.
    store.save_evaluation_results(results("e2", timestamp="2025-09-01T01:00:00+02:00", dataset_version="2.0.0"))
    store.save_evaluation_results(results("e1"))

    assert [one.header.evaluation_id for one in store.list_evaluation_results(wanted).results] == expected


def test_a_broken_results_file_is_a_finding(store):
    path = store.save_evaluation_results(results())
    (store.results / "broken.results.json").write_text("{")
    (store.results / "local.results.json").write_text(json.dumps(results_value(timestamp="2025-08-30T13:00:00")))

    listed = store.list_evaluation_results()

    assert [one.path for one in listed.results] == [path]
    assert [(found.code, found.file.rpartition("/")[2]) for found in listed.findings] == [
        ("bad_format", "broken.results.json"),
        ("bad_format", "local.results.json"),
    ]


def test_comparison_holds_values_and_differences_to_the_first(store):
    store.save_evaluation_results(results("old"))
    better = {"hit@1": metric(0.75), "mrr": metric(None), "ndcg@5": metric(0.25)}
    prints = {"dataset": "d", "corpus": "other", "system": "s2", "metrics": "m"}
    store.save_evaluation_results(results("new", retrieval_metrics=better, fingerprints=prints))

    found = store.compare(["old", "new"])

    assert found.evaluations == ("old", "new")
    assert found.metrics["hit@1"] == {"old": 1.0, "new": 0.75}
    assert found.metric_deltas["hit@1"] == {"new": -0.25}
    assert found.metrics["mrr"] == {"old": 0.5, "new": None}
    assert found.metric_deltas["mrr"] == {"new": None}  # not measured is no change
    assert found.metric_deltas["ndcg@5"] == {"new": None}
    assert found.metrics["page_retrieval_metrics.hit@1"] == {"old": None, "new": None}
    assert found.metrics["answer_quality_metrics.f1"] == {"old": 0.5, "new": 0.5}
    assert found.metrics["answer_quality_metrics.abstention.over_refusal_rate"] == {"old": 0.0, "new": 0.0}
    assert found.performance["latency_stats.p50"] == {"old": 4.0, "new": 4.0}
    assert found.performance_deltas["resource_usage.memory_mb.peak"] == {"new": 0.0}
    assert found.differing == ("corpus", "system")


def test_nothing_compared_is_an_empty_comparison():
    assert compare_results([]).metrics == {}
