"""Row 40: a stored file of an older form is read as it lies, one of a newer form is refused with what to do.

Neither is changed. Each format's own faults: tests/formats. The older form of a dataset, which is filled in and said so:
tests/formats/test_dataset.py. Manifests that are damaged: tests/corpus/test_manifest.py. A stamp by other code:
tests/conversion/test_stamp.py.
"""

import json

import pytest

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from tests.formats.result_values import results_value
from tests.validation import validate

SPAN = {"file_name": "a.pdf", "start_char": 4, "end_char": 9, "text": "cited"}
FORMS = {
    "d_v1.0.0.eval.json": (
        EvaluationDataset,
        {
            "schema_version": "1.0", "dataset_id": "d", "name": "D", "version": "1.0.0",
            "queries": [{"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}],
        },
    ),
    "d_v1.0.0.gt.json": (
        GroundTruth,
        {
            "schema_version": "1.0", "dataset_id": "d", "version": "1.0.0",
            "annotations": [{"annotation_id": "1", "query_id": "0", "annotator_id": "a", "citations": [SPAN]}],
        },
    ),
    "eval_run_20250830_001.results.json": (EvaluationResults, {"schema_version": "1.1", **results_value()}),
}  # fmt: skip
EACH_FORM = pytest.mark.parametrize(("name", "model", "value"), [(n, *f) for n, f in FORMS.items()], ids=FORMS)


def stored(folder, name, value):
    path = folder / name
    path.write_text(json.dumps(value))
    return path


@pytest.mark.fault(40)
@EACH_FORM
def test_files_of_this_form_and_without_a_form_are_read_and_left_as_they_lie(name, model, value, tmp_path):
    for given in (value, {key: item for key, item in value.items() if key != "schema_version"}):
        path = stored(tmp_path, name, given)
        before = path.read_bytes(), path.stat().st_mtime_ns

        read = model.read(path)

        assert read.schema_version == model.current_version
        assert validate(path) == []
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before


CHANGES = {
    "the next form": ({"schema_version": "1.2"}, "newer_schema", "schema_version"),
    "a form before the first": ({"schema_version": "0.9"}, "bad_version", "schema_version"),
    "a form whose number sorts before ours as a text": ({"schema_version": "10.0"}, "newer_schema", "schema_version"),
    "no form": ({"schema_version": "latest"}, "bad_version", "schema_version"),
    "a key that nobody knows": ({"colour": "red"}, "bad_format", "colour"),
}


@pytest.mark.fault(40)
@EACH_FORM
@pytest.mark.parametrize(("change", "code", "field"), CHANGES.values(), ids=CHANGES)
def test_another_form_is_refused_and_named(change, code, field, name, model, value, tmp_path):
    path = stored(tmp_path, name, value | change)
    before = path.read_bytes()

    with pytest.raises(InputError) as caught:
        model.read(path)

    assert (caught.value.code, caught.value.field) == (code, field)
    [line] = validate(path)
    assert f'field "{field}"' in line
    assert f"[{code}]" in line
    assert path.read_bytes() == before


@pytest.mark.fault(40)
def test_stamp_that_later_code_wrote_is_no_stamp_of_ours(tmp_path):
    path = tmp_path / "conversion.json"
    texts = ("benchmark", "source_digest", "dataset_id", "dataset_version", "dataset_fingerprint", "corpus_fingerprint")
    Stamp(**dict.fromkeys(texts, "x"), files={}, counts={}, checks={}).write(path)
    assert Stamp.read(path).benchmark == "x"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1}))

    with pytest.raises(InputError) as caught:
        Stamp.read(path)

    assert caught.value.code == "bad_format"
