"""`train.json` is strict both ways: five keys, integer ids, and what is written is read again."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.train_json import TrainContext, TrainRow, read_train_json, write_train_json

TEXT = st.text(st.characters(blacklist_categories=["Cs"]))
CONTEXTS = st.lists(st.one_of(TEXT, st.builds(TrainContext, TEXT, st.one_of(st.none(), TEXT))), max_size=3)
ROWS = st.lists(st.builds(TrainRow, st.integers(0, 10**9), TEXT, TEXT, st.booleans(), CONTEXTS), max_size=5)
QUICK_VALIDATION = (  # of the specification, verbatim
    "import json,sys; d=json.load(open(sys.argv[1])); assert isinstance(d, list) and all(isinstance(x, dict) for x in d), "
    "'train.json must be a list of objects'"
)
BAD = {
    "an object instead of an array": '{"id": 1}',
    "a prefixed id": '[{"id": "dataset-0", "question": "q", "answer": "a", "is_impossible": false, "contexts": []}]',
    "a key of the benchmark's own": '[{"id": 0, "question": "q", "answer": "a", "is_impossible": false, "contexts": [], "level": 1}]',
    "no answer": '[{"id": 0, "question": "q", "is_impossible": false, "contexts": []}]',
    "a truth that is text": '[{"id": 0, "question": "q", "answer": "a", "is_impossible": "false", "contexts": []}]',
    "cut in the middle": '[{"id": 0, "question": "q',
}  # fmt: skip


@given(rows=ROWS)
def test_reading_gives_what_was_written(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "train.json"

    assert write_train_json(path, rows) == len(rows)
    assert read_train_json(path) == rows


def test_the_form_is_the_specifications_own_pattern(tmp_path):
    path = tmp_path / "train.json"
    rows = [TrainRow(0, "Wo?", "Ångström", False, [TrainContext("A%20b#c.pdf", "Text"), "plain"])]
    write_train_json(path, rows)

    context = {"filename": "A%20b#c.pdf", "text": "Text"}
    row = {"id": 0, "question": "Wo?", "answer": "Ångström", "is_impossible": False, "contexts": [context, "plain"]}
    assert path.read_text() == json.dumps([row], indent=2, ensure_ascii=False) + "\n"


def test_no_rows_are_an_empty_array_that_passes_the_quick_validation(tmp_path):
    path = tmp_path / "train.json"
    write_train_json(path, [])

    assert path.read_text() == "[]\n"
    subprocess.run([sys.executable, "-c", QUICK_VALIDATION, str(path)], check=True)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_bad_content_is_refused(text, tmp_path):
    path = tmp_path / "train.json"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        read_train_json(path)

    assert error.value.code == "bad_format"
    assert "\n" not in str(error.value)
