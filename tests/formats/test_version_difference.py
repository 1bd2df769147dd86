"""Two files of one version are compared as a person would: by question, by document, by field."""

import gzip
import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.store import version_difference
from tests.formats.dataset_values import csv_text


def query(number, **fields):
    return {"query_id": str(number), "query_text": "Who?", "relevant_documents": ["a.pdf"]} | fields


SPAN = {"file_name": "a.pdf", "start_char": 0, "end_char": 4}
QUERIES = [query(number) for number in range(9)]
OLD = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": QUERIES}
CASES = {
    #                                       change                                                     difference
    "nothing":                            ({},                                                        None),
    "a later form of the file":           ({"schema_version": "1.0"},                                 None),
    "a field that is null":               ({"description": None},                                     None),
    "an empty list of citations":         ({"queries": [query(0, citations=[], metadata={}), *QUERIES[1:]]}, None),
    "an added question":                  ({"queries": [*QUERIES, query("x")]},                       "1 query added: 'x'"),
    "removed questions":                  ({"queries": QUERIES[:2]},
                                           "7 queries removed: '2', '3', '4', '5', '6', ... (7 in all)"),
    "a changed question":                 ({"queries": [query(0, query_text="When?", difficulty="easy"), *QUERIES[1:]]},
                                           "1 query changed in difficulty, query_text: '0'"),
    "changed citations":                  ({"queries": [query(0, citations=[SPAN]), *QUERIES[1:]]},
                                           "1 query changed in citations: '0'"),
    "a null in a question's own metadata": ({"queries": [query(0, metadata={"x": None}), *QUERIES[1:]]},
                                           "1 query changed in metadata: '0'"),
    "another order":                      ({"queries": QUERIES[::-1]},                                "queries are in another order"),
    "another name":                       ({"name": "E"},                                             "name was 'D' and is 'E'"),
    "more about the dataset":             ({"metadata": {"size": 9}},                                 "metadata was None and is {'size': 9}"),
    "documents":                          ({"documents": [{"document_id": "a.pdf", "content": ""}]},
                                           "1 document added: 'a.pdf'; documents were added"),
    "no documents, and said so":          ({"documents": []},                                         "documents were added"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "difference"), CASES.values(), ids=CASES)
def test_what_has_changed(change, difference, tmp_path):
    old, new = tmp_path / "old.eval.json", tmp_path / "new.eval.json"
    old.write_text(json.dumps(OLD))
    new.write_text(json.dumps(OLD | change))

    assert version_difference(old, new) == difference


SAME = {
    #                              old                                       new
    "another layout":            ({"metadata": {"size": 9, "domain": "x"}},  {"metadata": {"domain": "x", "size": 9}}),
    "a whole number as float":   ({"metadata": {"avg_query_length": 4}},     {"metadata": {"avg_query_length": 4.0}}),
    "the same moment":           ({"created_at": "2024-09-19T00:00:00Z"},    {"created_at": "2024-09-19T02:00:00+02:00"}),
    "a null in a citation":      ({"queries": [query(0, citations=[SPAN])]},
                                  {"queries": [query(0, citations=[SPAN | {"page_number": None}])]}),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), SAME.values(), ids=SAME)
def test_what_says_the_same_is_the_same(old, new, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD | old))
    (tmp_path / "new.json").write_text(json.dumps(OLD | new, indent=7))

    assert version_difference(tmp_path / "old.json", tmp_path / "new.json") is None


def test_one_is_not_true(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD | {"queries": [query(0, metadata={"x": 1})]}))
    (tmp_path / "new.json").write_text(json.dumps(OLD | {"queries": [query(0, metadata={"x": True})]}))

    assert version_difference(tmp_path / "old.json", tmp_path / "new.json") == "1 query changed in metadata: '0'"


@pytest.mark.parametrize("form", [".eval.json.gz", ".eval.yaml", ".eval.csv"])
def test_the_form_is_no_difference(form, tmp_path):
    dataset = EvaluationDataset.model_validate(OLD | {"created_at": "2024-09-19T00:00:00Z"})
    dataset.write(tmp_path / "old.eval.json")
    text = csv_text(dataset) if form.endswith(".csv") else dataset.model_dump_json(exclude_none=True).encode()
    (tmp_path / f"new{form}").write_bytes(gzip.compress(text) if form.endswith(".gz") else text)

    assert version_difference(tmp_path / "old.eval.json", tmp_path / f"new{form}") is None


def test_equal_bytes_are_not_parsed(tmp_path):
    (tmp_path / "old.json").write_text("{")
    (tmp_path / "new.json").write_text("{")

    assert version_difference(tmp_path / "old.json", tmp_path / "new.json") is None


@pytest.mark.parametrize("text", ["{", "[]", '{"queries": 5}', '{"queries": [{"id": "x"}]}', "\xff"])
def test_a_file_that_is_no_dataset_is_an_error(text, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD))
    (tmp_path / "new.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(InputError) as error:
        version_difference(tmp_path / "old.json", tmp_path / "new.json")

    assert error.value.code in ("bad_format", "bad_json", "bad_encoding")
