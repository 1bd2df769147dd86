"""Rows 27 to 30: a CSV's rows are kept to the letter or refused with their line, and its encoding is never guessed.

Each fault of a cell or row by itself, and blocks of any size: tests/sources/test_readers.py (TestCsv). Here: that the
good rows beside it become questions and the bad one a record, with everything that a person needs to find it.
"""

import pytest

from rag_eval_pipeline.errors import InputError

ROWS = {
    "a short row": (b"q,a\nx\ny,z\n", ("row_width", 1, 2, None)),
    "a long row after a cell of two lines": (b'q,a\n"one\ntwo",z\nx,y,z\n', ("row_width", 2, 4, None)),
    "NUL": (b"q,a\nx\x00,1\ny,z\n", ("nul_character", 1, 2, "q")),
    "a quote inside a quoted cell": (b'q,a\n"x"y,z\ny,z\n', ("bad_quoting", 1, 2, None)),
    "a cell of more than ten million characters": (
        b"q,a\ny,z\n" + b"x" * 10_000_001 + b",1\n",
        ("cell_too_long", 2, 3, "q"),
    ),
    "latin-1 among UTF-8": ("q,a\né,z\n".encode() + b"x,\xe9\n", ("bad_encoding", 2, 3, "a")),
    "a last line that was cut inside quotes": (b'q,a\ny,z\nx,"cut', ("truncated", 2, 3, None)),
    "the same, with a line end": (b'q,a\r\ny,z\r\n"cut\r\n', ("truncated", 2, 3, None)),
    "half a character as three bytes": (b"q,a\n\xed\xa0\x80,2\ny,z\n", ("bad_encoding", 1, 2, "q")),
}


@pytest.mark.parametrize(("raw", "expected"), ROWS.values(), ids=ROWS)
def test_a_bad_row_is_quarantined_with_its_line_and_the_other_is_a_question(raw, expected, read):
    found = read(raw, "q.csv")

    assert found.refused == [expected]
    assert found.answers == ["z"]


FILES = {
    "an unclosed quote, which swallows all later rows": (b'q,a\nx,"y\nz,1\n', "unclosed_quote", "line 2"),
    "a header that was cut inside quotes": (b'q,"a', "unclosed_quote", "line 1"),
    "a column that stands twice": (b"q,a,q\n1,2,3\n", "duplicate_column", "line 1"),
    "nothing": (b"", "empty_source", ""),
    "UTF-16 without its mark": ("q,a\nx,1\n".encode("utf-16-le"), "bad_encoding", ""),
    "UTF-16 that is cut": ("q,a\nx,1\n".encode("utf-16")[:-1], "bad_encoding", ""),
}


@pytest.mark.parametrize(("raw", "code", "place"), FILES.values(), ids=FILES)
def test_a_file_whose_rows_cannot_be_counted_is_refused_whole(raw, code, place, refuse):
    error = refuse(raw, "q.csv")

    assert error.code == code
    assert error.file.endswith(place)


def test_the_rows_before_a_line_that_was_cut_inside_quotes_are_kept(read):
    rows = "".join(f'"question {number}\nof 199","answer {number}"\n' for number in range(199))

    found = read("q,a\n" + rows + 'question 199,"answ', "q.csv")

    assert found.answers == [f"answer {number}" for number in range(199)]
    assert found.refused == [("truncated", 200, 2 + 2 * 199, None)]


def test_a_column_that_is_missing_is_asked_for_by_its_name(read):
    with pytest.raises(InputError, match="Known: q, b") as caught:
        read(b"q,b\nx,y\n", "q.csv")
    assert (caught.value.code, caught.value.field) == ("unknown_column", "questions.answer")


@pytest.mark.parametrize("size", [131_072, 131_073, 10_000_000])
def test_long_cells_are_read_up_to_the_limit(size, read):
    found = read(b"q,a\n" + b"x" * size + b",z\n", "q.csv")

    assert ([len(question) for question in found.questions], found.refused) == ([size], [])


def test_cells_stay_the_text_that_they_are(read):
    cells = ["NA", "None", "null", "NaN", "007", "1.0", "1e5", "TRUE", "  x ", "2024-01-01", "-", "=1+1"]

    found = read("q,a\n" + "".join(f"q,{cell}\n" for cell in cells), "q.csv")

    assert (found.answers, found.refused) == (cells, [])


ENCODINGS = {
    "UTF-8 with its mark": ("utf-8-sig", ""),
    "UTF-16 with its mark": ("utf-16", ""),
    "UTF-32 with its mark": ("utf-32", ""),
    "latin-1, stated": ("latin-1", ", encoding: latin-1"),
    "windows-1252, stated": ("cp1252", ", encoding: cp1252"),
    "UTF-16 without its mark, stated": ("utf-16-le", ", encoding: utf-16-le"),
}


@pytest.mark.parametrize(("encoding", "stated"), ENCODINGS.values(), ids=ENCODINGS)
def test_marked_and_stated_encodings_are_read(encoding, stated, read):
    assert read("q,a\né,ü\n".encode(encoding), "q.csv", stated=stated).answers == ["ü"]


STATED = {
    "ASCII": ("é,1".encode(), ", encoding: ascii"),
    "windows-1252, which has no such byte": (b"\x81,1", ", encoding: cp1252"),
    "Shift JIS": (b"\x83\xff\xff,1", ", encoding: shift_jis"),
}


@pytest.mark.parametrize(("row", "stated"), STATED.values(), ids=STATED)
def test_a_row_that_is_not_in_the_stated_encoding_is_refused_and_never_replaced(row, stated, read):
    found = read(b"q,a\n" + row + b"\ny,z\n", "q.csv", stated=stated)

    assert found.refused == [("bad_encoding", 1, 2, "q")]
    assert found.answers == ["z"]
