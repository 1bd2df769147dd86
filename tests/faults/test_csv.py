"""Rows 27 to 30: a CSV's rows are kept to the letter or refused with their line, and its encoding is never guessed.

The good rows beside a bad one become questions, and the bad one a record, with everything that a person needs to find it.
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
}


@pytest.mark.fault(27, 28, 30)
@pytest.mark.parametrize(("raw", "expected"), ROWS.values(), ids=ROWS)
def test_bad_row_is_quarantined_with_its_line_and_the_other_is_a_question(raw, expected, read):
    found = read(raw, "q.csv")

    assert found.refused == [expected]
    assert found.answers == ["z"]


FILES = {
    "an unclosed quote, which swallows all later rows": (b'q,a\nx,"y\nz,1\n', "unclosed_quote", "line 2"),
    "a column that stands twice": (b"q,a,q\n1,2,3\n", "duplicate_column", "line 1"),
    "nothing": (b"", "empty_source", ""),
    "UTF-16 without its mark": ("q,a\nx,1\n".encode("utf-16-le"), "bad_encoding", ""),
}


@pytest.mark.fault(27)
@pytest.mark.parametrize(("raw", "code", "place"), FILES.values(), ids=FILES)
def test_file_whose_rows_cannot_be_counted_is_refused_whole(raw, code, place, refuse):
    error = refuse(raw, "q.csv")

    assert error.code == code
    assert error.file.endswith(place)


@pytest.mark.fault(27)
def test_column_that_is_missing_is_asked_for_by_its_name(read):
    with pytest.raises(InputError, match="Known: q, b") as caught:
        read(b"q,b\nx,y\n", "q.csv")
    assert (caught.value.code, caught.value.field) == ("unknown_column", "questions.answer")


@pytest.mark.fault(28)
def test_long_cells_are_read_up_to_the_limit(read):
    sizes = [131_073, 10_000_000]  # one more than Python's reader takes, and ours

    found = read("q,a\n" + "".join(f"{'x' * size},z\n" for size in sizes), "q.csv")

    assert ([len(question) for question in found.questions], found.refused) == (sizes, [])


@pytest.mark.fault(29)
def test_cells_stay_the_text_that_they_are(read):
    cells = ["NA", "None", "null", "NaN", "007", "1.0", "1e5", "TRUE", "  x ", "2024-01-01", "-", "=1+1"]

    found = read("q,a\n" + "".join(f"q,{cell}\n" for cell in cells), "q.csv")

    assert (found.answers, found.refused) == (cells, [])


ENCODINGS = {
    "UTF-8 with its mark": ("utf-8-sig", ""),
    "UTF-16 with its mark": ("utf-16", ""),
    "windows-1252, stated": ("cp1252", ", encoding: cp1252"),
    "UTF-16 without its mark, stated": ("utf-16-le", ", encoding: utf-16-le"),
}


@pytest.mark.fault(27, 30)
@pytest.mark.parametrize(("encoding", "stated"), ENCODINGS.values(), ids=ENCODINGS)
def test_marked_and_stated_encodings_are_read(encoding, stated, read):
    assert read("q,a\né,ü\n".encode(encoding), "q.csv", stated=stated).answers == ["ü"]


@pytest.mark.fault(30)
@pytest.mark.parametrize(("row", "encoding"), [(b"\x81,1", "cp1252"), (b"\x83\xff\xff,1", "shift_jis")])
def test_row_that_is_not_in_the_stated_encoding_is_refused_and_never_replaced(row, encoding, read):
    found = read(b"q,a\n" + row + b"\ny,z\n", "q.csv", stated=f", encoding: {encoding}")

    assert found.refused == [("bad_encoding", 1, 2, "q")]
    assert found.answers == ["z"]
