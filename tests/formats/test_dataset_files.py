"""An evaluation dataset is the same in every form, strict where a reader could guess, and mild to the older form."""

import json

import pytest
from hypothesis import given

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import (
    DatasetMetadata,
    EvaluationDataset,
    EvaluationQuery,
    read_evaluation_dataset,
)
from tests.formats.dataset_values import DATASETS, csv_text

FORMS = (".eval.json", ".eval.json.gz", ".eval.csv")
QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}
DATASET = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": [QUERY]}


@pytest.mark.parametrize("form", FORMS)
@given(dataset=DATASETS)
def test_reading_gives_what_was_written(form, dataset, tmp_path_factory):
    path = tmp_path_factory.mktemp("datasets") / f"d{form}"
    if form.endswith(".csv"):
        path.write_bytes(csv_text(dataset))
    else:
        dataset.write(path)

    assert read_evaluation_dataset(path) == (dataset, ())
    assert EvaluationDataset.read(path) == dataset


@pytest.mark.parametrize("form", FORMS[:2])
def test_equal_datasets_give_equal_bytes(form, tmp_path):
    for name in ("one", "two"):
        EvaluationDataset.model_validate(DATASET).write(tmp_path / f"{name}{form}")

    assert (tmp_path / f"one{form}").read_bytes() == (tmp_path / f"two{form}").read_bytes()


@pytest.mark.parametrize("name", ["d.eval.txt", "d", "d.eval.parquet"])
def test_a_form_that_the_name_does_not_say_is_neither_read_nor_written(name, tmp_path):
    with pytest.raises(InputError) as reading:
        read_evaluation_dataset(tmp_path / name)
    with pytest.raises(InputError) as writing:
        EvaluationDataset.model_validate(DATASET).write(tmp_path / name)

    assert (reading.value.code, writing.value.code) == ("unknown_form", "unknown_form")


OLDER = {
    #                        file name                  absent                  name  version
    "no name":              ("d_v2.1.0.eval.json",      {"name"},               "d", "1.0.0"),
    "version in the name":  ("d_v2.1.0.eval.json",      {"version"},            "D", "2.1.0"),
    "version nowhere":      ("d.eval.json",             {"version"},            "D", "0.0.0"),
    "neither":              ("d_v2.1.0-rc.1.eval.json", {"name", "version"},    "d", "2.1.0-rc.1"),
    "neither, in YAML":     ("d_v2.1.0.eval.yaml",      {"name", "version"},    "d", "2.1.0"),
    "neither, packed":      ("d_v2.1.0.eval.json.gz",   {"name", "version"},    "d", "2.1.0"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "absent", "name", "version"), OLDER.values(), ids=OLDER)
def test_the_older_form_is_filled_in_and_said_so(file, absent, name, version, tmp_path):
    path = tmp_path / file
    text = json.dumps({key: value for key, value in DATASET.items() if key not in absent}).encode()
    if file.endswith(".gz"):
        import gzip

        text = gzip.compress(text)
    path.write_bytes(text)  # JSON is YAML

    dataset, findings = read_evaluation_dataset(path)

    assert (dataset.name, dataset.version) == (name, version)
    assert [(found.severity, found.code) for found in findings] == [("warning", "older_form")]


BAD = {
    #                                       text                                                                    code
    "a key twice":                         ('{"dataset_id": "d", "dataset_id": "e", "queries": []}',                "bad_json"),
    "a key of a query twice":              (json.dumps(DATASET).replace('"0"', '"0", "query_id": "1"'),             "bad_json"),
    "NaN in metadata":                     (json.dumps(DATASET | {"metadata": {"x": float("nan")}}),                "bad_json"),
    "a number that overflows":             (json.dumps(DATASET)[:-1] + ', "metadata": {"x": 1e999}}',               "bad_json"),
    "half a surrogate pair":               (json.dumps(DATASET | {"name": "\ud800"}),                               "bad_json"),
    "half a file":                         (json.dumps(DATASET)[:40],                                               "bad_json"),
    "nesting that exhausts the stack":     ("[" * 100_000,                                                          "bad_json"),
    "an integer of 5,000 digits":          (json.dumps(DATASET)[:-1] + f', "metadata": {{"x": {"9" * 5000}}}}}',    "bad_json"),
    "a list":                              ("[]",                                                                   "bad_format"),
    "a number where text belongs":         (json.dumps(DATASET | {"name": 5}),                                      "bad_format"),
    "a text where a number belongs":       (json.dumps(DATASET | {"metadata": {"size": "5"}}),                      "bad_format"),
    "an empty version":                    (json.dumps(DATASET | {"version": ""}),                                  "bad_version"),
    "a version of two parts":              (json.dumps(DATASET | {"version": "1.0"}),                               "bad_version"),
    "null where the older form has none":  (json.dumps(DATASET | {"version": None}),                                "bad_format"),
    "an id twice":                         (json.dumps(DATASET | {"queries": [QUERY, QUERY]}),                      "duplicate_id"),
    "a form of next year":                 (json.dumps(DATASET | {"schema_version": "1.10"}),                       "newer_schema"),
    "a form without a number":             (json.dumps(DATASET | {"schema_version": "new"}),                        "bad_version"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), BAD.values(), ids=BAD)
def test_bad_content_is_refused_in_one_line(text, code, tmp_path):
    path = tmp_path / "d_v1.0.0.eval.json"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        EvaluationDataset.read(path)

    assert error.value.code == code
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b", b"no gzip", b"\x1f\x8b\x08\x00" + b"\x00" * 20])
def test_a_damaged_archive_is_refused(data, tmp_path):
    path = tmp_path / "d.eval.json.gz"
    path.write_bytes(data)

    with pytest.raises(InputError) as error:
        EvaluationDataset.read(path)

    assert error.value.code in ("bad_gzip", "bad_json")  # nothing at all is an empty archive, and no JSON


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "d.eval.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(DATASET).encode())

    assert EvaluationDataset.read(path).dataset_id == "d"


def test_unquoted_yaml_is_text_where_text_belongs(tmp_path):
    path = tmp_path / "d.eval.yaml"
    path.write_text(
        "dataset_id: no\nname: 1.10\nversion: 1.0.0\nmetadata: {size: 1, language: no, weight: 0.5, on: true}\n"
        "queries:\n- query_id: 12\n  query_text: When?\n  relevant_documents: [2023, true, ~/a]\n"
        "  citations: [{file_name: 7, start_char: 0, end_char: 4, confidence_score: 1}]\n"
    )

    dataset = EvaluationDataset.read(path)

    query = dataset.queries[0]
    assert (dataset.dataset_id, dataset.name, query.query_id) == ("no", "1.10", "12")
    assert query.relevant_documents == ("2023", "true", "~/a")
    assert query.citations[0].file_name == "7"
    assert dataset.metadata == DatasetMetadata(size=1, language="no", weight=0.5, on=True)


def test_quoted_yaml_is_never_a_number(tmp_path):
    path = tmp_path / "d.eval.yaml"
    path.write_text("dataset_id: d\nname: D\nversion: 1.0.0\nmetadata: {size: '1'}\nqueries: []\n")

    with pytest.raises(InputError) as error:
        EvaluationDataset.read(path)

    assert (error.value.code, error.value.field) == ("bad_format", "metadata.size")


CSV = {
    #                            text                                                                                  found
    "repeated dataset fields":  ("dataset_id,name,version,query_id,query_text,relevant_documents\n"
                                 "d,D,1.0.0,0,Who?,[]\nd,D,1.0.0,1,When?,[]\n",                                          None),
    "rows sorted otherwise":    ("dataset_id,name,version,query_id,query_text,relevant_documents\n"
                                 ",,,0,Who?,[]\nd,D,1.0.0,1,When?,[]\n",                                                 None),
    "two ids":                  ("dataset_id,name,version,query_id,query_text,relevant_documents\n"
                                 "d,D,1.0.0,0,Who?,[]\ne,,,1,When?,[]\n",                            "row 2, field \"dataset_id\""),
    "no JSON":                  ("dataset_id,name,version,query_id,query_text,relevant_documents\n"
                                 "d,D,1.0.0,0,Who?,a.pdf\n,,,1,When?,[]\n",                  "row 1, field \"relevant_documents\""),
    "no text":                  ("dataset_id,name,version,query_id,query_text,relevant_documents\n"
                                 "d,D,1.0.0,0,Who?,[]\n,,,1,,[]\n",                                  "row 2, field \"query_text\""),
    "an unknown column":        ("dataset_id,name,version,query_id,query_text,answer\nd,D,1.0.0,0,Who?,x\n",       "'answer'"),
    "a short row":              ("dataset_id,name,version,query_id,query_text,relevant_documents\nd,D,1.0.0\n",       "row 1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "found"), CSV.values(), ids=CSV)
def test_csv_that_people_write(text, found, tmp_path):
    path = tmp_path / "d.eval.csv"
    path.write_text(text)

    if found is None:
        assert [query.query_id for query in EvaluationDataset.read(path).queries] == ["0", "1"]
        return
    with pytest.raises(InputError) as error:
        EvaluationDataset.read(path)
    assert found in str(error.value)


BAD_METADATA = {
    "NaN": float("nan"),
    "infinity in a list": [1, float("inf")],
    "a set": {1},
    "a number as key": {1: 2},
    "a lone surrogate": "\udfff",
}


@pytest.mark.parametrize("value", BAD_METADATA.values(), ids=BAD_METADATA)
def test_metadata_that_json_cannot_carry_is_no_metadata(value):
    with pytest.raises(ValueError, match=r"."):
        EvaluationQuery(query_id="0", query_text="?", relevant_documents=(), metadata={"x": value})
    with pytest.raises(ValueError, match=r"."):
        DatasetMetadata(x=value)


def test_text_that_says_false_makes_no_question_impossible():
    query = EvaluationQuery(query_id="0", query_text="?", relevant_documents=(), metadata={"is_impossible": "false"})

    assert not query.is_impossible
