"""`train.json` is strict both ways: five keys, integer ids, and what is written is read again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.train_json import TrainContext, TrainRow, read_train_json
from rag_eval_pipeline.storage.atomic_files import atomic_write_json

TEXT = st.text(st.characters(blacklist_categories=["Cs"]))
CONTEXTS = st.lists(st.one_of(TEXT, st.builds(TrainContext, TEXT, st.one_of(st.none(), TEXT))), max_size=3)
ROWS = st.lists(st.builds(TrainRow, st.integers(0, 10**9), TEXT, TEXT, st.booleans(), CONTEXTS), max_size=5)
ROW = '{"id": 0, "question": "q", "answer": "a", "is_impossible": false, "contexts": []}'
BAD = {
    "an object instead of an array": '{"id": 1}',
    "a prefixed id": f"[{ROW}]".replace("0", '"dataset-0"'),
    "a key of the benchmark's own": f"[{ROW}]".replace("[]", '[], "level": 1'),
    "no answer": f"[{ROW}]".replace('"answer": "a", ', ""),
    "a truth that is text": f"[{ROW}]".replace("false", '"false"'),
    "cut in the middle": f"[{ROW}"[:30],
}


def test_train_json_that_is_not_utf8_is_refused_with_the_place(tmp_path):
    path = tmp_path / "train.json"
    path.write_bytes(f"[{ROW}]".encode().replace(b'"q"', b'"\xff"'))

    with pytest.raises(InputError, match=r"train\.json: expected UTF-8 at byte 24.*\[bad_encoding\]"):
        read_train_json(path)


@given(rows=ROWS)
def test_train_json_round_trips(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "train.json"

    atomic_write_json(path, msgspec.to_builtins(rows))

    assert read_train_json(path) == rows


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_train_json_with_bad_content_is_refused(text, tmp_path):
    path = tmp_path / "train.json"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        read_train_json(path)

    assert error.value.code == "bad_format"
    assert "\n" not in str(error.value)
