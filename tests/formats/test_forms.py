"""A file of the present form or one of the two before it is read; any other says what it is and what to do."""

import copy
import json
from pathlib import Path

import pydantic
import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import Baseline
from rag_eval_pipeline.evaluation.runs import EvaluationRecord
from rag_eval_pipeline.formats import EvaluationResults
from rag_eval_pipeline.formats.comparison_files import AbTestResults, WeeklyResults
from rag_eval_pipeline.formats.forms import Form, present_json
from rag_eval_pipeline.formats.model import FileModel, SchemaVersion
from rag_eval_pipeline.formats.model_files import parse_file
from rag_eval_pipeline.formats.results_files import read_results_header
from rag_eval_pipeline.formats.results_versions import RESULTS
from rag_eval_pipeline.reporting.nights import Nights
from rag_eval_pipeline.reporting.results_headers import read_header_of

FIXTURES = Path(__file__).parent / "fixtures"
RESULTS_1_0 = FIXTURES / "results_1_0.json"  # published by the release whose results were 1.0, with `limit: 4`

# A form with four versions: `words` was called `text`, then a list; `size` came with 1.1.
LETTER = Form(
    "letter",
    ("1.0", "1.1", "2.0", "2.1"),
    {
        "1.0": lambda value: {**value, "size": None},
        "1.1": lambda value: {"words": value["text"], **{k: v for k, v in value.items() if k != "text"}},
        "2.0": lambda value: {**value, "words": [value["words"]]},
    },
)


class Letter(FileModel):
    form = LETTER

    schema_version: SchemaVersion = LETTER.present
    words: list[str]
    size: int | None = None


READ = {
    #                              file                                                            words
    "the present version":         ({"schema_version": "2.1", "words": ["a"]},                      ["a"]),
    "the one before":              ({"schema_version": "2.0", "words": "a"},                        ["a"]),
    "the one before that":         ({"schema_version": "1.1", "text": "a", "size": 1},              ["a"]),
}  # fmt: skip


@pytest.mark.parametrize(("value", "words"), READ.values(), ids=READ)
def test_the_present_version_and_the_two_before_it_are_read(value, words, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))

    assert Letter.read(path).words == parse_file(Letter, path).words == words
    assert Letter.read(path).schema_version == "2.1"


REFUSED = {
    #                                     version     code             what to do
    "older than the two before":          ("1.0",     "old_schema",    "An earlier rag-eval-pipeline wrote it, and reads it."),
    "none, which is the first":           (None,      "old_schema",    "An earlier rag-eval-pipeline wrote it, and reads it."),
    "the next minor one":                 ("2.2",     "newer_schema",  "A later rag-eval-pipeline wrote it: upgrade."),
    "the next major one":                 ("3.0",     "newer_schema",  "A later rag-eval-pipeline wrote it: upgrade."),
    "newer, but before ours as a text":   ("10.0",    "newer_schema",  "A later rag-eval-pipeline wrote it: upgrade."),
    "between two that there were":        ("1.7",     "old_schema",    "An earlier rag-eval-pipeline wrote it, and reads it."),
    "three numbers":                      ("2.1.0",   "bad_version",   None),
    "a word":                             ("latest",  "bad_version",   None),
}  # fmt: skip


@pytest.mark.parametrize(("version", "code", "hint"), REFUSED.values(), ids=REFUSED)
def test_any_other_version_is_refused_with_what_to_do(version, code, hint, tmp_path):
    value = {"words": ["a"]} if version is None else {"schema_version": version, "words": ["a"]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))

    for read in (Letter.read, lambda path: parse_file(Letter, path)):
        with pytest.raises(InputError) as caught:
            read(path)

        assert (caught.value.code, caught.value.field, caught.value.hint) == (code, "schema_version", hint)
        if code != "bad_version":
            assert "form 2.1, 2.0 or 1.1 of the letter" in str(caught.value)


def test_yaml_takes_the_same_steps(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("schema_version: 2.0\nwords: a\n")  # unquoted: a number to YAML, a version to us

    assert parse_file(Letter, path).words == ["a"]


@pytest.mark.parametrize("data", [b"[]", b"1", b"{", b'{"schema_version": 2.1}', b'{"schema_version": ["2.1"]}'])
def test_what_states_no_version_as_a_text_is_left_to_its_reader(data):
    assert present_json(LETTER, data, "a.json") == data


def test_a_value_of_another_version_is_not_taken_for_a_present_one():
    for version, said in (("3.0", "form 2.1, 2.0 or 1.1"), ("2.0", "form 2.1")):
        with pytest.raises(pydantic.ValidationError, match=said):
            Letter(schema_version=version, words=["a"])


def test_the_bytes_of_a_present_file_are_handed_on_as_they_are():
    data = b'{"schema_version": "2.1",   "words": []}'

    assert present_json(LETTER, data, "a.json") is data


def test_a_step_for_every_version_but_the_last():
    assert set(RESULTS.steps) == set(RESULTS.versions[:-1])


# Real files of 1.0.


def test_results_of_1_0_are_read_with_what_they_could_not_measure_as_null(tmp_path):
    path = tmp_path / "eval_run_20261122_001.results.json"
    path.write_bytes(RESULTS_1_0.read_bytes())
    stated = json.loads(path.read_text())

    results = EvaluationResults.read(path)

    assert (stated["schema_version"], results.schema_version) == ("1.0", RESULTS.present)
    citations, abstention = results.citation_metrics, results.answer_quality_metrics.abstention
    for metric in (citations.overall_citation_accuracy, citations.overall_coverage, abstention.accuracy):
        assert (metric.value, metric.reason) == (None, "not_measured")
    assert results.performance_metrics.api_usage["prompt_tokens"] is None
    assert results.own_metrics == {}
    # What was there is there: the means, and every question.
    assert results.answer_quality_metrics.f1.value == stated["answer_quality_metrics"]["f1"]["value"] == 0.25
    assert [row.query_id for row in results.query_results] == ["0", "1", "2", "3"]
    assert path.read_bytes() == RESULTS_1_0.read_bytes()


def test_the_headers_of_results_of_1_0_are_those_of_the_present_form(tmp_path):
    path = tmp_path / "eval_run_20261122_001.results.json"
    path.write_bytes(RESULTS_1_0.read_bytes())

    header = read_header_of(path, path.read_bytes())

    assert (header.benchmark, header.metric("f1").value) == ("gannet-sound", 0.25)
    assert header.citation_metrics["overall_citation_accuracy"]["reason"] == "not_measured"
    assert read_results_header(path).system == "embedded"


def test_results_of_1_0_as_yaml_are_read_too(tmp_path):
    path = tmp_path / "eval_run_20261122_001.results.yaml"
    path.write_text(yaml.safe_dump(json.loads(RESULTS_1_0.read_text()), allow_unicode=True))

    assert EvaluationResults.read(path).citation_metrics.overall_coverage.reason == "not_measured"


def test_a_step_leaves_the_value_that_it_is_given():
    value = json.loads(RESULTS_1_0.read_text())
    before = copy.deepcopy(value)

    for step in RESULTS.steps.values():
        step(value)

    assert value == before


def test_a_step_fills_in_what_is_not_there_and_nothing_else():
    value = json.loads(RESULTS_1_0.read_text())
    value["performance_metrics"]["api_usage"]["prompt_tokens"] = 7.0

    present = RESULTS.migrated(value, "a.results.json")

    assert present["performance_metrics"]["api_usage"]["prompt_tokens"] == 7.0
    assert present["citation_metrics"]["overall_coverage"] == {"value": None, "reason": "not_measured"}


@pytest.mark.parametrize("part", ["citation_metrics", "answer_quality_metrics", "performance_metrics"])
def test_a_step_leaves_a_part_of_the_wrong_kind_to_the_reader(part, tmp_path):
    path = tmp_path / "eval_run_20261122_001.results.json"
    path.write_text(json.dumps(json.loads(RESULTS_1_0.read_text()) | {part: []}))

    with pytest.raises(InputError) as caught:
        EvaluationResults.read(path)

    assert (caught.value.code, caught.value.field) == ("bad_format", part)


OTHERS = {
    "evaluation_1_0.json": EvaluationRecord,
    "baseline_1_0.json": Baseline,
    "nights_1_0.json": Nights,
    "ab_test_1_0.json": AbTestResults,
    "benchmark_weekly_1_0.json": WeeklyResults,
}


@pytest.mark.parametrize(("name", "model"), OTHERS.items(), ids=OTHERS)
def test_other_files_of_1_0_are_read(name, model):
    assert parse_file(model, FIXTURES / name).schema_version == model.form.present


@pytest.mark.parametrize(("name", "model"), OTHERS.items(), ids=OTHERS)
@pytest.mark.parametrize(("version", "code"), [("9.0", "newer_schema"), ("0.1", "old_schema"), ("x", "bad_version")])
def test_other_files_of_another_form_are_refused(name, model, version, code, tmp_path):
    path = tmp_path / name
    path.write_text(json.dumps(json.loads((FIXTURES / name).read_text()) | {"schema_version": version}))

    with pytest.raises(InputError) as caught:
        model.read(path)

    assert caught.value.code == code
