"""YAML that is written reads back as it was, types included."""

import pytest
from hypothesis import given, settings

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.yaml_reader import DATA, parse_yaml, plain_value
from rag_eval_pipeline.formats.yaml_writer import yaml_text
from tests.formats.dataset_values import VALUE


@settings(max_examples=300)
@given(value=VALUE)
def test_reading_gives_what_was_written(value):
    assert plain_value(parse_yaml(yaml_text({"value": value}), "x.yaml", DATA).value) == {"value": value}


def test_words_stand_bare_and_what_could_be_mistaken_is_quoted():
    value = {"a": "two words", "b": "no", "c": "1.10", "d": "", "e": "~", "f": True, "g": 1.5, "h": None, "i": []}

    assert yaml_text(value).decode() == (
        'a: two words\nb: "no"\nc: "1.10"\nd: ""\ne: "~"\nf: true\ng: 1.5\nh: null\ni: []\n'.replace(
            'b: "no"', "b: 'no'"
        )
    )


def test_yaml_that_could_not_be_read_again_is_not_written(tmp_path):
    text = "x" * DATA.size_bytes
    dataset = EvaluationDataset(dataset_id="d", name=text, version="1.0.0", queries=())

    with pytest.raises(InputError) as error:
        dataset.write(tmp_path / "d.eval.yaml")

    assert error.value.code == "too_large"
    assert not list(tmp_path.iterdir())


def test_a_value_that_stands_twice_is_no_alias():
    shared = ["x"]

    assert b"&" not in yaml_text({"a": shared, "b": shared})
