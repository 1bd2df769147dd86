"""Evret's datasets are read as its specification has them; what it leaves open is a finding."""

import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset, SourceDocument, read_evret_dataset
from tests.formats.dataset_values import csv_text

# Evret: Dataset Format, the examples; one query with expected answers, one with ids of documents.
ANSWER = "Flights above 500 dollars require manager approval before booking business travel."
DOCUMENTS = [
    {"doc_id": "travel_policy_2", "text": ANSWER, "metadata": {"source": "travel_policy.md", "section": "flight_approval"}},
    {"doc_id": "travel_policy_3", "text": "Hotel reimbursement is capped at 180 dollars per night.", "metadata": {}},
]  # fmt: skip
JSON_EXAMPLE = {
    "queries": [
        {"query_id": "q1", "query_text": "does a flight need approval", "expected_answers": [ANSWER]},
        {"query_id": "q2", "query_text": "what hotel limit applies", "relevant_doc_ids": ["travel_policy_3"]},
    ],
    "documents": DOCUMENTS,
}
CSV_EXAMPLE = f"""query_id,query_text,relevant_doc_ids,expected_answers
q1,does a flight need approval,,"[""{ANSWER}""]"
q2,what hotel limit applies,"[""travel_policy_3""]",
"""
LABELS = {"q1": ((), [ANSWER]), "q2": (("travel_policy_3",), [])}


def labels(dataset):
    return {query.query_id: (query.relevant_documents, query.expected_answers) for query in dataset.queries}


def read(tmp_path, value):
    path = tmp_path / ("flights.csv" if isinstance(value, str) else "flights.json")
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return read_evret_dataset(path)


def refused(tmp_path, value):
    with pytest.raises(InputError) as error:
        read(tmp_path, value)
    return error.value


@pytest.mark.parametrize("value", [JSON_EXAMPLE, CSV_EXAMPLE], ids=["JSON", "CSV"])
def test_evret_reads_the_examples_of_its_specification(value, tmp_path):
    dataset, findings = read(tmp_path, value)

    assert findings == ()
    assert [query.query_text for query in dataset.queries] == [
        "does a flight need approval",
        "what hotel limit applies",
    ]
    assert labels(dataset) == LABELS
    assert [query.ground_truth_answer for query in dataset.queries] == [None, None]
    documents = tuple(
        SourceDocument(document_id=one["doc_id"], content=one["text"], metadata=one["metadata"]) for one in DOCUMENTS
    )
    assert dataset.documents == (None if value is CSV_EXAMPLE else documents)


@pytest.mark.parametrize("name", ["flights.json", "flights_v1.2.0.evret.json"])
def test_evret_takes_id_and_version_from_the_files_name(name, tmp_path):
    (tmp_path / name).write_text(json.dumps(JSON_EXAMPLE))

    dataset = read_evret_dataset(tmp_path / name).dataset

    assert (dataset.dataset_id, dataset.name) == ("flights", "flights")
    assert dataset.version == ("1.2.0" if "_v" in name else "0.0.0")


def test_from_json_recognises_an_evaluation_dataset_by_its_id(tmp_path):
    theirs = tmp_path / "flights.json"
    theirs.write_text(json.dumps(JSON_EXAMPLE))
    dataset = EvaluationDataset.from_json(str(theirs))
    dataset.write(tmp_path / "ours.eval.json")

    assert labels(dataset) == LABELS
    assert EvaluationDataset.from_json(tmp_path / "ours.eval.json") == dataset


def test_from_csv_recognises_an_evaluation_dataset_by_its_column(tmp_path):
    theirs = tmp_path / "flights.csv"
    theirs.write_text(CSV_EXAMPLE)
    dataset = EvaluationDataset.from_csv(str(theirs))
    (tmp_path / "ours.eval.csv").write_bytes(csv_text(dataset))

    assert labels(dataset) == LABELS
    assert EvaluationDataset.from_csv(tmp_path / "ours.eval.csv") == dataset


FIELDS = {
    #                                query                                                            id     labels           answers
    "the newer label":              ({"id": "a", "query": "?", "expected_doc_ids": ["d"]},            "a",   ("d",),          []),
    "two names of one list":        ({"id": "a", "query": "?", "relevant_docs": ["d"],
                                      "relevant_doc_ids": ["d"]},                                     "a",   ("d",),          []),
    "both kinds":                   ({"id": "a", "query": "?", "relevant_doc_ids": ["d"],
                                      "expected_answers": ["x, y"]},                                  "a",   ("d",),          ["x, y"]),
    "case and spaces are kept":     ({"id": "a", "query": "?", "relevant_doc_ids": ["Doc ", "doc"]},  "a",   ("Doc ", "doc"), []),
    "a number as id":               ({"id": 7, "query": "?", "relevant_doc_ids": [12]},               "7",   ("12",),         []),
    "no id":                        ({"query": "?", "relevant_doc_ids": ["d"]},                       "q1",  ("d",),          []),
}  # fmt: skip


@pytest.mark.parametrize(("query", "query_id", "documents", "answers"), FIELDS.values(), ids=FIELDS)
def test_evret_field_names(query, query_id, documents, answers, tmp_path):
    dataset, _ = read(tmp_path, {"queries": [query]})

    assert labels(dataset) == {query_id: (documents, answers)}


CELLS = {
    #                                   cell                       labels
    "a JSON list":                      ('["a, b","c"]',           ["a, b", "c"]),
    "texts between commas":             ("a, b ,,c",               ["a", "b", "c"]),
    "a number is one label":            ("12",                     ["12"]),
    "a number keeps its digits":        ("1.50",                   ["1.50"]),
    "a JSON text is one label":         ('"a, b"',                 ["a, b"]),
    "an empty cell":                    ("",                       []),
}  # fmt: skip


@pytest.mark.parametrize("column", ["relevant_docs", "expected_answers"])
@pytest.mark.parametrize(("cell", "expected"), CELLS.values(), ids=CELLS)
def test_evret_label_cells(cell, expected, column, tmp_path):
    quoted = '"' + cell.replace('"', '""') + '"'
    dataset, findings = read(tmp_path, f"id,query,{column}\n7,Who?,{quoted}\n")

    query = dataset.queries[0]
    both = [list(query.relevant_documents), query.expected_answers]
    assert both == ([[], expected] if column == "expected_answers" else [expected, []])
    # Document ids hold no commas; answers do, and are cut in the middle.
    is_cut = column == "expected_answers" and cell == "a, b ,,c"
    assert [found.error.code for found in findings] == (["comma_split"] if is_cut else [])


@pytest.mark.parametrize("cell", ["['a']", '{"a": 1}', '["a", null]'])
def test_evret_refuses_cells_that_look_like_json_and_are_no_list_of_texts(cell, tmp_path):
    quoted = '"' + cell.replace('"', '""') + '"'

    error = refused(tmp_path, f"id,query,relevant_doc_ids\na,Who?,{quoted}\n")

    assert (error.code, error.row, error.field) == ("bad_labels", 1, "relevant_doc_ids")


BAD = {
    #                                queries                                                                         code
    "an id twice":                  ([{"id": "a", "query": "?"}, {"id": "a", "query": "!"}],                         "duplicate_id"),
    "labels that are one text":     ([{"id": "a", "query": "?", "relevant_doc_ids": "a,b"}],                         "bad_labels"),
    "two lists that differ":        ([{"id": "a", "query": "?", "relevant_docs": ["d"], "relevant_doc_ids": ["e"]}], "two_labels"),
    "a query that is a text":       (["?"],                                                                          "bad_format"),
    "no queries":                   (None,                                                                           "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("queries", "code"), BAD.values(), ids=BAD)
def test_evret_refuses_bad_queries(queries, code, tmp_path):
    assert refused(tmp_path, {"queries": queries}).code == code


BAD_DOCUMENTS = {
    "no id": ({"text": "x"}, "bad_format", "documents[1].doc_id"),
    "an id twice": ({"doc_id": "0", "text": ""}, "duplicate_id", "(top level)"),
}


@pytest.mark.parametrize(("document", "code", "field"), BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS)
def test_evret_names_bad_documents(document, code, field, tmp_path):
    error = refused(tmp_path, {"queries": [], "documents": [{"doc_id": "0", "text": ""}, document]})

    assert (error.code, error.field) == (code, field)


def test_evret_warns_of_missing_ids_and_unknown_fields(tmp_path):
    findings = read(tmp_path, "query,relevant_docs\n" + "Who?,a\n" * 7).findings
    assert [(found.severity, found.error.code, found.error.field) for found in findings] == [
        ("warning", "missing_id", "query_id")
    ]
    assert "rows 1, 2, 3, 4, 5, ... (7 in all)" in str(findings[0])

    dataset, findings = read(tmp_path, "id,query,relevant_docs,category,note\na,Who?,d,direct_fact,\n")
    assert dataset.queries[0].metadata == {"category": "direct_fact"}
    assert [(found.error.code, found.error.field) for found in findings] == [("unknown_field", "category")]


CSV_FAULTS = {
    "no question column": ("id,relevant_docs\na,d\n", "missing_column"),
    "a long row": ("id,query\na,b,c\n", "bad_csv"),
}


@pytest.mark.parametrize(("text", "code"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_evret_refuses_bad_csv(text, code, tmp_path):
    assert refused(tmp_path, text).code == code


def test_evret_csv_is_utf8_with_or_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("id,query,relevant_docs\na,Où?,d\n".encode("latin-1"))
    with pytest.raises(InputError) as error:
        read_evret_dataset(path)
    path.write_bytes("id,query,relevant_docs\na,Où?,d\n".encode("utf-8-sig"))

    assert error.value.code == "bad_encoding"
    assert read_evret_dataset(path).dataset.queries[0].query_id == "a"
