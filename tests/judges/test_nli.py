"""Settings of the NLI judge; tests/interop/test_nli.py runs models, which need the extra `nli`."""

from importlib.util import find_spec

import pydantic
import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.judges import nli
from rag_eval_pipeline.judges.judge_settings import JudgeSettings, NliSettings
from rag_eval_pipeline.judges.open_judge import judge_fingerprint

GOOD = {"model": "/models/nli", "labels": ["entailment", "neutral", "contradiction"]}
BAD = {
    "no order of labels": ({"model": "/models/nli"}, "labels"),
    "a folder that depends on where the command runs": ({**GOOD, "model": "models/nli"}, "model"),
    "a label of another task": ({**GOOD, "labels": ["positive", "negative"]}, "labels.0"),
    "labels that are no set": ({**GOOD, "labels": ["entailment", "neutral"]}, "labels"),
    "a label twice": ({**GOOD, "labels": ["entailment", "not_entailment", "entailment"]}, "labels"),
    "windows that hardly advance": ({**GOOD, "window_tokens": 64, "overlap_tokens": 40}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("value", "field"), BAD.values(), ids=BAD)
def test_nli_settings_are_refused(value, field):
    with pytest.raises(pydantic.ValidationError) as error:
        NliSettings.model_validate(value)

    assert ".".join(map(str, error.value.errors()[0]["loc"])) == field


@pytest.mark.skipif(find_spec("onnxruntime") is not None, reason="the extra nli is installed")
def test_missing_extra_is_named_before_any_question_is_asked():
    with pytest.raises(ServiceError, match=r"needs the package onnxruntime \[missing_extra\]. pip install 'rag-eval"):
        judge_fingerprint(JudgeSettings.model_validate({"kind": "nli", "settings": GOOD}))


def test_fingerprint_is_of_every_file_of_weights_that_the_model_names(tmp_path, monkeypatch):
    monkeypatch.setattr(nli, "_installed", lambda name: "1")
    (tmp_path / "parts").mkdir()
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.onnx").write_bytes(b"\x0a\x08location\x12\x0bparts/a.bin")
    settings = NliSettings.model_validate({**GOOD, "model": str(tmp_path)})
    found = []
    for name, weights in (
        ("parts/a.bin", b"1"),
        ("parts/a.bin", b"22"),
        ("model.onnx_data", b"1"),
        ("README.md", b"1"),
    ):
        (tmp_path / name).write_bytes(weights)
        found.append(nli.nli_fingerprint(settings))

    assert found[2] == found[3]
    assert len(set(found)) == 3
