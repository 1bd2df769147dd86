"""Columns as JSON text: byte for byte what Python's own writer makes of the rows."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.storage.json_rows import consecutive, join, texts

SCHEMA = pa.struct(
    [
        ("text", pa.string()),
        ("count", pa.int64()),
        ("is_true", pa.bool_()),
        ("names", pa.list_(pa.string())),
        ("places", pa.list_(pa.struct([("file", pa.string()), ("start", pa.int64())]))),
        ("facts", pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])),
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
        "places": st.lists(st.builds(lambda file, start: {"file": file, "start": start}, TEXT, COUNT), max_size=2),
        "facts": st.builds(lambda a, b: {"a": a, "b": b}, TEXT, st.lists(COUNT, max_size=2)),
    },
).map(lambda row: {name: row[name] for name in SCHEMA.names if name in row})


@given(st.lists(ROW, min_size=1, max_size=5))
def test_indented_file_is_what_json_dump_writes(rows):
    column = pa.array(rows, SCHEMA)
    members = {name: texts(values, 2) for name, values in zip(SCHEMA.names, column.flatten(), strict=True)}

    written = b"[\n  " + bytes(consecutive(members, 1)) + b"\n]"

    assert written.decode() == json.dumps(rows, indent=2, ensure_ascii=False)


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 4))
def test_slice_of_a_column_is_written_as_the_slice(rows, start):
    column = pa.array(rows, SCHEMA).slice(start)

    assert join(texts(column)).to_pylist() == [json.dumps(row, ensure_ascii=False) for row in rows[start:]]


def test_nulls_in_lists_are_null_and_null_fields_are_left_out():
    column = pa.array(
        [{"names": ["a", None], "text": None}], pa.struct([("names", pa.list_(pa.string())), ("text", pa.string())])
    )

    assert join(texts(column)).to_pylist() == ['{"names": ["a", null]}']
