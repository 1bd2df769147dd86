"""What changed between two datasets is named, and published results are found by their id."""

import gzip
import json

import pytest

from rag_eval_pipeline.conversion.datasets import version_difference
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.fields import split_version
from rag_eval_pipeline.formats.results import EvaluationResults, load_evaluation_results
from tests.formats.result_values import results_value

QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}


def query(number, **fields):
    return QUERY | {"query_id": str(number)} | fields


QUERIES = [query(number) for number in range(9)]
OLD = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": QUERIES}
DIFFERENCES = {
    #                                        old    new                                                        difference
    "a stated schema version":              ({},    {"schema_version": "1.0"},                                 None),
    "another order of keys":                ({"metadata": {"size": 9, "domain": "x"}}, {"metadata": {"domain": "x", "size": 9}}, None),
    "one question more, one less":          ({},    {"queries": [*QUERIES[1:], query("x")]},                   "1 query added: 'x'; 1 query removed: '0'"),
    "seven questions less":                 ({},    {"queries": QUERIES[:2]},                                  "7 queries removed: '2', '3', '4', '5', '6', ... (7 in all)"),
    "one and true":                         ({"queries": [query(0, metadata={"x": 1})]},
                                             {"queries": [query(0, metadata={"x": True})]},                    "1 query changed in metadata: '0'"),
    "another order":                        ({},    {"queries": QUERIES[::-1]},                                "queries are in another order"),
    "another name":                         ({},    {"name": "E"},                                             "name was 'D' and is 'E'"),
    "documents":                            ({},    {"documents": [{"document_id": "a.pdf", "content": ""}]},  "1 document added: 'a.pdf'"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "difference"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_version_difference(old, new, difference, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD | old))
    (tmp_path / "new.json").write_text(json.dumps(OLD | new, indent=7))

    assert version_difference(tmp_path / "old.json", tmp_path / "new.json") == difference


def test_version_is_split_off_an_id():
    assert split_version("personal_rag_eval_v1.0.0-rc.1") == ("personal_rag_eval", "1.0.0-rc.1")
    assert split_version("a_v1.0") == ("a_v1.0", None)


RUN = "eval_run_20250830_001"


def test_results_are_found_by_their_id(tmp_path):
    results = EvaluationResults.model_validate_json(json.dumps(results_value(RUN)))
    (tmp_path / f"{RUN}.results.json.gz").write_bytes(gzip.compress(results.model_dump_json().encode()))

    assert load_evaluation_results(tmp_path, RUN) == results

    results.write(tmp_path / f"{RUN}.results.json")
    assert '"p_value": null' in (tmp_path / f"{RUN}.results.json").read_text()  # readers look for the keys
    with pytest.raises(InputError) as error:
        load_evaluation_results(tmp_path, RUN)
    assert error.value.code == "ambiguous_results"


@pytest.mark.parametrize("evaluation_id", ["../eval", "*"])
def test_results_that_do_not_exist(evaluation_id, tmp_path):
    (tmp_path / f"{RUN}.results.json").touch()

    with pytest.raises(InputError) as error:
        load_evaluation_results(tmp_path, evaluation_id)
    assert error.value.code == "no_results"
    assert RUN in str(error.value)
    with pytest.raises(InputError, match="The folder has none"):
        load_evaluation_results(tmp_path / "nowhere", RUN)
