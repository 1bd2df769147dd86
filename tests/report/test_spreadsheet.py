"""A spreadsheet shows what stands in a cell and calculates nothing."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.report.text import safe_cell, spreadsheet

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


@pytest.mark.parametrize("text", FORMULAS.values(), ids=FORMULAS)
def test_a_formula_becomes_a_text(text):
    assert str(safe_cell(text)).startswith("'")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_stays_as_it_is(text):
    assert safe_cell(text) == text


@pytest.mark.parametrize("number", [-1.5, 0, 7, None])
def test_numbers_stay_numbers(number):
    assert safe_cell(number) is number


def test_a_sheet_is_utf_8_with_its_mark_and_reads_back():
    data = spreadsheet(["a", "b"], [["=1", 2.5], ['x"y', None]])

    assert data.startswith(b"\xef\xbb\xbfa,b\r\n")
    assert list(csv.reader(io.StringIO(data.decode("utf-8-sig")))) == [["a", "b"], ["'=1", "2.5"], ['x"y', ""]]


@given(st.text(min_size=1))
def test_no_cell_begins_with_what_begins_a_formula(text):
    cell = str(safe_cell(text))

    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
