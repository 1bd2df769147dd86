"""An evaluation dataset is the same in every form, and its references are looked up where they can be."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import (
    DatasetMetadata,
    EvaluationDataset,
    EvaluationQuery,
    SourceDocument,
    read_evaluation_dataset,
)
from rag_eval_pipeline.formats.validation import (
    DocumentRegistry,
    check_dataset,
    without_extension,
)
from tests.formats.dataset_values import DATASETS, csv_text

QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}
DATASET = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": [QUERY]}


@pytest.mark.parametrize("form", [".eval.json", ".eval.json.gz", ".eval.csv"])
@given(dataset=DATASETS)
def test_dataset_round_trips(form, dataset, tmp_path_factory):
    path = tmp_path_factory.mktemp("datasets") / f"d{form}"
    if form.endswith(".csv"):
        path.write_bytes(csv_text(dataset))
    else:
        text = dataset.model_dump_json(exclude_none=True).encode()
        path.write_bytes(gzip.compress(text) if form.endswith(".gz") else text)

    assert read_evaluation_dataset(path) == (dataset, ())
    assert EvaluationDataset.read(path) == dataset


def test_dataset_of_unknown_form_is_not_read(tmp_path):
    with pytest.raises(InputError) as error:
        read_evaluation_dataset(tmp_path / "d.eval.txt")

    assert error.value.code == "unknown_form"


OLDER = {
    #                        file name                  absent                  name  version
    "version in the name":  ("d_v2.1.0.eval.json.gz",   {"version"},            "D", "2.1.0"),
    "version nowhere":      ("d.eval.json",             {"version"},            "D", "0.0.0"),
    "neither, in YAML":     ("d_v2.1.0-rc.1.eval.yaml", {"name", "version"},    "d", "2.1.0-rc.1"),
}  # fmt: skip


@pytest.mark.fault(40)
@pytest.mark.parametrize(("file", "absent", "name", "version"), OLDER.values(), ids=OLDER)
def test_dataset_of_the_older_form_is_filled_in_with_a_warning(file, absent, name, version, tmp_path):
    path = tmp_path / file
    text = json.dumps({key: value for key, value in DATASET.items() if key not in absent}).encode()
    path.write_bytes(gzip.compress(text) if file.endswith(".gz") else text)  # JSON is YAML

    dataset, findings = read_evaluation_dataset(path)

    assert (dataset.name, dataset.version) == (name, version)
    assert [(found.severity, found.error.code) for found in findings] == [("warning", "older_form")]
    missing = " and ".join(key for key in ("name", "version") if key in absent)
    assert f"expected the fields {missing} [older_form]. Read as " in str(findings[0])


BAD = {
    #                                  text                                                  code
    "half a file":                    (json.dumps(DATASET)[:40],                             "bad_json"),
    "a number instead of text":       (json.dumps(DATASET | {"name": 5}),                    "bad_format"),
    "a text instead of a number":     (json.dumps(DATASET | {"metadata": {"size": "5"}}),    "bad_format"),
    "a query id twice":               (json.dumps(DATASET | {"queries": [QUERY, QUERY]}),    "duplicate_id"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), BAD.values(), ids=BAD)
def test_dataset_with_bad_content_is_refused_in_one_line(text, code, tmp_path):
    path = tmp_path / "d_v1.0.0.eval.json"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        EvaluationDataset.read(path)

    assert error.value.code == code
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_dataset_error_names_the_other_errors(tmp_path):
    path = tmp_path / "d.eval.json"
    path.write_text(json.dumps(DATASET | {"name": 5, "dataset_id": 5, "querys": []}))

    with pytest.raises(InputError, match=r" 2 more errors: name, querys\.$"):
        EvaluationDataset.read(path)


def test_dataset_in_yaml_reads_unquoted_scalars_by_the_field(tmp_path):
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

    path.write_text("dataset_id: d\nname: D\nversion: 1.0.0\nmetadata: {size: '1'}\nqueries: []\n")
    with pytest.raises(InputError) as error:  # a quoted number is text
        EvaluationDataset.read(path)
    assert (error.value.code, error.value.field) == ("bad_format", "metadata.size")


HEADER = "dataset_id,name,version,query_id,query_text,relevant_documents"
CSV = {
    #                            text                                                             found
    "rows sorted otherwise":    (f"{HEADER}\n,,,0,Who?,[]\nd,D,1.0.0,1,When?,[]\n",              None),
    "two ids":                  (f"{HEADER}\nd,D,1.0.0,0,Who?,[]\ne,,,1,When?,[]\n",             'row 2, field "dataset_id"'),
    "no JSON":                  (f"{HEADER}\nd,D,1.0.0,0,Who?,a.pdf\n,,,1,When?,[]\n",           'row 1, field "relevant_documents"'),
    "no text":                  (f"{HEADER}\nd,D,1.0.0,0,Who?,[]\n,,,1,,[]\n",                   'row 2, field "query_text"'),
    "an unknown column":        (f"{HEADER},answer\nd,D,1.0.0,0,Who?,x,\n",                      "'answer'"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "found"), CSV.values(), ids=CSV)
def test_dataset_in_csv(text, found, tmp_path):
    path = tmp_path / "d.eval.csv"
    path.write_text(text)

    if found is None:
        assert [query.query_id for query in EvaluationDataset.read(path).queries] == ["0", "1"]
        return
    with pytest.raises(InputError) as error:
        EvaluationDataset.read(path)
    assert found in str(error.value)


@pytest.mark.parametrize("value", [float("nan"), [1, float("inf")], {1}, {1: 2}])
def test_dataset_metadata_is_what_json_can_carry(value):
    with pytest.raises(ValueError, match=r"."):
        EvaluationQuery(query_id="0", query_text="?", relevant_documents=(), metadata={"x": value})
    with pytest.raises(ValueError, match=r"."):
        DatasetMetadata(x=value)


ANSWERS = {
    #                        metadata                                              answer   accepted
    "the answer alone":      ({"is_impossible": "false"},                           "x",     ["x"]),
    "all that are listed":   ({"answers": ["x", 2]},                                "x",     ["x", "2"]),
    "impossible":            ({"is_impossible": True, "answers": ["x"]},            None,    []),
}  # fmt: skip


@pytest.mark.parametrize(("metadata", "answer", "accepted"), ANSWERS.values(), ids=ANSWERS)
def test_query_accepts_answers(metadata, answer, accepted):
    query = EvaluationQuery(
        query_id="0", query_text="?", relevant_documents=(), metadata=metadata, ground_truth_answer=answer
    )

    assert query.accepted_answers == accepted
    assert query.is_impossible is (metadata.get("is_impossible") is True)


def query(relevant=("a.pdf",), cited=(), query_id="0", **fields):
    citations = tuple(CitationSpan(file_name=name, start_char=0, end_char=end) for name, end in cited)
    return EvaluationQuery(
        query_id=query_id, query_text="?", relevant_documents=relevant, citations=citations, **fields
    )


def checked(queries, documents=None, corpus=None, **metadata):
    dataset = EvaluationDataset(
        dataset_id="d", name="D", version="1.0.0", queries=tuple(queries), documents=documents,
        metadata=DatasetMetadata(**metadata),
    )  # fmt: skip
    findings = check_dataset(dataset, Path("d.eval.json"), corpus=corpus)
    return [(one.severity, one.error.code, one.error.field) for one in findings]


A = SourceDocument(document_id="a.pdf", content="twelve chars", title="A", file_path="docs/a.pdf")
UNCHECKED = ("info", "references_unchecked", None)
CHECKS = {
    #                                  queries                                                    documents  found
    "nothing to look references up in": ([query()],                                               None,      [UNCHECKED]),
    "a document missing":              ([query(("a.pdf", "b.pdf"))],                              (A,),
                                        [("error", "missing_document", "queries[0].relevant_documents[1]")]),
    "a cited document missing":        ([query(cited=[("a.pdf", 4), ("c.pdf", 4)])],              (A,),
                                        [("error", "missing_document", "queries[0].citations[1].file_name"),
                                         ("warning", "cited_not_relevant", "queries[0].citations")]),
    "one document by three names":     ([query(("docs/a.pdf",), cited=[("a", 4), ("A", 4)])],     (A,),      []),
    "cited but not relevant":          ([query(("a.pdf",), cited=[("a.pdf", 4), ("b.pdf", 4)])],  None,
                                        [UNCHECKED, ("warning", "cited_not_relevant", "queries[0].citations")]),
    "relevant but not cited":          ([query(("a.pdf", "b.pdf"), cited=[("a.pdf", 4)])],        None,
                                        [UNCHECKED, ("info", "relevant_not_cited", "queries[0].citations")]),
    "a span behind the text":          ([query(cited=[("a.pdf", 13)])],                           (A,),
                                        [("warning", "span_out_of_bounds", "queries[0].citations[0].end_char")]),
    "no label":                        ([query(())],                                              None,
                                        [("warning", "unlabelled_query", "queries")]),
    "no questions":                    ([],                                                       None,
                                        [("warning", "no_questions", "queries")]),
}  # fmt: skip


@pytest.mark.parametrize(("queries", "documents", "expected"), CHECKS.values(), ids=CHECKS)
def test_dataset_checks_references_citations_and_labels(queries, documents, expected):
    assert checked(queries, documents) == expected


@pytest.mark.fault(39)
def test_dataset_checks_references_in_a_corpus(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.pdf", "sub/a.pdf", "b.pdf", "A%20b#c.pdf", ".hidden.pdf"):
        (tmp_path / name).touch()

    names = ("b", "c.pdf", "sub/a.pdf", "a.pdf", "A%20b#c", "A b#c.pdf", ".hidden.pdf")
    assert checked([query(names)], corpus=tmp_path) == [
        ("error", "missing_document", "queries[0].relevant_documents[1]"),
        ("error", "ambiguous_document", "queries[0].relevant_documents[3]"),  # the path would say which
        ("error", "missing_document", "queries[0].relevant_documents[5]"),
    ]


def test_dataset_checks_size_and_language():
    assert checked([query()], (A,), size=2, language="eng") == [
        ("warning", "wrong_size", "metadata.size"),
        ("warning", "bad_language", "metadata.language"),
    ]
    assert checked([query()], (A,), size=1, language="en") == []


STEMS = {"report.PDF": "report", "a.pdf.txt": "a.pdf", "Smith_v._Jones": "Smith_v._Jones", ".pdf": ".pdf"}


@pytest.mark.parametrize(("name", "stem"), STEMS.items())
def test_registry_drops_only_a_known_extension_at_the_end(name, stem):
    assert without_extension(name) == stem


GUIDE = SourceDocument(document_id="doc_001", content="", title="The Guide", file_path="docs/tool.pdf")
MEANINGS = {
    "doc_001.pdf": "doc_001", "tool.pdf": "doc_001", "tool.md": "doc_001", "docs/tool.pdf": "doc_001",
    "The Guide": "doc_001", "notes.txt": "notes", "Tool.pdf": None, "tool.exe": None, "other/tool.pdf": None,
    "Cafe\N{COMBINING ACUTE ACCENT}": "notes",
}  # fmt: skip


@pytest.mark.parametrize(("name", "document_id"), MEANINGS.items())
def test_registry_resolves_a_name(name, document_id):
    notes = SourceDocument(document_id="notes", content="", title="Caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    found = DocumentRegistry.from_documents([GUIDE, notes]).resolve(name)

    assert (None if found is None else found.document_id) == document_id
