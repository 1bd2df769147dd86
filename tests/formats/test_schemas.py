"""The committed JSON Schemas are those of the models and refuse what these do; other schema versions are refused by name.

The older form of a dataset, which is filled in with a warning: test_dataset.py.
"""

import json
import re
import runpy
from datetime import datetime
from pathlib import Path

import jsonschema
import pytest

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.validation import examine
from tests.formats.result_values import results_value
from tests.validation import validate

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "write_reference.py"))
SCHEMAS = TOOL["schemas"]()  # text by file name


def without(value, *keys):
    return {key: item for key, item in value.items() if key not in keys}


QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}
DATASET = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": [QUERY]}
ROW = {"id": 0, "question": "q", "answer": "a", "is_impossible": False, "contexts": []}
CITED = {"file_name": "a.pdf", "start_char": 0, "end_char": 4, "text": "Who?"}
ANNOTATION = {"annotation_id": "a", "query_id": "0", "annotator_id": "p", "citations": [CITED]}
SCORES = {"completeness": 0.9, "accuracy": 0.95, "relevance": 0.9, "clarity": 0.85, "conciseness": 0.8}
JUDGEMENT = without(ANNOTATION, "citations") | {"annotation_id": "b", "answer_text": "She.", "quality_scores": SCORES}
TRUTH = {"dataset_id": "d", "version": "1.0.0", "annotations": [ANNOTATION, JUDGEMENT]}
RESULTS = results_value()
FILES = {"evaluation_dataset": "d_v1.0.0.eval.json", "ground_truth": "d_v1.0.0.gt.json",
         "evaluation_results": "e.results.json", "train": "train.json"}  # fmt: skip


CITATIONS = [{"file_name": "a.pdf", "start_char": 0, "end_char": 4, "page_number": 1, "confidence_score": 1}]
GOOD = {
    "evaluation_dataset": {
        "the least": DATASET,
        "everything": DATASET | {
            "description": "x", "created_at": "2025-08-30T12:00:00Z", "schema_version": "1.0",
            "metadata": {"domain": "x", "language": "en", "size": 1, "avg_query_length": 4, "source": "x", "more": [1]},
            "queries": [QUERY | {"query_type": "temporal", "difficulty": "hard", "citations": CITATIONS}],
            "documents": [{"document_id": "a.pdf", "content": "", "title": "A", "metadata": {"author": "x"}}],
        },
    },
    "ground_truth": {"both kinds": TRUTH},
    "evaluation_results": {"one question": RESULTS},
    "train": {"contexts of both kinds": [ROW | {"contexts": [{"filename": "a.pdf", "text": "x"}, "plain"]}]},
}  # fmt: skip
BAD = {
    "evaluation_dataset": {
        "no id": without(DATASET, "dataset_id"),
        "an unknown key": DATASET | {"querys": []},
        "another query type": DATASET | {"queries": [QUERY | {"query_type": "multi-hop"}]},
        "a text as offset": DATASET | {"queries": [QUERY | {"citations": [CITED | {"start_char": "0"}]}]},
        "a time without a zone": DATASET | {"created_at": "2025-08-30T12:00:00"},
    },
    "ground_truth": {
        "no file name": TRUTH | {"annotations": [ANNOTATION | {"citations": [without(CITED, "file_name")]}]},
        "neither kind": TRUTH | {"annotations": [without(ANNOTATION, "citations")]},
        "both kinds in one": TRUTH | {"annotations": [ANNOTATION | JUDGEMENT]},
    },
    "evaluation_results": {
        "no retrieval metrics": without(RESULTS, "retrieval_metrics"),
        "another status": RESULTS | {"query_results": [RESULTS["query_results"][0] | {"status": "fine"}]},
        "an unknown key": RESULTS | {"results": []},
    },
    "train": {
        "a key of the benchmark": [ROW | {"level": 1}],
        "a context without a name": [ROW | {"contexts": [{"text": "x"}]}],
    },
}  # fmt: skip
CORPUS = [
    pytest.param(name, value, is_good, id=f"{name}: {why}")
    for is_good, table in ((True, GOOD), (False, BAD))
    for name, cases in table.items()
    for why, value in cases.items()
]
# `examine` also finds what no schema can express; these codes are those of the form itself.
FORM = {"bad_format", "bad_version", "bad_span", "unknown_kind"}
CHECKER = jsonschema.FormatChecker(())


@CHECKER.checks("date-time")
def is_moment(value):
    """RFC 3339 has a zone; the package that checks it is not one of ours."""
    if not isinstance(value, str):
        return True
    if not re.match(r"\d{4}-\d\d-\d\dT", value):
        return False
    return datetime.fromisoformat(value).tzinfo is not None


@pytest.mark.parametrize(("name", "value", "is_good"), CORPUS)
def test_schema_and_model_agree(name, value, is_good, tmp_path):
    path = tmp_path / FILES[name]
    path.write_text(json.dumps(value))
    schema = jsonschema.Draft202012Validator(json.loads(SCHEMAS[f"{name}.schema.json"]), format_checker=CHECKER)

    faults = [found for found in examine(path) if found.severity == "error" and found.error.code in FORM]

    assert (schema.is_valid(value), not faults) == (is_good, is_good)


def test_no_constraint_has_a_name_that_no_validator_knows():
    assert not re.findall(r'"(?:ge|le|gt|lt|min_length|max_length)":', "".join(SCHEMAS.values()))


def test_committed_schemas_are_the_generated_ones():
    committed = {path.name: path.read_text() for path in TOOL["SCHEMAS"].iterdir()}

    assert committed == SCHEMAS, "`make reference` writes them"


VERSIONED = {
    "evaluation_dataset": (EvaluationDataset, DATASET, "1.0"),
    "ground_truth": (GroundTruth, TRUTH, "1.0"),
    "evaluation_results": (EvaluationResults, RESULTS, "1.1"),
}
EACH_VERSIONED = pytest.mark.parametrize("name", VERSIONED)


@pytest.mark.fault(40)
@EACH_VERSIONED
def test_file_with_and_without_its_schema_version_is_read_and_left_as_it_is(name, tmp_path):
    model, value, version = VERSIONED[name]
    path = tmp_path / FILES[name]
    for given in (value | {"schema_version": version}, without(value, "schema_version")):
        path.write_text(json.dumps(given))
        before = path.read_bytes(), path.stat().st_mtime_ns

        assert model.read(path).schema_version == version
        assert validate(path) == []
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before


OTHER_FORMS = {
    "the next version":                         ({"schema_version": "1.2"},    "newer_schema", "schema_version"),
    "a version before the first":               ({"schema_version": "0.9"},    "bad_version",  "schema_version"),
    "a newer version that sorts before as text": ({"schema_version": "10.0"},  "newer_schema", "schema_version"),
    "no version":                               ({"schema_version": "latest"}, "bad_version",  "schema_version"),
    "an unknown key":                           ({"colour": "red"},            "bad_format",   "colour"),
}  # fmt: skip


@pytest.mark.fault(40)
@EACH_VERSIONED
@pytest.mark.parametrize(("change", "code", "field"), OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_file_of_another_form_is_refused_by_name(name, change, code, field, tmp_path):
    model, value, _ = VERSIONED[name]
    path = tmp_path / FILES[name]
    path.write_text(json.dumps(value | change))

    with pytest.raises(InputError) as caught:
        model.read(path)

    assert (caught.value.code, caught.value.field) == (code, field)
    [line] = validate(path)
    assert f'field "{field}"' in line
    assert f"[{code}]" in line


@pytest.mark.fault(40)
def test_stamp_that_later_code_wrote_is_refused(tmp_path):
    path = tmp_path / "conversion.json"
    texts = ("benchmark", "source_digest", "dataset_id", "dataset_version", "dataset_fingerprint", "corpus_fingerprint")
    Stamp(**dict.fromkeys(texts, "x"), files={}, counts={}, checks={}).write(path)
    assert Stamp.read(path).benchmark == "x"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1}))

    with pytest.raises(InputError) as caught:
        Stamp.read(path)

    assert caught.value.code == "bad_format"
