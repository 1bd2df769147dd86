"""Files of several evaluations are recognised by their names, and checked for what no single field can say."""

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from rag_eval_pipeline.formats.comparison_files import MovedQuestion, VerdictRecord
from rag_eval_pipeline.formats.schemas import json_schema
from rag_eval_pipeline.formats.validation import examine, validate, version_of
from rag_eval_pipeline.metrics.flags import Confirmation
from rag_eval_pipeline.metrics.verdicts import VerdictKind
from rag_eval_pipeline.reporting.looks import Moved

FIXTURES = Path(__file__).parent / "fixtures"
WEEK = json.loads((FIXTURES / "benchmark_weekly_1_0.json").read_text())
AB_TEST = json.loads((FIXTURES / "ab_test_1_0.json").read_text())
ROW = next(row for row in AB_TEST["benchmarks"] if row["verdicts"])
NAMES = {
    "weekly_results": "benchmark_weekly_20261116.results.json",
    "ab_test_results": "ab_test_embedded-weak_vs_embedded_001.results.json",
    "regressions": "regressions.json",
    "latency_benchmarks": "latency_benchmarks.benchmark.json",
    "throughput_benchmarks": "throughput_benchmarks.benchmark.json",
    "retrieval_quality_benchmarks": "retrieval_quality_benchmarks.benchmark.json",
}
HEAD = {
    "benchmark": "b", "system": "s", "system_version": "1", "dataset_version": "1.0.0", "evaluation_id": "e",
    "timestamp": "2026-11-22T02:00:00Z", "queries": 4.0, "failed": 1.0,
}  # fmt: skip
TIMES = {"mean": 3.0, "p50": 2.0, "p95": 6.0, "p99": 7.0, "min": 1.0, "max": 8.0}
LATENCY = HEAD | {"latency_ms": TIMES, "reused_from": None}
USAGE = {name: {"mean": 1.0, "peak": 2.0, "std": 0.5} for name in ("memory_mb", "cpu_percent")}
THROUGHPUT = HEAD | {"seconds": 2.0, "queries_per_second": 2.0, "reason": None, "resource_usage": USAGE}
FIGURE = {"value": 0.5, "confidence_interval": [0.2, 0.8], "n_scored": 3, "coverage": 0.75, "reason": None}
RETRIEVAL = HEAD | {"level": "page", "by_document": {"mrr": FIGURE}, "by_page": {}}


def benchmark_file(name, *entries):
    return {"schema_version": "1.0", "benchmark": name, "entries": list(entries)}


def week(**change):
    return WEEK | {"pairs": [WEEK["pairs"][0] | change]}


def ab_test(**change):
    return AB_TEST | {"benchmarks": [ROW | change]}


def verdict(**change):
    return [ROW | {"verdicts": {"hit@1": ROW["verdicts"]["hit@1"] | change}}]


NIGHTS = [f"eval_run_2026110{day}_001" for day in range(1, 8)]
VERDICTS = ROW["verdicts"]
CASES = {
    #                                    kind                       value                                     faults
    "a week as it was written":         ("weekly_results",          WEEK,                                     []),
    "a week with a verdict":            ("weekly_results",          week(reason=None, verdicts=VERDICTS, evaluations=NIGHTS), []),
    "verdicts of six nights":           ("weekly_results",          week(reason=None, verdicts=VERDICTS, evaluations=NIGHTS[:6]), ["counts"]),
    "eight nights":                     ("weekly_results",          week(evaluations=[*NIGHTS, "x"]),         ["counts"]),
    "a night twice":                    ("weekly_results",          week(evaluations=NIGHTS[:1] * 2),         ["duplicate_id"]),
    "neither verdict nor reason":       ("weekly_results",          week(reason=None, evaluations=NIGHTS),    ["verdicts"]),
    "a reason and verdicts":            ("weekly_results",          week(verdicts=VERDICTS),                  ["verdicts"]),
    "a row of another kind":            ("weekly_results",          week(kind="ab_test"),                     ["bad_sides"]),
    "a pair twice":                     ("weekly_results",          WEEK | {"pairs": WEEK["pairs"][:1] * 2},  ["duplicate_id"]),
    "a week from Tuesday":              ("weekly_results",          WEEK | {"from": "2026-11-10", "to": "2026-11-16"}, ["bad_date"]),
    "eight days":                       ("weekly_results",          WEEK | {"to": "2026-11-16"},              ["bad_date"]),
    "a week under another's name":      ("weekly_results",          WEEK | {"evaluation_id": "benchmark_weekly_20261109"}, ["misnamed_file"]),
    "a week of a later form":           ("weekly_results",          WEEK | {"schema_version": "1.1"},         ["newer_schema"]),
    "an evaluation under its name":     ("weekly_results",          WEEK | {"evaluation_type": "single"},     ["bad_format"]),
    "an A/B test as it was written":    ("ab_test_results",         AB_TEST,                                  []),
    "a system against itself":          ("ab_test_results",         AB_TEST | {"a": "embedded"},              ["bad_sides"] * 5),
    "a header of the other system":     ("ab_test_results",         AB_TEST | {"system": "embedded-weak"},    ["bad_sides"]),
    "a row with the sides exchanged":   ("ab_test_results",         ab_test(old="embedded", new="embedded-weak"), ["bad_sides"]),
    "regressions as they are written":  ("regressions",             AB_TEST["benchmarks"],                    []),
    "no regressions":                   ("regressions",             [],                                       []),
    "a p of more than one":             ("regressions",             verdict(p_corrected=1.5),                 ["bad_format"]),
    "an interval upside down":          ("regressions",             verdict(confidence_interval=[1.0, -1.0]), ["interval"]),
    "no change that was confirmed":     ("regressions",             verdict(confirmation="confirmed"),        ["verdicts"]),
    "a change that nothing stands for": ("regressions",             verdict(kind="regressed"),                ["verdicts"]),
    "a change that was not confirmed":  ("regressions",             verdict(kind="inconclusive", confirmation="not_confirmed"), []),
    "latency":                          ("latency_benchmarks",      benchmark_file("latency_benchmarks", LATENCY), []),
    "no pair yet":                      ("latency_benchmarks",      benchmark_file("latency_benchmarks"),     []),
    "a p95 above the p99":              ("latency_benchmarks",      benchmark_file("latency_benchmarks", LATENCY | {"latency_ms": TIMES | {"p95": 9.0}}), ["latency"]),
    "an entry twice":                   ("latency_benchmarks",      benchmark_file("latency_benchmarks", LATENCY, LATENCY), ["duplicate_id"]),
    "more failed than asked":           ("latency_benchmarks",      benchmark_file("latency_benchmarks", LATENCY | {"failed": 5.0}), ["counts"]),
    "less than no time":                ("latency_benchmarks",      benchmark_file("latency_benchmarks", LATENCY | {"latency_ms": {"min": -1.0}}), ["bad_format"]),
    "another file's figures":           ("latency_benchmarks",      benchmark_file("throughput_benchmarks"),  ["misnamed_file"]),
    "throughput":                       ("throughput_benchmarks",   benchmark_file("throughput_benchmarks", THROUGHPUT), []),
    "no rate and no reason":            ("throughput_benchmarks",   benchmark_file("throughput_benchmarks", THROUGHPUT | {"queries_per_second": None}), ["no_reason"]),
    "retrieval":                        ("retrieval_quality_benchmarks", benchmark_file("retrieval_quality_benchmarks", RETRIEVAL), []),
    "a value outside of its interval":  ("retrieval_quality_benchmarks", benchmark_file("retrieval_quality_benchmarks", RETRIEVAL | {"by_page": {"mrr": FIGURE | {"value": 0.9}}}), ["interval"]),
    "a figure without its reason":      ("retrieval_quality_benchmarks", benchmark_file("retrieval_quality_benchmarks", RETRIEVAL | {"by_page": {"mrr": FIGURE | {"value": None}}}), ["no_reason"]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "codes"), CASES.values(), ids=CASES)
def test_a_file_of_several_evaluations(kind, value, codes, tmp_path):
    if kind == "regressions":
        value = [{name: item for name, item in row.items() if name != "runs_of_a"} for row in value]
    path = tmp_path / NAMES[kind]
    path.write_text(json.dumps(value))

    assert [found.code for found in examine(path)] == codes
    if not codes:
        jsonschema.validate(value, json_schema(kind), jsonschema.Draft202012Validator)


def test_a_finding_names_its_place_in_the_schema(tmp_path):
    path = tmp_path / NAMES["weekly_results"]
    path.write_text(json.dumps(week(benchmark="")))

    [found] = examine(path)

    assert (found.field, found.schema) == (
        "pairs[0].benchmark", "weekly_results.schema.json#/$defs/WeekRow/properties/benchmark",
    )  # fmt: skip


def test_both_names_of_benchmark_data_are_read(tmp_path):
    for name in ("latency_benchmarks.json", "latency_benchmarks.benchmark.json"):
        (tmp_path / name).write_text(json.dumps(benchmark_file("latency_benchmarks", LATENCY)))

        assert validate(tmp_path / name) == []


def test_the_words_are_those_of_the_verdicts():
    words = {name: field.annotation for name, field in VerdictRecord.model_fields.items()}

    assert set(get_args(words["kind"])) == set(get_args(VerdictKind))
    assert set(get_args(get_args(words["confirmation"])[0])) == set(get_args(Confirmation))
    assert set(MovedQuestion.model_fields) == set(Moved.model_fields)


VERSIONS = {
    "older": ("eval_run_20261122_001.results.json", {"schema_version": "1.0"}, "results file 1.0, read as 1.1"),
    "present": ("eval_run_20261122_001.results.json", {"schema_version": "1.1"}, "results file 1.1"),
    "none": ("eval_run_20261122_001.results.json", {}, "results file without a version, read as 1.1"),
    "a dataset": ("d_v1.0.0.eval.json", {"schema_version": "1.0"}, "evaluation dataset 1.0"),
    "a week": (NAMES["weekly_results"], WEEK, "file of a week 1.0"),
    "a file without versions": ("train.json", [], None),
    "a list": (NAMES["regressions"], [], None),
}


@pytest.mark.parametrize(("name", "value", "said"), VERSIONS.values(), ids=VERSIONS)
def test_the_version_is_named_and_as_which_it_is_read(name, value, said, tmp_path):
    (tmp_path / name).write_text(json.dumps(value))

    assert version_of(tmp_path / name) == said
