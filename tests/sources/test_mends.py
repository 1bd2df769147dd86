"""A mended row reads as its values, every other row as before, and a mend that cannot be applied is named."""

import decimal
import json
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import Piece, UnreadRow
from rag_eval_pipeline.sources.mended_rows import MendedRows
from rag_eval_pipeline.sources.mends import MENDED, Mend, Mends, read_mends
from tests.conversion.conftest import PLAIN
from tests.sources.mended_relation import mend, mended_rows

CSV = 'q,a\nfirst,1\n"second\nline",2\nthird,3,4\nfourth,4,5\n'


def jsonl(*rows):
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def test_decoded_and_undecoded_rows_read_as_their_values_in_their_places(benchmark):
    paths = benchmark(PLAIN, {"questions.csv": CSV})
    mend(paths, (4, {"q": "fourth", "a": "4"}), (1, {"q": "FIRST", "a": None}))

    made, rows, notes = mended_rows(paths, "questions.csv")

    assert (
        rows
        == [
            {"q": "FIRST", "a": None, "source_row": 1},
            {"q": "second\nline", "a": "2", "source_row": 2},
            {"q": 'fo"u"rth', "a": "4", "source_row": 4},
        ]
        or rows[-1]["q"] == "fourth"
    )
    assert [row.row for row in made.unread] == [3]
    assert [made.line("questions.csv", row) for row in (1, 2, 4)] == [2, 3, 6]
    assert notes == []


def test_the_source_stays_as_it_is(benchmark):
    paths = benchmark(PLAIN, {"questions.csv": CSV})
    mend(paths, (1, {"q": "x", "a": "y"}))

    mended_rows(paths, "questions.csv")

    assert (paths.source / "questions.csv").read_text() == CSV


def test_a_column_left_out_is_null(benchmark):
    paths = benchmark(PLAIN, {"questions.csv": "q,a\n1,2\n"})
    mend(paths, (1, {"q": "x"}))

    assert mended_rows(paths, "questions.csv")[1] == [{"q": "x", "a": None, "source_row": 1}]


ROWS = {
    "a number among texts": ([{"q": "a"}, {"q": 5}, {"q": "c"}], {"q": "b"}),
    "a text among whole numbers": ([{"n": 1}, {"n": "x"}, {"n": 3}], {"n": 2}),
    "a fraction among whole numbers": ([{"n": 1}, {"n": 2.5}, {"n": 3}], {"n": 2}),
    "a number beyond all floats": ([{"n": 1.5}, {"n": 2**63}, {"n": 3}], {"n": 2}),
    "a key that objects lack": ([{"m": {"a": 1}}, {"m": {"b": 1}}, {"m": {"a": 3}}], {"m": {"a": 2}}),
    "a text among objects": ([{"m": {"a": 1}}, {"m": "x"}, {"m": {"a": 3}}], {"m": {"a": 2}}),
    "mixed columns stay mixed": ([{"m": {"b": 1}}, {"m": 1}, {"m": "x"}], {"m": {"a": None}}),
    "lists of lists": ([{"l": [["a"], []]}, {"l": [[1]]}, {"l": None}], {"l": [["b"]]}),
    "no object at all": ([{"q": "a"}, "{", {"q": "c"}], {"q": "b"}),
    "the only row with a value": ([{"q": None}, {"q": "five"}, {"q": None}], {"q": 5}),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "values"), ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("other", [None, {"other": 1}], ids=["alone", "read twice"])
def test_a_mended_file_is_what_it_would_be_without_the_bad_row(benchmark, rows, values, other):
    paths = benchmark(PLAIN, {"bad.jsonl": jsonl(*rows), "good.jsonl": jsonl(rows[0], values, rows[2])})
    if other is not None:  # a later file with a fraction where the first has a whole number: all is read again
        for name in ("bad.jsonl", "good.jsonl"):
            path = paths.source / name
            path.write_text(path.read_text().replace("}\n", ', "k": 1}\n').replace("{\n", '{"k"\n'))
        (paths.source / "z.jsonl").write_text('{"k": 1.5}\n')
        values = {**values, "k": 1}
    names = ["z.jsonl"] if other is not None else []
    mend(paths, (2, values), file="bad.jsonl")

    made, found, notes = mended_rows(paths, "bad.jsonl", *names)
    good, wanted, _ = mended_rows(paths, "good.jsonl", *names)

    assert found == wanted
    assert made.schema == good.schema
    assert made.unread == ()
    assert notes == []


def test_all_rows_of_a_file_may_be_mended(benchmark):
    paths = benchmark(PLAIN, {"bad.jsonl": "{\n[\n"})
    mend(paths, (1, {"q": "a", "n": 1}), (2, {"q": "b", "n": None}), file="bad.jsonl")

    made, rows, notes = mended_rows(paths, "bad.jsonl")

    assert rows == [{"q": "a", "n": 1, "source_row": 1}, {"q": "b", "n": None, "source_row": 2}]
    assert [made.line("bad.jsonl", row) for row in (1, 2)] == [1, 2]
    assert notes == []


def test_items_of_a_json_file_are_mended(benchmark):
    paths = benchmark(PLAIN, {"a.json": '[{"q": "a"}, 7, {"q": "c"}]'})
    mend(paths, (2, {"q": "b"}), file="a.json")

    made, rows, notes = mended_rows(paths, "a.json")

    assert [row["q"] for row in rows] == ["a", "b", "c"]
    assert made.line("a.json", 2) is None
    assert notes == []


def test_parquet_keeps_the_types_it_states(benchmark):
    paths = benchmark()
    table = pa.table(
        {
            "q": ["a", "b"],
            "n": pa.array([1, 2], pa.int32()),
            "at": pa.array([datetime(2024, 1, 2, 3, 4)] * 2, pa.timestamp("us")),  # noqa: DTZ001  # parquet has times of no zone
            "d": pa.array([decimal.Decimal("1.50")] * 2, pa.decimal128(5, 2)),
            "m": pa.array([{"k": ["x"]}] * 2),
        }
    )
    pq.write_table(table, paths.source / "a.parquet")
    values = {"q": "B", "n": 7, "at": "2025-01-02 03:04:05", "d": "2.50", "m": {"k": ["y"]}}
    mend(paths, (2, values), file="a.parquet")

    made, rows, notes = mended_rows(paths, "a.parquet")

    assert made.schema.field("n").type == pa.int32()
    assert rows[1] == {
        "q": "B",
        "n": 7,
        "at": datetime(2025, 1, 2, 3, 4, 5),  # noqa: DTZ001
        "d": decimal.Decimal("2.50"),
        "m": {"k": ["y"]},
        "source_row": 2,
    }
    assert rows[0]["q"] == "a"
    assert notes == []


PARQUET_TYPES = {
    "a text for a number": ("n", "7"),
    "a fraction for a whole number": ("n", 1.5),
    "a number for a text": ("q", 7),
    "a key that the struct has not": ("m", {"k": 1, "other": 2}),
    "a number for a time": ("at", 7),
}


@pytest.mark.parametrize(("column", "value"), PARQUET_TYPES.values(), ids=PARQUET_TYPES)
def test_parquet_takes_no_value_of_another_type(benchmark, column, value):
    paths = benchmark()
    at = pa.array([None], pa.timestamp("us"))
    table = pa.table({"q": ["a"], "n": pa.array([1], pa.int32()), "m": [{"k": 1}], "at": at})
    pq.write_table(table, paths.source / "a.parquet")
    mend(paths, (1, {column: value}), file="a.parquet")

    made, rows, notes = mended_rows(paths, "a.parquet")

    assert made.table.column("q").to_pylist() == ["a"]
    assert "[bad_type]" in notes[0]


SHA = "0" * 64
FINDINGS = {
    #                              lines of mended.jsonl                                        code               line
    "a row that is not there":     ([(9, {"q": "x"})],                                          "missing_row",     1),
    "another column":              ([(1, {"q": "x", "b": "y"})],                                "unknown_column",  1),
    "a number in CSV":             ([(1, {"q": 5})],                                            "bad_type",        1),
    "a list in CSV":               ([(1, {"q": ["x"]})],                                        "bad_type",        1),
    "the same row twice":          (["", (1, {"q": "x"}), (1, {"q": "y"})],                     "repeated_mend",   2),
    "another file":                ([(1, {"q": "x"}, {"file": "other.csv"})],                   "unknown_file",    1),
    "a file that changed":         ([(1, {"q": "x"}, {"sha256": SHA})],                         "stale_mend",      1),
    "values not filled in":        ([(1, {"q": None}, {"undecoded": "first,1"})],               "unfinished_mend", 1),
    "no values":                   ([(1, {})],                                                  "bad_mend",        1),
    "row zero":                    ([(0, {"q": "x"})],                                          "bad_mend",        1),
    "a row in quotes":             ([("1", {"q": "x"})],                                        "bad_mend",        1),
    "true is no row":              ([(True, {"q": "x"})],                                       "bad_mend",        1),
    "a key we do not know":        ([(1, {"q": "x"}, {"valeus": {}})],                          "bad_mend",        1),
    "a key that is missing":       (["{}"],                                                     "bad_mend",        1),
    "half a line":                 (['{"file": "questions.csv", "ro'],                          "bad_json",        1),
    "a key twice":                 (['{"file": "a", "file": "b"}'],                             "duplicate_key",   1),
    "no object":                   (["[1]"],                                                    "not_an_object",   1),
    "a number JSON has not":       (['{"row": NaN}'],                                           "bad_number",      1),
    "half a character":            (['{"file": "\\ud800"}'],                                    "bad_encoding",    1),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "code", "line"), FINDINGS.values(), ids=FINDINGS)
def test_a_line_that_cannot_be_used_is_named_and_its_row_stays(benchmark, lines, code, line):
    paths = benchmark(PLAIN, {"questions.csv": "q,a\nfirst,1\nsecond,2\n"})
    mend(
        paths,
        *lines,
    )

    _, rows, [note] = mended_rows(paths, "questions.csv")

    assert [row["q"] for row in rows] == ["first", "second"]
    assert note.startswith(f"data/sources/scratch/{MENDED}, line {line}")
    assert f"[{code}]. " in note


def test_one_bad_line_does_not_keep_the_others_from_being_applied(benchmark):
    paths = benchmark(PLAIN, {"questions.csv": "q,a\nfirst,1\nsecond,2\n"})
    mend(paths, "{", (2, {"q": "SECOND", "a": "2"}), (1, {"q": 5}))

    _, rows, notes = mended_rows(paths, "questions.csv")

    assert [row["q"] for row in rows] == ["first", "SECOND"]
    assert len(notes) == 2


def test_a_value_that_would_mix_a_column_is_refused_and_the_row_keeps_its_say(benchmark):
    paths = benchmark(PLAIN, {"a.jsonl": jsonl({"q": "a"}, {"q": 5}, {"q": ""})})
    mend(paths, (2, {"q": 6}), (3, {"q": "c"}), file="a.jsonl")

    _, rows, [note] = mended_rows(paths, "a.jsonl")

    # The column is mixed as long as row 2 is not mended, and then holds JSON text.
    assert [row["q"] for row in rows] == ['"a"', "5", '"c"']
    assert 'field "values.q": expected text or null, found 6 [bad_type]' in note


def test_a_note_on_a_changed_file_says_what_to_do(benchmark):
    paths = benchmark(PLAIN, {"questions.csv": "q,a\nfirst,1\n"})
    mend(paths, (1, {"q": "x"}))
    (paths.source / "questions.csv").write_text("q,a\nzeroth,0\nfirst,1\n")

    _, rows, [note] = mended_rows(paths, "questions.csv")

    assert [row["q"] for row in rows] == ["zeroth", "first"]
    assert "expected questions.csv as it was when row 1 was written out" in note
    assert "rag-eval mend scratch" in note


def test_a_link_is_not_followed(benchmark, tmp_path):
    paths = benchmark(PLAIN, {"questions.csv": "q,a\nfirst,1\n"})
    (tmp_path / "elsewhere").write_text("")
    (paths.source / MENDED).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(InputError) as raised:
        read_mends(paths, {})

    assert raised.value.code == "path_outside"


def test_rows_of_many_pieces_keep_their_order_and_pieces_without_mends_pass_as_they_are():
    batch = pa.RecordBatch.from_pydict({"q": ["a", "b"]})
    pieces = [
        Piece(batch, [1, 3], [2, 4], [UnreadRow("f", 2, 3, "x", "y")], {"q": "text"}),
        Piece(batch, [4, 5], [5, 6], [], {"q": "text"}),
        Piece(batch, [7, 8], [8, 9], [UnreadRow("f", 6, 7, "x", "y"), UnreadRow("f", 9, 10, "x", "y")], {"q": "text"}),
    ]
    mends = {row: Mend("m", row, {"q": f"new {row}"}) for row in (2, 3, 9)}
    rows = MendedRows(Mends(frozenset(), (), {"f": mends}))

    first, second, third = rows.pieces("f", lambda kinds: iter(pieces), None)

    assert first.batch.to_pydict() == {"q": ["a", "new 2", "new 3"]}
    assert (first.numbers, first.lines, first.unread) == ([1, 2, 3], [2, 3, 4], [])
    assert second is pieces[1]
    assert third.batch.to_pydict() == {"q": ["a", "b", "new 9"]}
    assert (third.numbers, third.lines) == ([7, 8, 9], [8, 9, 10])
    assert [row.row for row in third.unread] == [6]


def test_a_file_without_mends_is_read_once():
    piece = Piece(pa.RecordBatch.from_pydict({"q": ["a"]}), [1], kinds={"q": "text"})
    asked = []

    def read(kinds):
        asked.append(kinds)
        return iter([piece])

    assert list(MendedRows(Mends(frozenset(), (), {})).pieces("f", read, None)) == [piece]
    assert asked == [None]
