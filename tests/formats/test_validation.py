"""`validate` finds what is wrong with a file, and says it in lines."""

import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.validation import validate

QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}
DATASET = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": [QUERY]}
SPAN = {"file_name": "a.pdf", "start_char": 4, "end_char": 9}

DATASETS = {
    #                                      change                                                        found
    "good":                       ({},                                                             None),
    "a version of two parts":     ({"version": "1.0"},                                             "[bad_version]"),
    "a query id twice":           ({"queries": [QUERY, QUERY]},                                    "[bad_format]"),
    "an unknown key":             ({"querys": []},                                                 "[bad_format]"),
    "an empty span":              ({"queries": [QUERY | {"citations": [SPAN | {"end_char": 4}]}]}, "[bad_format]"),
    "a span of a whole document": ({"queries": [QUERY | {"citations": [SPAN]}]},                   None),
    "an inline document missing": ({"documents": []},                                              "[missing_document]"),
    "no queries":                 ({"queries": None},                                              "[bad_format]"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "found"), DATASETS.values(), ids=DATASETS)
def test_evaluation_datasets(change, found, tmp_path):
    path = tmp_path / "d_v1.0.0.eval.json"
    path.write_text(json.dumps(DATASET | change))

    findings = validate(path)

    assert (findings == []) if found is None else (len(findings) == 1 and found in findings[0])


def test_a_context_that_is_not_in_the_corpus_beside_train_json(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "A%20b.pdf").touch()
    row = {"id": 0, "question": "q", "answer": "a", "is_impossible": False}
    contexts = [{"filename": "A%20b.pdf"}, {"filename": "A b.pdf"}]
    (tmp_path / "train.json").write_text(json.dumps([row | {"contexts": contexts}]))

    findings = validate(tmp_path / "train.json")

    assert len(findings) == 1
    assert "row 1: 'A b.pdf' is not in the corpus [missing_file]" in findings[0]


def test_an_answer_may_be_empty_only_when_impossible(tmp_path):
    row = {"id": 0, "question": "q", "answer": "", "is_impossible": True, "contexts": []}
    (tmp_path / "train.json").write_text(json.dumps([row, row | {"id": 1, "is_impossible": False}]))

    findings = validate(tmp_path / "train.json")

    assert len(findings) == 1
    assert "row 2" in findings[0]


def test_a_name_that_says_nothing_is_refused(tmp_path):
    with pytest.raises(InputError) as error:
        validate(tmp_path / "data.json")

    assert error.value.code == "unknown_form"


def test_writing_and_reading_an_evaluation_dataset(tmp_path):
    path = tmp_path / "d.eval.json"
    dataset = EvaluationDataset.model_validate(DATASET | {"queries": [QUERY | {"citations": [SPAN]}]})
    dataset.write(path)

    assert EvaluationDataset.from_json(path) == dataset
