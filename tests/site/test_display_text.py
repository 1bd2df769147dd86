"""Text from data is shown and does nothing; numbers as pages format them."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.site import display_text as numbers
from rag_eval_pipeline.site.answer_files import distinct_ids
from rag_eval_pipeline.site.display_text import (
    replace_control_chars,
    safe_cell,
    script_json,
    spreadsheet,
)

SIGNS = {
    "an ANSI code that would clear a terminal": ("\x1b[2Jx", "␛[2Jx"),
    "a right-to-left override that hides an ending": ("invoice\u202efdp.exe", "invoice␦fdp.exe"),
    "an isolate": ("\u2066a\u2069", "␦a␦"),
    "a one-byte control sequence": ("\x9b31m", "␦31m"),
    "a NUL": ("a\0b", "a␀b"),
    "line ends and tabs are layout": ("a\n\tb", "a\n\tb"),
    "Hebrew and its mark are text": ("שלום\u200f!", "שלום\u200f!"),
}  # fmt: skip


@pytest.mark.fault(42)
@pytest.mark.parametrize(("text", "shown"), SIGNS.values(), ids=SIGNS)
def test_replace_control_chars(text, shown):
    assert replace_control_chars(text) == shown


@given(st.text())
def test_replace_control_chars_keeps_the_length(text):
    assert len(replace_control_chars(text)) == len(text)
    assert replace_control_chars(replace_control_chars(text)) == replace_control_chars(text)


@pytest.mark.fault(42)
@given(st.recursive(st.text() | st.none() | st.booleans(), st.lists))
def test_script_json_reads_back_and_cannot_end_its_script(value):
    text = script_json(value).decode()

    assert json.loads(text) == value
    assert set("<>&\u2028\u2029").isdisjoint(text)


NUMBERS = {
    "a share": (numbers.number(0.12345), "0.123"),
    "a negative effect": (numbers.number(-0.5, 2), "−0.50"),
    "thousands": (numbers.number(12345.6, 0), "12,346"),
    "nothing": (numbers.number(None), "–"),
    "a share in percent": (numbers.percent(0.975), "97.5 %"),
    "a whole percent": (numbers.percent(1.0), "100 %"),
    "almost a whole percent": (numbers.percent(0.9996), "99.9 %"),
    "almost a limit": (numbers.percent(0.97996), "97.9 %"),
    "less than a cent": (numbers.dollars(0.0012), "$0.0012"),
    "more than a cent": (numbers.dollars(1.336), "$1.34"),
    "a p": (numbers.p_value(0.0301), "0.030"),
    "a small p": (numbers.p_value(0.0004), "<0.001"),
    "no p": (numbers.p_value(None), "–"),
    "a second": (numbers.milliseconds(1340), "1.34 s"),
    "a range": (numbers.milliseconds_range((175, 200), " to "), "175 to 200 ms"),
    "a range over units": (numbers.milliseconds_range((900, 1340)), "900 ms–1.34 s"),
    "points without a minus of nothing": (numbers.points(-0.0001), "0.0"),
}


@pytest.mark.parametrize(("shown", "text"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(shown, text):
    assert shown == text


FORMULAS = {
    "a formula": "=cmd|' /C calc'!A0",
    "a sum": "+1+1",
    "a difference": "-2+3",
    "an old Lotus function": "@SUM(A1)",
    "after a tab": "\t=1+1",
    "after a carriage return": "\r=1+1",
    "after spaces, which programs trim": "   =1+1",
    "after a no-break space": "\u00a0=1+1",
    "after a byte order mark": "\ufeff=1+1",
    "a full-width sign of an Asian keyboard": "＝1+1",
    "in a second line, which pasting makes a cell": "text\n=1+1",
    "in quotation marks, which import takes away": '"=1+1"',
}
TEXTS = {
    "a sentence": "The mine is 3 km away.",
    "a sign inside": "a = b",
    "a number that is text": "1888",
    "nothing": "",
}


@pytest.mark.fault(41)
@pytest.mark.parametrize("text", FORMULAS.values(), ids=FORMULAS)
def test_safe_cell_quotes_a_formula(text):
    assert str(safe_cell(text)).startswith("'")


@pytest.mark.fault(41)
@pytest.mark.parametrize("cell", [*TEXTS.values(), -1.5, None], ids=str)
def test_safe_cell_keeps_other_text_and_numbers(cell):
    assert safe_cell(cell) == cell


def test_questions_whose_ids_look_alike_have_no_answers_on_a_page():
    assert distinct_ids(["a", "b\x01", "b␁", "c\x01"]) == {"a": "a", "c\x01": "c␁"}


def test_spreadsheet_is_utf_8_with_its_mark_and_reads_back():
    data = b"".join(spreadsheet(["a", "=b"], [["=1", 2.5], ['x"y', None]]))

    assert data.startswith(b"\xef\xbb\xbfa,'=b\r\n")
    assert list(csv.reader(io.StringIO(data.decode("utf-8-sig")))) == [["a", "'=b"], ["'=1", "2.5"], ['x"y', ""]]


@pytest.mark.fault(41)
@given(st.text(min_size=1))
def test_safe_cell_never_begins_a_formula(text):
    cell = str(safe_cell(text))

    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
