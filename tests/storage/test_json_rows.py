"""Columns as JSON text: byte for byte what Python's own writer makes of the rows."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.storage.json_rows import consecutive, texts

SCHEMA = pa.struct(
    [
        ("text", pa.string()),
        ("count", pa.int64()),
        ("is_true", pa.bool_()),
        ("names", pa.list_(pa.string())),
        ("places", pa.list_(pa.list_(pa.int64()))),
        ("last", pa.bool_()),
    ]
)
TEXT = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from('"\\\n\r\t\x00\x1f\u2028'), max_size=8)
COUNT = st.integers(-(2**63), 2**63 - 1)
ROW = st.fixed_dictionaries(
    {"text": TEXT, "last": st.booleans()},
    optional={
        "count": COUNT,
        "is_true": st.booleans(),
        "names": st.lists(TEXT, max_size=3),
        "places": st.lists(st.lists(COUNT, max_size=2), max_size=2),
    },
).map(lambda row: {name: row[name] for name in SCHEMA.names if name in row})


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 4))
def test_rows_of_a_slice_are_written_as_json_dump_writes_them(rows, start):
    start = min(start, len(rows) - 1)
    columns = zip(SCHEMA.names, pa.array(rows, SCHEMA).slice(start).flatten(), strict=True)

    written = b"[\n  " + bytes(consecutive({name: texts(values, 2) for name, values in columns}, 1)) + b"\n]"

    assert written.decode() == json.dumps(rows[start:], indent=2, ensure_ascii=False)


def test_nulls_in_lists_are_null_and_null_members_are_left_out():
    names, text = pa.array([["a", None]]), pa.array([None], pa.string())

    written = bytes(consecutive({"names": texts(names, 1), "text": texts(text)}, 0))

    assert json.loads(written) == {"names": ["a", None]}
