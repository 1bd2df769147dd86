"""Evaluation data packs to gzip and back, the same bytes for the same data."""

import gzip
import json

import pytest
from hypothesis import given

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.io import compress_evaluation_data, compression_ratio, decompress_evaluation_data
from tests.formats.dataset_values import VALUE


@given(value=VALUE)
def test_unpacking_gives_what_was_packed(value):
    assert decompress_evaluation_data(compress_evaluation_data(value)) == value


def test_packed_is_compact_json_at_level_six_without_a_time():
    packed = compress_evaluation_data({"a": [1, "é"]})

    assert gzip.decompress(packed) == '{"a":[1,"é"]}'.encode()
    assert packed == gzip.compress('{"a":[1,"é"]}'.encode(), compresslevel=6, mtime=0)


def test_the_ratio_is_bytes_of_ordinary_json_over_bytes_packed():
    data = {"text": "abc " * 1000}
    ordinary = len(json.dumps(data))  # {"text": "..."}: 4,000 characters and 12 around them

    assert ordinary == 4012
    assert compression_ratio(data) == 4012 / len(compress_evaluation_data(data))
    assert compression_ratio(data) > 50
    assert compression_ratio({}) < 1  # gzip's own header


DAMAGED = {"nothing": b"", "no gzip": b"{}", "half of it": compress_evaluation_data(["a"] * 99)[:-9],
           "no JSON inside": gzip.compress(b"{"), "NaN inside": gzip.compress(b"[NaN]")}  # fmt: skip


@pytest.mark.parametrize("packed", DAMAGED.values(), ids=DAMAGED)
def test_damaged_data_is_an_error_that_names_its_origin(packed):
    with pytest.raises(InputError) as error:
        decompress_evaluation_data(packed, source="x.gz")

    assert error.value.code in ("bad_gzip", "bad_json")
    assert error.value.file.startswith("x.gz")
