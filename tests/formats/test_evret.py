"""Evret's datasets are read as its specification has them; what it leaves open is said, and nothing is lost on the way back."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.csv import csv_bytes, json_cell
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery, SourceDocument, read_evret_dataset
from tests.formats.dataset_values import METADATA, NAME, TEXT, csv_text

TEXTS = {
    "q1": "does a flight above 500 dollars need manager approval",
    "q2": "what hotel reimbursement limit applies to business travel",
}
ANSWERS = {
    "q1": "Flights above 500 dollars require manager approval before booking business travel.",
    "q2": "Hotel reimbursement is capped at 180 dollars per night unless finance approves an exception.",
}
DOCUMENTS = [
    {"doc_id": "travel_policy_2", "text": ANSWERS["q1"], "metadata": {"source": "travel_policy.md", "section": "flight_approval"}},
    {"doc_id": "travel_policy_3", "text": ANSWERS["q2"], "metadata": {"source": "travel_policy.md", "section": "hotel_cap"}},
]  # fmt: skip
JSON_WITH_ANSWERS = {
    "queries": [
        {"query_id": "q1", "query_text": TEXTS["q1"], "expected_answers": [ANSWERS["q1"]]},
        {"query_id": "q2", "query_text": TEXTS["q2"], "expected_answers": [ANSWERS["q2"]]},
    ],
    "documents": DOCUMENTS,
}
JSON_WITH_IDS = {
    "queries": [
        {"query_id": "q1", "query_text": TEXTS["q1"], "relevant_doc_ids": ["travel_policy_2"]},
        {"query_id": "q2", "query_text": TEXTS["q2"], "relevant_doc_ids": ["travel_policy_3"]},
    ],
    "documents": DOCUMENTS,
}
CSV_WITH_ANSWERS = """query_id,query_text,expected_answers
q1,does a flight above 500 dollars need manager approval,"[""Flights above 500 dollars require manager approval before booking business travel.""]"
q2,what hotel reimbursement limit applies to business travel,"[""Hotel reimbursement is capped at 180 dollars per night unless finance approves an exception.""]"
"""
CSV_WITH_IDS = """query_id,query_text,relevant_doc_ids
q1,does a flight above 500 dollars need manager approval,"[""travel_policy_2""]"
q2,what hotel reimbursement limit applies to business travel,"[""travel_policy_3""]"
"""
ANSWERED = {query_id: ((), [answer]) for query_id, answer in ANSWERS.items()}
IDENTIFIED = {"q1": (("travel_policy_2",), []), "q2": (("travel_policy_3",), [])}


def labels(dataset):
    return {query.query_id: (query.relevant_documents, query.expected_answers) for query in dataset.queries}


def from_json(tmp_path, value, **options):
    path = tmp_path / "flights.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return read_evret_dataset(path, **options)


def from_csv(tmp_path, text, **options):
    path = tmp_path / "flights.csv"
    path.write_text(text, encoding="utf-8")
    return read_evret_dataset(path, **options)


@pytest.mark.parametrize(("value", "expected"), [(JSON_WITH_ANSWERS, ANSWERED), (JSON_WITH_IDS, IDENTIFIED)])
def test_the_specifications_json_examples(value, expected, tmp_path):
    dataset, findings = from_json(tmp_path, value)

    assert findings == ()
    assert {query.query_id: query.query_text for query in dataset.queries} == TEXTS
    assert labels(dataset) == expected
    assert [query.ground_truth_answer for query in dataset.queries] == [None, None]
    assert dataset.documents == tuple(
        SourceDocument(document_id=one["doc_id"], content=one["text"], metadata=one["metadata"]) for one in DOCUMENTS
    )


@pytest.mark.parametrize(("text", "expected"), [(CSV_WITH_ANSWERS, ANSWERED), (CSV_WITH_IDS, IDENTIFIED)])
def test_the_specifications_csv_examples(text, expected, tmp_path):
    dataset, findings = from_csv(tmp_path, text)

    assert findings == ()
    assert {query.query_id: query.query_text for query in dataset.queries} == TEXTS
    assert labels(dataset) == expected
    assert dataset.documents is None


@pytest.mark.parametrize("name", ["flights.json", "flights_v1.2.0.json", "flights_v1.2.0.evret.json"])
def test_id_and_version_come_from_the_files_name(name, tmp_path):
    path = tmp_path / name
    path.write_text(json.dumps(JSON_WITH_IDS))

    dataset = EvaluationDataset.from_json(path)

    assert (dataset.dataset_id, dataset.name) == ("flights", "flights")
    assert dataset.version == ("1.2.0" if "_v" in name else "0.0.0")


def test_from_json_and_from_csv_tell_the_two_forms_apart(tmp_path):
    dataset = from_json(tmp_path, JSON_WITH_IDS).dataset
    dataset.write(tmp_path / "ours.eval.json")
    (tmp_path / "ours.eval.csv").write_bytes(csv_text(dataset))
    (tmp_path / "theirs.csv").write_text(CSV_WITH_IDS)

    assert EvaluationDataset.from_json(str(tmp_path / "ours.eval.json")) == dataset
    assert EvaluationDataset.from_csv(str(tmp_path / "ours.eval.csv")) == dataset
    assert labels(EvaluationDataset.from_csv(tmp_path / "theirs.csv")) == IDENTIFIED


FIELDS = {
    #                                query                                                            id     labels           answers
    "short names":                  ({"id": "a", "query": "?"},                                       "a",   (),              []),
    "the legacy label":             ({"id": "a", "query": "?", "relevant_docs": ["d"]},               "a",   ("d",),          []),
    "the newer label":              ({"id": "a", "query": "?", "expected_doc_ids": ["d"]},            "a",   ("d",),          []),
    "two names of one list":        ({"id": "a", "query": "?", "relevant_docs": ["d"],
                                      "relevant_doc_ids": ["d"]},                                     "a",   ("d",),          []),
    "an empty list and a full one": ({"id": "a", "query": "?", "relevant_doc_ids": [],
                                      "relevant_docs": ["d"]},                                        "a",   ("d",),          []),
    "both kinds":                   ({"id": "a", "query": "?", "relevant_doc_ids": ["d"],
                                      "expected_answers": ["x, y"]},                                  "a",   ("d",),          ["x, y"]),
    "case and spaces are kept":     ({"id": "a", "query": "?", "relevant_doc_ids": ["Doc ", "doc"]},  "a",   ("Doc ", "doc"), []),
    "a label twice counts once":    ({"id": "a", "query": "?", "relevant_doc_ids": ["d", "d"]},       "a",   ("d",),          []),
    "a number as id":               ({"id": 7, "query": "?", "relevant_doc_ids": [12]},               "7",   ("12",),         []),
    "no id":                        ({"query": "?", "relevant_doc_ids": ["d"]},                       "q1",  ("d",),          []),
}  # fmt: skip


@pytest.mark.parametrize(("query", "query_id", "documents", "answers"), FIELDS.values(), ids=FIELDS)
def test_field_names_of_three_ages(query, query_id, documents, answers, tmp_path):
    dataset, _ = from_json(tmp_path, {"queries": [query]})

    assert labels(dataset) == {query_id: (documents, answers)}
    assert dataset.queries[0].query_text == "?"


CELLS = {
    #                                   cell                       labels
    "a JSON list":                      ('["a, b","c"]',           ["a, b", "c"]),
    "texts between commas":             ("a, b ,,c",               ["a", "b", "c"]),
    "one text":                         ("a",                      ["a"]),
    "a number is one label":            ("12",                     ["12"]),
    "a number keeps its digits":        ("1.50",                   ["1.50"]),
    "numbers in a list keep theirs":    ("[12, 1.50]",             ["12", "1.50"]),
    "a truth is one label":             ("true",                   ["true"]),
    "a JSON text is one label":         ('"a, b"',                 ["a, b"]),
    "an empty cell":                    ("",                       []),
    "null":                             ("null",                   []),
    "an empty list":                    ("[]",                     []),
}  # fmt: skip


@pytest.mark.parametrize("column", ["relevant_doc_ids", "relevant_docs", "expected_doc_ids", "expected_answers"])
@pytest.mark.parametrize(("cell", "expected"), CELLS.values(), ids=CELLS)
def test_label_cells(cell, expected, column, tmp_path):
    quoted = '"' + cell.replace('"', '""') + '"'
    dataset, findings = from_csv(tmp_path, f"id,query,{column}\n7,Who?,{quoted}\n")

    query = dataset.queries[0]
    both = [list(query.relevant_documents), query.expected_answers]
    assert both == ([[], expected] if column == "expected_answers" else [expected, []])
    # Document ids hold no commas; answers do, and are cut in the middle.
    is_cut = column == "expected_answers" and cell == "a, b ,,c"
    assert [found.code for found in findings] == (["comma_split"] if is_cut else [])


BAD_CELLS = ["['a']", "[1", '{"a": 1}', '[["a"]]', "[true]", '[""]', '["a", null]']


@pytest.mark.parametrize("cell", BAD_CELLS)
def test_cells_that_look_like_json_and_are_no_list_of_texts_are_refused(cell, tmp_path):
    quoted = '"' + cell.replace('"', '""') + '"'

    with pytest.raises(InputError) as error:
        from_csv(tmp_path, f"id,query,relevant_doc_ids\na,Who?,{quoted}\n")

    assert (error.value.code, error.value.row, error.value.field) == ("bad_labels", 1, "relevant_doc_ids")


BAD = {
    #                                queries                                                                         code
    "no text":                      ([{"id": "a"}],                                                                  "empty_question"),
    "a blank text":                 ([{"id": "a", "query": " "}],                                                    "empty_question"),
    "an id twice":                  ([{"id": "a", "query": "?"}, {"id": "a", "query": "!"}],                         "duplicate_id"),
    "an id that a row without has": ([{"query": "?"}, {"id": "q1", "query": "!"}],                                   "duplicate_id"),
    "a list as id":                 ([{"id": ["a"], "query": "?"}],                                                  "bad_format"),
    "labels that are one text":     ([{"id": "a", "query": "?", "relevant_doc_ids": "a,b"}],                         "bad_labels"),
    "a label that is an object":    ([{"id": "a", "query": "?", "relevant_doc_ids": [{}]}],                          "bad_labels"),
    "two lists that differ":        ([{"id": "a", "query": "?", "relevant_docs": ["d"], "relevant_doc_ids": ["e"]}], "two_labels"),
    "a query that is a text":       (["?"],                                                                          "bad_format"),
    "queries that are an object":   ({},                                                                             "bad_format"),
    "no queries":                   (None,                                                                           "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("queries", "code"), BAD.values(), ids=BAD)
def test_bad_queries(queries, code, tmp_path):
    with pytest.raises(InputError) as error:
        from_json(tmp_path, {"queries": queries})

    assert error.value.code == code


BAD_DOCUMENTS = {
    "no id": {"text": "x"},
    "no text": {"doc_id": "a"},
    "a number as text": {"doc_id": "a", "text": 5},
    "metadata that is a list": {"doc_id": "a", "text": "x", "metadata": []},
    "a text": "a",
}


@pytest.mark.parametrize("document", BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS)
def test_bad_documents_are_named_by_their_place(document, tmp_path):
    with pytest.raises(InputError) as error:
        from_json(tmp_path, {"queries": [], "documents": [{"doc_id": "0", "text": ""}, document]})

    assert error.value.code == "bad_format"
    assert error.value.field.startswith("documents[1]")


def test_a_document_id_stands_once(tmp_path):
    with pytest.raises(InputError) as error:
        from_json(tmp_path, {"queries": [], "documents": DOCUMENTS + DOCUMENTS[:1]})

    assert (error.value.code, error.value.field) == ("duplicate_id", "documents[2].doc_id")


def test_strict_refuses_both_kinds_of_labels_in_one_query_only(tmp_path):
    one, other = (
        {"id": "a", "query": "?", "relevant_doc_ids": ["d"]},
        {"id": "b", "query": "?", "expected_answers": ["x"]},
    )

    assert len(from_json(tmp_path, {"queries": [one, other]}, strict=True).dataset.queries) == 2
    with pytest.raises(InputError) as error:
        from_json(tmp_path, {"queries": [other, one | {"expected_answers": ["x"]}]}, strict=True)
    assert (error.value.code, error.value.row) == ("two_labels", 2)


def test_rows_without_ids_are_one_warning_that_names_them(tmp_path):
    findings = from_csv(tmp_path, "query,relevant_docs\n" + "Who?,a\n" * 7).findings

    assert [(found.severity, found.code, found.field) for found in findings] == [("warning", "missing_id", "query_id")]
    assert "rows 1, 2, 3, 4, 5, ... (7 in all)" in str(findings[0])


def test_fields_of_others_are_kept_in_metadata_and_named(tmp_path):
    dataset, findings = from_csv(tmp_path, "id,query,relevant_docs,category,note\na,Who?,d,direct_fact,\n")

    assert dataset.queries[0].metadata == {"category": "direct_fact"}
    assert [(found.code, found.field) for found in findings] == [("unknown_field", "category")]


CSV_FAULTS = {
    "no header": ("", "bad_csv"),
    "no question column": ("id,relevant_docs\na,d\n", "missing_column"),
    "a column twice": ("id,query,query\na,b,c\n", "bad_csv"),
    "a long row": ("id,query\na,b,c\n", "bad_csv"),
    "a quote that does not close": ('id,query\na,"b\n', "bad_csv"),
}


@pytest.mark.parametrize(("text", "code"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_csv_that_is_none(text, code, tmp_path):
    with pytest.raises(InputError) as error:
        from_csv(tmp_path, text)

    assert error.value.code == code


def test_a_csv_file_of_another_encoding_is_refused_and_a_byte_order_mark_is_not(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("id,query,relevant_docs\na,Où?,d\n".encode("latin-1"))
    with pytest.raises(InputError) as error:
        read_evret_dataset(path)
    path.write_bytes("id,query,relevant_docs\na,Où?,d\n".encode("utf-8-sig"))

    assert error.value.code == "bad_encoding"
    assert read_evret_dataset(path).dataset.queries[0].query_id == "a"


LABEL = TEXT.filter(str.strip)
QUERIES = st.lists(
    st.builds(
        EvaluationQuery,
        query_id=NAME,
        query_text=LABEL,
        relevant_documents=st.lists(LABEL, max_size=3, unique=True).map(tuple),
        ground_truth_answer=st.none() | TEXT,
        metadata=st.one_of(
            st.just({}),
            st.lists(LABEL, min_size=1, max_size=2, unique=True).map(lambda some: {"expected_answers": some}),
        ),
    ),
    max_size=4,
    unique_by=lambda query: query.query_id,
).map(tuple)
DOCUMENT_LISTS = st.none() | st.lists(
    st.builds(SourceDocument, document_id=NAME, content=TEXT, metadata=METADATA),
    max_size=3,
    unique_by=lambda one: one.document_id,
).map(tuple)


def judged(dataset):
    return [
        (query.query_id, query.query_text, query.relevant_documents, query.expected_answers)
        for query in dataset.queries
    ]


@given(queries=QUERIES, documents=DOCUMENT_LISTS)
def test_reading_gives_the_ids_texts_labels_and_documents_that_were_written(queries, documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evret")
    dataset = EvaluationDataset(dataset_id="d", name="D", version="1.0.0", queries=queries, documents=documents)
    rows = [
        {"query_id": query.query_id, "query_text": query.query_text, "relevant_doc_ids": list(query.relevant_documents),
         "expected_answers": query.expected_answers}
        for query in queries
    ]  # fmt: skip
    bodies = [{"doc_id": one.document_id, "text": one.content, "metadata": one.metadata} for one in documents or ()]
    value = {"queries": rows} | ({} if documents is None else {"documents": bodies})
    (folder / "d_v1.0.0.json").write_text(json.dumps(value))
    (folder / "d_v1.0.0.json.gz").write_bytes(gzip.compress(json.dumps(value).encode()))
    cells = [row | {name: json_cell(row[name]) for name in ("relevant_doc_ids", "expected_answers")} for row in rows]
    columns = ["query_id", "query_text", "relevant_doc_ids", "expected_answers"]
    (folder / "d_v1.0.0.csv").write_bytes(csv_bytes(columns, cells))

    for name in ("d_v1.0.0.json", "d_v1.0.0.json.gz"):
        read = EvaluationDataset.from_json(folder / name)
        assert (judged(read), read.documents) == (judged(dataset), documents)
        assert (read.dataset_id, read.version) == ("d", "1.0.0")
    assert judged(EvaluationDataset.from_csv(folder / "d_v1.0.0.csv")) == judged(dataset)
