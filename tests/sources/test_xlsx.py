"""A sheet of an Excel workbook is a table of texts as a person reads them; what is decided or left out is a note."""

import datetime
import io
import re
import zipfile
from types import SimpleNamespace

import openpyxl
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.sources.xlsx_cells import cell_text
from tests.conversion.conftest import HEAD

TEXTS = {
    "a whole number, which Excel keeps as a float": (1888.0, "General", "1888"),
    "digits that Excel keeps": (0.1 + 0.2, "General", "0.3"),
    "a percentage": (0.125, "0.0%", "12.5%"),
    "a percentage without decimals": (0.12, "0%", "12%"),
    "a percentage of thousands": (0.5, "#,##0%", "50%"),
    "a percentage with a section for what is negative": (-0.123, "0.0%;[Red]-0.0%", "-12.3%"),
    "a percentage with padding": (0.5, "0%_)", "50%"),
    "a percentage with optional digits": (0.125, "0.0##%", "12.5%"),
    "a percentage that rounds to nothing": (-0.004, "0%", "0%"),
    "a percentage in the middle": (0.125, "0%", "13%"),
    "a percent sign that is text": (0.5, '0.0"%"', "0.5"),
    "a number with leading zeros": (7, "000", "007"),
    "a text with leading zeros": ("007", "General", "007"),
    "a day": (datetime.datetime.fromisoformat("1888-06-09"), "dd.mm.yyyy", "1888-06-09"),
    "midnight": (datetime.datetime.fromisoformat("2024-05-01"), "yyyy-mm-dd hh:mm", "2024-05-01T00:00:00"),
    "a time": (datetime.time(7, 5), "hh:mm", "07:05:00"),
    "a duration of more than a day": (datetime.timedelta(hours=25, minutes=3), "[h]:mm:ss", "25:03:00"),
    "a boolean": (True, "General", "TRUE"),
    "text over two lines": ("a\nb ", "General", "a\nb "),
    "blanks": ("  ", "General", None),
}


@pytest.mark.parametrize(("value", "number_format", "expected"), TEXTS.values(), ids=TEXTS)
def test_xlsx_cell_is_the_text_that_a_person_sees(value, number_format, expected):
    assert cell_text(value, SimpleNamespace(number_format=number_format)) == expected


def workbook(*, hidden=None, **sheets):
    """A workbook with sheets of rows; `hidden` names one that nobody sees."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        if title == hidden:
            sheet.sheet_state = "hidden"
    return book


def saved(book):
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def read(benchmark, raw, **stated):
    paths = benchmark(HEAD, {"q.xlsx": raw})
    return read_relation(paths, SourceSpec(path=("q.xlsx",), **stated), source_columns=True)


def test_xlsx_reads_the_table_of_the_first_visible_sheet_with_cells(benchmark):
    book = workbook(
        hidden="Notes",
        Notes=[["q", "a"], ["Old?", "No."]],
        Blank=[],
        Questions=[
            ["Railway questions, spring"],
            [],
            [None, "q", "a", "topic", None],
            [None, "When?", 1888, "history", "seen"],
            [],
            [None, "Who?", 7],
            [None, "Why?", "#N/A", "reasons"],
        ],
    )
    sheet = book["Questions"]
    sheet["C7"].data_type = "e"
    sheet["C6"].number_format = '0.00 "€"'
    sheet.merge_cells("D4:D6")
    sheet["C90"].number_format = "0%"  # formatted and empty, as templates are

    found = read(benchmark, saved(book))

    assert found.table.select(["q", "a", "topic", "column_4", "source_row"]).to_pylist() == [
        {"q": "When?", "a": "1888", "topic": "history", "column_4": "seen", "source_row": 1},
        {"q": "Who?", "a": "7", "topic": "history", "column_4": None, "source_row": 2},
        {"q": "Why?", "a": None, "topic": "reasons", "column_4": None, "source_row": 3},
    ]
    assert [found.line("q.xlsx", row) for row in (1, 2, 3)] == [4, 6, 7]
    assert found.notes == (
        "q.xlsx: the sheet 'Questions' is read, not 'Notes', 'Blank'; `sheet` in benchmark.yaml chooses another",
        "q.xlsx: the header is row 3, below 'Railway questions, spring'; `header_row` chooses another row",
        "q.xlsx: 1 cell shown with a currency or unit, and read as bare numbers; the first is C6",
        "q.xlsx: 1 cell with the error #N/A, read as empty; the first is C7",
        "q.xlsx: 1 cell merged over several rows; each of these rows has the value; the first is D4",
    )


def test_xlsx_reads_what_is_stated_and_names_formulas_without_a_value(benchmark):
    raw = saved(workbook(First=[["x"]], Second=[["title", "of it"], ["q", "a"], ["Two?", "=1+1"]]))

    found = read(benchmark, raw, sheet="Second", header_row="2")
    bare = read(benchmark, raw, sheet="Second", columns=("one", "two"))

    assert found.table.select(["q", "a"]).to_pylist() == [{"q": "Two?", "a": None}]
    assert found.notes == (
        "q.xlsx: 1 cell with a formula whose value is not stored, read as empty (open and save the workbook in Excel);"
        " the first is B3",
    )
    assert bare.table.column("one").to_pylist() == ["title", "q", "Two?"]


def test_rows_of_several_sheets_are_named_by_their_sheet(benchmark):
    raw = saved(workbook(Legal=[["q"], ["Who?"], ["Why?"]], HR=[["q"], [], ["When?"]]))

    found = read(benchmark, raw, sheet=("Legal", "HR"))

    assert found.table.select(["q", "source_file", "source_row"]).to_pylist() == [
        {"q": "Who?", "source_file": "q.xlsx (Legal)", "source_row": 1},
        {"q": "Why?", "source_file": "q.xlsx (Legal)", "source_row": 2},
        {"q": "When?", "source_file": "q.xlsx (HR)", "source_row": 1},
    ]
    assert found.line("q.xlsx (HR)", 1) == 3


def zip_with(workbook_xml):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", workbook_xml)
    return file.getvalue()


def inflated_wrongly(raw):
    """The workbook with a first block of its sheet that no deflate can have."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        info = archive.getinfo("xl/worksheets/sheet1.xml")
    at = info.header_offset + 30 + len(info.filename)
    return raw[:at] + b"\xff" + raw[at + 1 :]


PLAIN = saved(workbook(Questions=[["q", "a"], ["Who?", "She."]]))
REFUSED = {
    "another sheet": (PLAIN, {"sheet": "Answers"}, "expected one of the sheets 'Questions', found 'Answers' [missing"),
    "a header beyond the end": (PLAIN, {"header_row": 9}, "found 'row 9 is empty' [missing_header]"),
    "too few names": (PLAIN, {"columns": ("q",)}, "expected 2 names in `columns`"),
    "no cells": (saved(workbook(Questions=[])), {}, "found 'an empty sheet' [empty_source]"),
    "a column twice": (saved(workbook(S=[["q", "Q"], ["1", "2"]])), {}, "[duplicate_column]"),
    "a damaged workbook": (zip_with(b"<workbook"), {}, "[bad_xlsx]"),
    "a damaged sheet": (inflated_wrongly(PLAIN), {}, "[bad_xlsx]"),
    "a bomb": (lambda: zip_with(b" " * 101_000_000), {}, "expected at most 200 bytes for each byte of the workbook"),
}


@pytest.mark.parametrize(("raw", "stated", "message"), REFUSED.values(), ids=REFUSED)
def test_xlsx_that_cannot_be_read_is_refused_with_the_reason(benchmark, raw, stated, message):
    with pytest.raises(InputError) as caught:
        read(benchmark, raw() if callable(raw) else raw, **stated)
    assert message in str(caught.value)


@pytest.mark.usefixtures("started_workers")
def test_xlsx_without_its_package_is_one_line_with_what_to_do(benchmark, tmp_path, monkeypatch):
    (tmp_path / "openpyxl.py").write_text("""raise ModuleNotFoundError("No module named 'openpyxl'")""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(InputError, match=r"expected the package openpyxl, .* -m pip install openpyxl") as caught:
        read(benchmark, PLAIN)
    assert caught.value.code == "missing_package"


def rewritten(raw, change):
    """A workbook with its parts changed by name and bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
    return file.getvalue()


def strict(name, part):
    part = part.replace(
        b"schemas.openxmlformats.org/spreadsheetml/2006/main", b"purl.oclc.org/ooxml/spreadsheetml/main"
    )
    relations = b"purl.oclc.org/ooxml/officeDocument/relationships"
    return part.replace(b"schemas.openxmlformats.org/officeDocument/2006/relationships", relations)


def empty_fill(name, part):
    return re.sub(rb"<fills.*</fills>", b'<fills count="1"><fill/></fills>', part) if name == "xl/styles.xml" else part


@pytest.mark.parametrize("change", [strict, empty_fill])
def test_xlsx_of_other_programs_is_read(benchmark, change):
    raw = rewritten(saved(workbook(Q=[["question", "answer"], ["How deep?", "31 m"]])), change)

    assert read(benchmark, raw).table.select(["question", "answer"]).to_pylist() == [
        {"question": "How deep?", "answer": "31 m"}
    ]


def test_xlsx_escapes_of_characters_are_characters(benchmark):
    raw = saved(workbook(Q=[["q"], ["one_x000D_\ntwo"], ["_x005F_x0041_"], ["_x0041_"], ["x_x0026_y"]]))

    assert read(benchmark, raw).table["q"].to_pylist() == ["one\ntwo", "_x0041_", "A", "x&y"]


def test_xlsx_links_are_a_column_and_hidden_rows_and_zero_dates_are_said(benchmark):
    book = workbook(
        Q=[["q", "Source", "when"], ["a", "Dock", 0], ["b", "Quay", 1], ["c", "none", None], ["d", "Basin", None]]
    )
    sheet = book["Q"]
    sheet["B2"].hyperlink, sheet["B3"].hyperlink = "https://e.org/dock?a=1&b=2", "mailto:x@e.org"
    sheet["C2"].number_format = sheet["C3"].number_format = "dd.mm.yyyy"
    sheet["B4"], sheet["A5"] = '=HYPERLINK("https://e.org/none", "none")', '=HYPERLINK("#Q!A1", "d")'
    sheet["B5"].hyperlink = "docs/basin.md"
    sheet.row_dimensions[3].hidden = True

    found = read(benchmark, saved(book))

    assert found.table["Source link"].to_pylist() == [
        *("https://e.org/dock?a=1&b=2", None, "https://e.org/none", "docs/basin.md")
    ]  # fmt: skip
    assert found.table["when"].to_pylist() == [None, "1900-01-01", None, None]
    assert {
        "q.xlsx: addresses of links are in the columns 'Source link'",
        "q.xlsx: 1 hidden row is read like the others; the first is row 3",
        "q.xlsx: 1 cell with 0 as a date, read as empty; the first is C2",
    } <= set(found.notes)
