"""`validate` returns the errors in a file, a line each; `examine` also returns warnings and what was not checked."""

import gzip
import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.validation import examine
from tests.formats.dataset_values import csv_text
from tests.formats.result_values import results_value
from tests.validation import validate

QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}
DATASET = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": [QUERY]}
SPAN = {"file_name": "a.pdf", "start_char": 4, "end_char": 9}
# Evaluation Data Formats 2.1, example.
SPECIFIED = """{"dataset_id": "personal_rag_eval_v1.0.0", "name": "Personal RAG Evaluation Dataset", "version": "1.0.0",
    "description": "Comprehensive evaluation dataset for personal knowledge retrieval",
    "created_at": "2025-08-30T12:00:00Z",
    "metadata": {"domain": "personal", "language": "en", "size": 500, "avg_query_length": 45, "source": "synthetic"},
    "queries": [{"query_id": "query_001", "query_type": "factual", "difficulty": "medium",
        "query_text": "What are the key features of the new project management tool?",
        "relevant_documents": ["doc_001", "doc_002"],
        "ground_truth_answer": "The new project management tool includes features such as task tracking, team collaboration, time management, and reporting capabilities.",
        "citations": [{"file_name": "project_tool_guide.pdf", "page_number": 3, "start_char": 1250, "end_char": 1350,
            "confidence_score": 0.95, "context_text": "Key features include task tracking and team collaboration..."}],
        "metadata": {"expected_answer_length": 150, "num_relevant_docs": 2}}],
    "documents": [{"document_id": "doc_001", "title": "Project Management Tool Overview",
        "content": "The new project management tool provides comprehensive features for team collaboration...",
        "file_path": "docs/project_tool.pdf",
        "metadata": {"author": "Product Team", "created_date": "2025-08-01", "word_count": 1250}}]}"""


def written(path, value):
    text = value.encode() if isinstance(value, str) else json.dumps(value).encode()  # JSON is YAML
    if path.name.endswith("eval.csv"):
        text = csv_text(EvaluationDataset.model_validate(value))
    path.write_bytes(gzip.compress(text) if path.name.endswith(".gz") else text)
    return path


def test_validation_of_the_specifications_dataset(tmp_path):
    path = written(tmp_path / "personal_rag_eval_v1.0.0.eval.json", SPECIFIED)

    assert EvaluationDataset.read(path).queries[0].citations[0].end_char == 1350
    assert {(found.severity, found.error.code, found.error.field) for found in examine(path)} == {
        ("warning", "wrong_size", "metadata.size"),
        ("error", "missing_document", "queries[0].relevant_documents[1]"),  # doc_002
        ("error", "missing_document", "queries[0].citations[0].file_name"),  # neither an id nor a file nor a title
        ("warning", "cited_not_relevant", "queries[0].citations"),
        ("info", "relevant_not_cited", "queries[0].citations"),
    }


# Evaluation Data Formats 2.3, example, and the least that 3.3 requires.
RESULTS = {
    "example": {
        "evaluation_id": "eval_run_20250830_001", "timestamp": "2025-08-30T13:00:00Z",
        "system_version": "personal-rag-v2.1.0", "dataset_id": "personal_rag_eval_v1.0.0",
        "configuration": {"model": "gpt-4", "retrieval_k": 5},
        "summary": {"total_queries": 500, "successful_queries": 495, "failed_queries": 5, "average_latency_ms": 1250,
                    "total_evaluation_time_seconds": 675},
        "retrieval_metrics": {"hit@1": {"value": 0.72, "confidence_interval": [0.68, 0.76]}},
        "citation_metrics": {"citation_completeness": {"value": 0.88, "total_claims": 1250, "cited_claims": 1100}},
        "answer_quality_metrics": {"factual_consistency": {"value": 0.89, "mean_consistency": 0.87}},
        "performance_metrics": {"latency_stats": {"mean": 1250}, "resource_usage": {"cpu_percent": {"mean": 45}},
                                "api_usage": {"total_tokens": 125000}},
        "query_results": [{"query_id": "query_001", "latency_ms": 1150,
            "retrieval_results": {"retrieved_docs": ["doc_001"], "relevance_scores": [0.92]},
            "citations": [{"file_name": "a.pdf", "page_number": 3, "start_char": 1250, "end_char": 1350}],
            "individual_metrics": {"hit@3": 1.0}}],
        "statistical_analysis": {"significance_tests": {"x": {"p_value": 0.02}}},
        "metadata": {"quality_assurance": {"data_validation": "passed"}},
    },
    "least": {"evaluation_id": "e1", "retrieval_metrics": {"hit@1": {"value": 0.5}}},
}  # fmt: skip


@pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS)
def test_results_of_other_tools_are_read_and_valid(value, tmp_path):
    path = written(tmp_path / f"{value['evaluation_id']}.results.json", value)

    results = EvaluationResults.read(path)

    assert [finding for finding in examine(path) if finding.severity == "error"] == []
    assert results.retrieval_metrics["hit@1"].value == value["retrieval_metrics"]["hit@1"]["value"]
    exact_match = results.answer_quality_metrics.exact_match
    assert (exact_match.value, exact_match.reason) == (None, "not_stated")
    named = (results.benchmark, results.dataset_version, results.system)
    assert named == (
        ("personal_rag_eval", "1.0.0", "personal-rag-v2.1.0")
        if "dataset_id" in value
        else ("not_stated", "0.0.0", "not_stated")
    )


def test_citation_states_no_nulls():
    span = CitationSpan(file_name="a.pdf", start_char=1, end_char=2)

    assert json.loads(span.model_dump_json()) == {"file_name": "a.pdf", "start_char": 1, "end_char": 2}


def test_validation_names_every_error_with_its_place(tmp_path):
    bad = QUERY | {"query_id": 5, "citations": [SPAN | {"start_char": "4"}, SPAN | {"end_char": 4}]}
    path = written(tmp_path / "d_v1.0.0.eval.json", DATASET | {"name": None, "queries": [QUERY, bad]})

    findings = examine(path)

    assert [found.error.field for found in findings] == [
        "name", "queries[1].query_id", "queries[1].citations[0].start_char", "queries[1].citations[1]",
    ]  # fmt: skip
    lines = [str(found) for found in findings]
    assert all(line.startswith(str(path)) and "\n" not in line for line in lines)
    assert 'field "queries[1].query_id": expected a valid string, found 5 [bad_format]' in lines[1]
    assert "found" not in lines[3]  # the input would be the whole citation
    assert validate(path) == lines


def test_validation_of_a_csv_names_row_and_column(tmp_path):
    path = tmp_path / "d.eval.csv"
    path.write_text(
        "dataset_id,name,version,query_id,query_text,relevant_documents,difficulty\n"
        'd,D,1.0.0,0,Who?,[],easy\n,,,1,When?,"[1]",\n,,,2,Why?,[],unheard of\n'
    )

    assert [(found.error.row, found.error.field, found.error.code) for found in examine(path)] == [
        (2, "relevant_documents[0]", "bad_format"),
        (3, "difficulty", "bad_format"),
    ]


@pytest.mark.parametrize("form", [".eval.json.gz", ".eval.yml", ".eval.csv", ".json"])
def test_validation_recognises_every_form_of_a_dataset(form, tmp_path):
    assert validate(written(tmp_path / f"d_v1.0.0{form}", DATASET)) == []
    [line] = validate(written(tmp_path / f"e_v1.0.0{form}", DATASET | {"documents": []}))
    assert "[missing_document]" in line


ROW = {"id": 0, "question": "q", "answer": "a", "is_impossible": False, "contexts": []}


def train(tmp_path, rows):
    path = written(tmp_path / "train.json", rows)
    return [(found.severity, found.error.code, found.error.row, found.error.field) for found in examine(path)]


def test_validation_of_train_json_finds_documents_that_the_corpus_lacks(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "A%20b.pdf").touch()
    contexts = [{"filename": "A%20b.pdf"}, "plain", {"filename": "A b.pdf"}]

    assert train(tmp_path, [ROW | {"contexts": contexts}]) == [("error", "missing_file", 1, "contexts[2].filename")]
    assert validate(tmp_path / "train.json") == [
        f'{tmp_path / "train.json"}, row 1, field "contexts[2].filename": '
        "expected the exact name of a file in the corpus, found 'A b.pdf' [missing_file]."
    ]


TRAIN = {
    #                                      rows                                                            found
    "no rows":                          ([],                                                             [("warning", "no_questions", None, None)]),
    "an empty answer of one":           ([ROW, ROW | {"id": 1, "answer": ""}],                           [("error", "empty_answer", 2, "answer")]),
    "no answer at all":                 ([ROW | {"answer": ""}, ROW | {"id": 1, "answer": " "}],         [("info", "retrieval_only", None, "answer")]),
    "an id twice":                      ([ROW, ROW],                                                     [("error", "duplicate_id", 2, "id")]),
    "a blank question":                 ([ROW | {"question": " "}],                                      [("error", "empty_question", 1, "question")]),
    "documents without a corpus":       ([ROW | {"contexts": [{"filename": "a.pdf"}]}],                  [("info", "references_unchecked", None, None)]),
    "each bad row":                     ([ROW | {"id": "0"}, ROW, ROW | {"contexts": [{"text": "x"}]}],
                                         [("error", "bad_format", 1, "id"), ("error", "bad_format", 3, "contexts[0]")]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), TRAIN.values(), ids=TRAIN)
def test_validation_of_train_json(rows, expected, tmp_path):
    assert train(tmp_path, rows) == expected


CITED = SPAN | {"text": "Who?"}
ANNOTATION = {"annotation_id": "a", "query_id": "0", "annotator_id": "p", "citations": [CITED]}
TRUTHS = {
    #                              annotations                                                     codes
    "two errors in two":         ([ANNOTATION | {"citations": 5}, {"annotation_id": "b"}],       ["bad_format", "unknown_kind"]),
    "an id twice":               ([ANNOTATION, ANNOTATION],                                      ["duplicate_id"]),
}  # fmt: skip


@pytest.mark.parametrize(("annotations", "codes"), TRUTHS.values(), ids=TRUTHS)
def test_validation_of_ground_truth(annotations, codes, tmp_path):
    truth = {"dataset_id": "d", "version": "1.0.0", "annotations": annotations}
    path = written(tmp_path / "d_v1.0.0.gt.json.gz", truth)

    assert [found.error.code for found in examine(path)] == codes


RESULTS = results_value()
SUMMARY = RESULTS["summary"]
RESULT_CASES = {
    #                               change                                                             fields
    "more queries than rows":     ({"summary": SUMMARY | {"total_queries": 2, "failed_queries": 1}}, ["summary.total_queries"]),
    "counts that do not add up":  ({"summary": SUMMARY | {"failed_queries": 1}},                     ["summary.successful_queries"]),
    "a query twice":              ({"query_results": RESULTS["query_results"] * 2,
                                    "summary": SUMMARY | {"total_queries": 2, "successful_queries": 2}},
                                   ["query_results.query_id"]),
    "an unknown key":             ({"rows": []},                                                     ["rows"]),
}  # fmt: skip


@pytest.mark.parametrize(("change", "fields"), RESULT_CASES.values(), ids=RESULT_CASES)
def test_validation_of_results(change, fields, tmp_path):
    path = written(tmp_path / "e.results.json", RESULTS | change)

    assert [found.error.field for found in examine(path)] == fields


EVRET = {
    #                        file          content                                                               errors
    "good CSV":            ("x.csv",     "id,query,relevant_docs,expected_answers\na,?,d,x\nb,?,,\n",          []),
    "two errors":          ("x.json",    '{"queries": [{"id": "a"}, {"id": "b", "query": "?", "relevant_docs": 1}]}',
                            ["empty_question", "bad_labels"]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "codes"), EVRET.values(), ids=EVRET)
def test_validation_recognises_evrets_files_by_their_content(name, text, codes, tmp_path):
    findings = examine(written(tmp_path / name, text))

    assert [found.error.code for found in findings if found.severity == "error"] == codes
    if name == "x.csv":
        assert [found.error.code for found in findings] == ["references_unchecked", "unlabelled_query"]


UNKNOWN = {
    "an unknown name": ("data.txt", "{}"),
    "JSON of another kind": ("data.json", '{"rows": []}'),
}


@pytest.mark.parametrize(("name", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_validation_refuses_files_of_unknown_form(name, text, tmp_path):
    with pytest.raises(InputError) as error:
        validate(written(tmp_path / name, text))

    assert error.value.code == "unknown_form"


def test_validation_of_several_evaluations_asks_for_what_all_have(tmp_path):
    path = written(tmp_path / "benchmark_weekly_20250830.results.json", {"evaluation_id": "w"})

    assert [(found.error.code, found.error.field) for found in examine(path)] == [("bad_format", "retrieval_metrics")]


@pytest.mark.parametrize("name", ["train.json", "d.eval.yaml", "d.eval.csv", "d.gt.json", "e.results.json", "x.csv"])
def test_validation_of_arbitrary_bytes_is_one_line_each(name, tmp_path):
    with pytest.raises(InputError) as error:
        validate(tmp_path / name)
    assert error.value.code == "missing_file"

    for data in (b"", b"\xff\xfe", b"[" * 100_000, b"null", b"{}\n{}"):
        (tmp_path / name).write_bytes(data)
        try:
            findings = validate(tmp_path / name)
        except InputError as unknown:
            findings = [str(unknown)]  # a CSV without known columns
        assert findings
        assert all("\n" not in line for line in findings)
