"""Settings keep to the documented bounds, and only what is set is sent."""

import pydantic
import pytest

from rag_eval_pipeline.systems.nvidia import GenerateSettings, NvidiaSettings

RAG = {"rag": {"base_url": "http://127.0.0.1:8081"}}
FINGERPRINT = "0123456789abcdef" * 4


def test_nothing_set_nothing_sent():
    assert GenerateSettings().sent == {}


def test_what_is_set_is_sent_nought_and_false_included():
    given = {"temperature": 0, "reranker_top_k": 0, "enable_reranker": False, "stop": ["END"]}

    assert GenerateSettings.model_validate(given).sent == given


BOUNDS = {
    #                          lowest  highest   beyond
    "reranker_top_k":          (0,     25,       26),
    "vdb_top_k":               (0,     400,      401),
    "temperature":             (0,     1,        1.01),
    "top_p":                   (0.1,   1,        0.09),
    "max_tokens":              (0,     128_000,  128_001),
    "confidence_threshold":    (0,     1,        -0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_parameters_have_the_documented_bounds(name):
    lowest, highest, beyond = BOUNDS[name]

    for allowed in (lowest, highest):
        assert GenerateSettings.model_validate({name: allowed}).sent == {name: allowed}
    with pytest.raises(pydantic.ValidationError):
        GenerateSettings.model_validate({name: beyond})


def test_no_more_is_read_than_is_retrieved():
    with pytest.raises(pydantic.ValidationError, match="at most as large as vdb_top_k"):
        GenerateSettings(reranker_top_k=10, vdb_top_k=5)


NAMES = {
    #                                    settings                                          collection
    "the corpus is in its name":         ({},                                              "marsh_point_0123456789ab"),
    "a name of one's own":               ({"collection": "my-docs"},                       "my_docs"),
    "other chunks, another collection":  ({"upload": {"chunk_size": 256, "chunk_overlap": 32}}, "marsh_point_0123456789ab_c256_32"),
    "no digit comes first in Milvus":    ({"collection": "{corpus}"},                      "c_0123456789ab"),
    "no name is longer than Milvus's":   ({"collection": "x" * 300},                       "x" * 255),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), NAMES.values(), ids=NAMES)
def test_the_collections_name(changes, expected):
    settings = NvidiaSettings.model_validate(RAG | changes)

    assert settings.collection_name("marsh-point", FINGERPRINT) == expected


@pytest.mark.parametrize("template", ["{system}", "{corpus!r}", "a b", "{", "", "ü"])
def test_a_template_that_is_no_name(template):
    with pytest.raises(pydantic.ValidationError):
        NvidiaSettings.model_validate(RAG | {"collection": template})


def test_upload_is_a_switch_or_a_section():
    assert NvidiaSettings.model_validate(RAG | {"upload": False}).upload.enabled is False
    assert NvidiaSettings.model_validate(RAG | {"upload": {"batch_documents": 5}}).upload.enabled is True
