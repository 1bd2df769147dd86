"""What data says is shown, and does nothing; offsets into a text stay what they are."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.report.text import data_script, replace_control_chars, script_json, shortened

CASES = {
    "an ANSI code that would clear a terminal": ("\x1b[2Jx", "␛[2Jx"),
    "a right-to-left override that hides an ending": ("invoice\u202efdp.exe", "invoice␦fdp.exe"),
    "an isolate": ("\u2066a\u2069", "␦a␦"),
    "a one-byte control sequence": ("\x9b31m", "␦31m"),
    "a NUL": ("a\0b", "a␀b"),
    "line ends and tabs are layout": ("a\n\tb", "a\n\tb"),
    "Hebrew and its mark are text": ("שלום\u200f!", "שלום\u200f!"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_what_would_act_is_shown_as_a_sign(text, shown):
    assert replace_control_chars(text) == shown


@given(st.text())
def test_each_character_stays_one_character(text):
    assert len(replace_control_chars(text)) == len(text)
    assert replace_control_chars(replace_control_chars(text)) == replace_control_chars(text)


@given(st.recursive(st.text() | st.none() | st.booleans(), st.lists))
def test_json_for_a_script_says_the_same_and_has_nothing_that_ends_it(value):
    text = script_json(value).decode()

    assert json.loads(text) == value
    assert set("<>&\u2028\u2029").isdisjoint(text)


def test_a_data_file_is_one_call():
    assert data_script("a", ["</script>"]) == b'ragEval.receive("a",["\\u003c/script\\u003e"]);\n'


def test_a_long_text_ends_in_an_ellipsis_and_keeps_to_its_length():
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"
