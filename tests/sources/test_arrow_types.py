"""JSON values become typed columns without one value being changed to fit another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.sources.arrow_types import infer_type, merge_types, to_arrow


def column(values):
    return to_arrow(values, infer_type(values))


SAME = {
    "text": ["007", None, ""],
    "whole numbers": [1, None, -(2**63)],
    "whole and other numbers that a double holds": [1, 2.5],
    "lists, the empty one and none at all": [["a"], [], None],
    "objects": [{"a": 1, "b": None}, {"a": 2, "b": "x"}, None],
    "lists of objects": [[{"text": "x", "start": 1}], []],
}


@pytest.mark.parametrize("values", SAME.values(), ids=SAME)
def test_values_of_one_type_come_back(values):
    assert column(values).to_pylist() == values


MIXED = {
    "a number here, a text there": ([1, "x", None], ["1", '"x"', None]),
    "true is not 1": ([True, 1], ["true", "1"]),
    "a number that a double would change": ([2**53 + 1, 0.5], ["9007199254740993", "0.5"]),
    "objects without any key": ([{}], ["{}"]),
    "keys that differ in case only": ([{"a": 1, "A": 2}], ['{"a": 1, "A": 2}']),
    "mixed inside an object, only there": (
        [{"a": 1, "b": "x"}, {"a": "y", "b": "z"}],
        [{"a": "1", "b": "x"}, {"a": '"y"', "b": "z"}],
    ),
}


@pytest.mark.parametrize(("values", "expected"), MIXED.values(), ids=MIXED)
def test_values_of_several_types_are_kept_as_json_text(values, expected):
    assert column(values).to_pylist() == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(JSON, max_size=6))
def test_any_values_make_a_column_of_as_many_rows(values):
    made = column(values)

    made.validate(full=True)
    assert len(made) == len(values)
    assert [value is None for value in made.to_pylist()] == [value is None for value in values]


@given(st.lists(JSON, max_size=6), st.lists(JSON, max_size=6))
def test_kind_of_a_column_does_not_depend_on_where_a_file_was_cut(one, other):
    merged = merge_types(infer_type(one), infer_type(other))

    assert merged == merge_types(infer_type(other), infer_type(one))
    assert (
        to_arrow([*one, *other], merged).to_pylist() == to_arrow([*one, *other], infer_type([*one, *other])).to_pylist()
    )
