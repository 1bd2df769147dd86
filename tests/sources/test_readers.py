"""Readers never change a text, and every record is a row or a rejected row with its position.

Single faults of rows and files are tested through a conversion, in tests/faults.
"""

import csv
import io
import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources import jsonl
from rag_eval_pipeline.sources.batches import InputFile, RejectedRow
from rag_eval_pipeline.sources.csv import read_csv
from rag_eval_pipeline.sources.format_detection import detect_encoding, detect_format
from rag_eval_pipeline.sources.jsonl import read_json, read_jsonl, read_yaml_rows
from rag_eval_pipeline.sources.parquet import read_arrow, read_parquet
from rag_eval_pipeline.sources.relations import spool_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec


class Decoded(NamedTuple):
    columns: dict[str, list]
    numbers: list[int]
    lines: list[int]
    rejected: list[RejectedRow]


def decode(reader, raw, tmp_path=None, **stated):
    raw = raw.encode() if isinstance(raw, str) else raw
    encoding = detect_encoding(raw, stated.get("encoding"))
    file = InputFile(tmp_path, "f", "f", SourceSpec(path=("f",), **stated), encoding, raw[:65_536])
    pieces = list(reader(io.BytesIO(raw), file))
    rows = [row for piece in pieces for row in piece.rows.to_pylist()]
    names = dict.fromkeys(name for piece in pieces for name in piece.rows.schema.names)
    return Decoded(
        {name: [row.get(name) for row in rows] for name in names},
        [number for piece in pieces for number in piece.numbers],
        [int(line) for piece in pieces for line in piece.lines],
        [row for piece in pieces for row in piece.rejected],
    )


def outcome(raw):
    """All that a relation shows of JSON lines: rows and their types, places, and what was refused."""

    def read(name, kinds):
        return read_jsonl(io.BytesIO(raw.encode()), InputFile(None, "f", "f", SourceSpec(path=("f",)), types=kinds))

    try:
        made = spool_relation({"f": None}, read, "f", source_columns=True)
    except InputError as error:
        return str(error)
    lines = [made.line("f", row) for row in made.table.column("source_row").to_pylist()]
    return made.schema, made.table.to_pylist(), lines, made.rejected


def rejected(rows):
    return [(row.row, row.line, row.code) for row in rows.rejected]


class TestCsv:
    EXCEL = {  # text -> columns, lines
        "a stated delimiter":    ("sep=;\nq;a\nx;1,5\n",                         {"q": ["x"], "a": ["1,5"]},           [3]),
        "remarks above":         ("# exported\n# by hand\nq,a\nx,1\ny,2\n",      {"q": ["x", "y"], "a": ["1", "2"]},  [4, 5]),
        "titles of two cells":   ("Set,,,\nBy:,Ada,,\nq,a,d,n\nx,1,r,s\ny,2,d,t\n", {"q": ["x", "y"], "a": ["1", "2"], "d": ["r", "d"], "n": ["s", "t"]}, [4, 5]),
        "a title above":         ("Report,,\n,,\nq,a,d\nx,1,\ny,2,d\n",          {"q": ["x", "y"], "a": ["1", "2"], "d": ["", "d"]}, [4, 5]),
        "a number as header":    ("#,q,a\n1,x,2\n",                              {"#": ["1"], "q": ["x"], "a": ["2"]}, [2]),
        "rows of separators":    ("q;a\nx;1\n;\n ; \ny;2\n;\n",                 {"q": ["x", "y"], "a": ["1", "2"]},  [2, 5]),
        "texts as formulas":     ('q,a\n="001","=""a""""b"""\n=A1,="x"&1\n',    {"q": ["001", "=A1"], "a": ['a"b', '="x"&1']}, [2, 3]),
        "links as formulas":     ('q,a\n"=HYPERLINK(""https://e.org/a"";""dock"")",=hyperlink("b")\n', {"q": ["https://e.org/a"], "a": ["b"]}, [2]),
    }  # fmt: skip

    @pytest.mark.parametrize(("raw", "columns", "lines"), EXCEL.values(), ids=EXCEL)
    def test_csv_of_a_spreadsheet_is_read_as_it_is_shown(self, raw, columns, lines):
        rows = decode(read_csv, raw)

        assert (rows.columns, rows.lines, rows.rejected) == (columns, lines, [])

    def test_csv_header_that_stands_again_is_a_rejected_row(self):
        rows = decode(read_csv, "q,a\nx,1\nq,a\n\ufeffq,a\n\ufeffy,2\n")

        assert rows.columns == {"q": ["x", "y"], "a": ["1", "2"]}
        assert rejected(rows) == [(2, 3, "repeated_header"), (3, 4, "repeated_header")]

    def test_tsv_whose_quotes_swallow_rows_is_refused_until_it_is_said_what_they_are(self):
        raw = 'id\tq\n1\t"to be or not\n2\twhat is that"\n3\tx\n'

        with pytest.raises(InputError, match="line 2 to 3.*quote: none") as caught:
            decode(read_csv, raw)
        assert caught.value.code == "quotes_as_text"
        assert decode(read_csv, raw, quote="none").columns["q"] == ['"to be or not', 'what is that"', "x"]
        assert decode(read_csv, raw, quote='"').columns["id"] == ["1", "3"]

    def test_csv_with_escaped_quotes_is_read_where_this_is_stated(self):
        raw = 'q,a\n"A \\"pier\\", or","C:\\new\\\\old"\n"two\n\\"lines\\"","a ""b""\\\\"\n'
        stated = decode(read_csv, raw, quote="backslash")

        assert stated.columns == {"q": ['A "pier", or', 'two\n"lines"'], "a": ["C:\\new\\old", 'a "b"\\']}
        with pytest.raises(InputError, match="quote: backslash"):
            decode(read_csv, raw)

    def test_csv_notes_what_it_reads_otherwise_than_it_stands(self):
        raw = 'Report 2024,,\nid,q,a\n="1",x,4.55679E+15\n="2",y,1.5E+11\n'
        [batch] = read_csv(
            io.BytesIO(raw.encode()), InputFile(None, "f", "f", SourceSpec(path=("f",)), sample=raw.encode())
        )

        assert batch.notes == [
            "the header is line 2, below 'Report 2024'",
            'cells such as ="007" and =HYPERLINK("https://...") are read as the text or the address in them',
            "column a has 4.55679E+15, of which Excel has cut digits: format it as text and export again",
        ]

    def test_csv_without_header_gets_the_stated_names(self):
        rows = decode(read_csv, "one,1\ntwo,2\n", columns=("q", "a"))

        assert (rows.columns, rows.lines) == ({"q": ["one", "two"], "a": ["1", "2"]}, [1, 2])

    def test_csv_header_with_repeated_names_can_be_replaced(self):
        raw = "text,text\none,1\n"

        with pytest.raises(InputError, match="header: replace") as caught:
            decode(read_csv, raw)
        assert caught.value.code == "duplicate_column"
        assert decode(read_csv, raw, columns=("q", "a"), header="replace").columns == {"q": ["one"], "a": ["1"]}

    DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "bar": "|"}

    @pytest.mark.parametrize("delimiter", DELIMITERS.values(), ids=DELIMITERS)
    def test_csv_delimiter_is_the_one_that_gives_equal_widths(self, delimiter):
        text = f'q{delimiter}a\n"x, y; z"{delimiter}1\nwell, then{delimiter}2\n' if delimiter != "," else "q,a\nx;y,1\n"
        assert list(decode(read_csv, text).columns) == ["q", "a"]

    @given(
        st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b"\r\n", b"\xe9", b"\x00", b" ", "é".encode()]), max_size=40)
    )
    def test_csv_numbers_rows_without_gaps(self, parts):
        try:
            rows = decode(read_csv, b"q,a\n" + b"".join(parts))
        except InputError as error:
            assert error.code in {"unclosed_quote", "bad_quoting"}  # noqa: PT017
            return
        assert sorted([*rows.numbers, *(row.row for row in rows.rejected)]) == list(
            range(1, len(rows.numbers) + len(rows.rejected) + 1)
        )
        assert all(len(values) == len(rows.numbers) for values in rows.columns.values())
        assert "\x00" not in "".join(cell for cells in rows.columns.values() for cell in cells)

    # A carriage return alone ends a line for most readers, and Python's writer does not quote it.
    CELL = st.lists(st.sampled_from([*'ab ,;"\n\t\u2028é\x0b', "\r\n"]), max_size=6).map("".join)

    @given(
        st.lists(st.tuples(CELL, CELL, CELL), max_size=30),
        st.sampled_from(["\n", "\r\n"]),
        st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    )
    def test_csv_round_trips_what_python_writes(self, rows, end, quoting):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=end, quoting=quoting).writerows([("q", "a", "b"), *rows])

        decoded = decode(read_csv, text.getvalue(), delimiter=",")

        lines, line = {}, 2
        for number, row in enumerate(rows):
            lines[number] = line
            line += 1 + sum(cell.count("\n") for cell in row)
        filled = [number for number, cells in enumerate(rows) if "".join(cells).strip()]
        assert list(zip(*decoded.columns.values(), strict=True)) == [rows[number] for number in filled]
        assert decoded.numbers == list(range(1, len(filled) + 1))
        assert decoded.lines == [lines[number] for number in filled]


class TestJsonLines:
    LINE = st.sampled_from(
        [
            '{"q": "x", "a": 1}',
            '{"q": "y", "a": 1.5}',
            '{"q": null, "a": 9007199254740993}',
            '{"q": "z", "b": {"c": [1, 2]}}',
            '{"b": {"c": []}}',
            '{"b": {"d": "new"}}',
            '{"q": 5}',
            '{"a": NaN}',
            '{"q": "1", "q": "2"}',
            '{"q": 1}{"q": 2}',
            '{"q":',
            '"two"}',
            "",
            '{"q": "\\ud800"}',
            '{"a": 1e999}',
            "{}",
        ]
    )

    @given(st.lists(LINE, max_size=20), st.sampled_from(["\n", "\r\n"]))
    def test_jsonl_is_the_same_in_blocks_of_any_size(self, lines, end):
        raw = end.join(lines)
        expected = outcome(raw)

        with pytest.MonkeyPatch.context() as small:
            small.setattr(jsonl, "BLOCK_BYTES", 24)
            assert outcome(raw) == expected

    def test_jsonl_reads_nan_as_null_if_allowed(self):
        rows = decode(read_jsonl, '{"q": NaN, "a": 1.5}\n{"q": "x", "a": -Infinity}\n', allow_nan=True)
        assert rows.columns == {"q": [None, "x"], "a": [1.5, None]}

    @given(st.lists(st.binary(max_size=12) | st.just(b'{"q": "x"}'), max_size=10))
    def test_jsonl_counts_every_line_that_is_not_blank(self, lines):
        raw = b"\n".join(lines)

        rows = decode(read_jsonl, b"\n" + raw)

        assert len(rows.numbers) + len(rows.rejected) == sum(bool(line.strip()) for line in raw.split(b"\n"))


class TestJson:
    SHAPES = {
        "an array of objects": ([{"q": 1}, {"q": 2}], None),
        "an array under a key": ({"version": "2", "data": [{"q": 1}, {"q": 2}]}, "data"),
        "an array under keys of objects": ({"set": {"data": [{"q": 1}, {"q": 2}]}}, "set.data"),
        "lists of one length, a column each": ({"q": [1, 2]}, None),
        "pandas, orient=columns": ({"q": {"0": 1, "5": 2}}, None),
        "pandas, orient=split": ({"columns": ["q"], "index": [0, 1], "data": [[1], [2]]}, None),
    }

    @pytest.mark.parametrize(("value", "root"), SHAPES.values(), ids=SHAPES)
    def test_json_shapes(self, value, root):
        assert decode(read_json, json.dumps(value), root=root).columns == {"q": [1, 2]}

    ROOTS = {
        "pandas, orient=index": ({"3": {"q": 1}, "4": {"q": 2}}, None, {"source_key": ["3", "4"], "q": [1, 2]}),
        "the value is one row": ({"q": "x", "n": [1, 2], "m": [3, 4]}, "$", {"q": ["x"], "n": [[1, 2]], "m": [[3, 4]]}),
        "grades of documents by numeric ids": (
            {"q1": {"12": 1, "34": 0}},
            None,
            {"source_key": ["q1"], "12": [1], "34": [0]},
        ),
        "members that are texts": ({"queries": {"k": "x"}}, "queries.*", {"source_key": ["k"], "value": ["x"]}),
        "members that are lists": ({"d": {"k": ["x"]}}, "$.d.*", {"source_key": ["k"], "value": [["x"]]}),
        "items that are texts": ({"d": ["x", "y"]}, "d.*", {"value": ["x", "y"]}),
    }

    @pytest.mark.parametrize(("value", "root", "columns"), ROOTS.values(), ids=ROOTS)
    def test_json_root_makes_rows_of_objects(self, value, root, columns):
        assert decode(read_json, json.dumps(value), root=root).columns == columns

    def test_yaml_has_the_shapes_of_json_with_lines_and_numbers(self):
        text = "description: x\ntests:\n- vars: {q: Who?}\n  n: 12\n- vars: {q: no}\n  n: 0.5\n- bare\n"

        found = decode(read_yaml_rows, text, root="tests")

        assert found.columns == {"vars": [{"q": "Who?"}, {"q": "no"}], "n": [12, 0.5]}
        assert found.lines == [3, 5]
        assert rejected(found) == [(3, 7, "not_an_object")]

    def test_json_of_several_values_or_with_nan_says_what_to_do(self):
        with pytest.raises(InputError, match="one line .* as one list"):
            decode(read_json, '{\n"q": 1\n}\n{\n"q": 2\n}')
        with pytest.raises(InputError, match="`allow_nan: true`"):
            decode(read_json, '[{"q": NaN}]')

    ZEROS = {
        # text, what its note says
        "JSON lines":         (read_jsonl, '{"a": 1.5}\n{"a": 1.10}\n{"a": -2.500, "b": 3.0}\n', ["2: 1.10 (line 2), -2.500 (line 3)"]),
        "JSON":               (read_json, '[{"a": [1.10]},\n{"a": [2.50,3.40 ,4.00]}]', ["4: 1.10 (line 1), 2.50 (line 2), 3.40 (line 2), ..."]),
        "in a mixed column":  (read_jsonl, '{"a": "x"}\n{"a": 1.10}\n',                          ["1: 1.10 (line 2)"]),
        "in texts":           (read_jsonl, '{"a": "\\" 1.10, 2.50}", "b": 0.5}\n',              []),
        "kept, or computed":  (read_jsonl, '{"a": 10.0, "b": 100, "c": 0.05, "d": 2.50e3}\n',   []),
    }  # fmt: skip

    @pytest.mark.parametrize(("reader", "raw", "notes"), ZEROS.values(), ids=ZEROS)
    def test_json_numbers_that_lose_zeros_are_named(self, reader, raw, notes):
        batches = list(reader(io.BytesIO(raw.encode()), InputFile(None, "f", "f", SourceSpec(path=("f",)))))

        said = [note for batch in batches for note in batch.notes]
        assert [note.partition("(")[2].rpartition(");")[0] for note in said] == notes

    def test_json_missing_root_names_the_lists(self):
        with pytest.raises(InputError, match="State `root: data`") as caught:
            decode(read_json, '{"version": "2", "data": [{"q": 1}]}')
        assert caught.value.code == "missing_root"

    def test_json_missing_root_quotes_no_long_key(self):
        with pytest.raises(InputError, match="State `root` in") as caught:
            decode(read_json, json.dumps({"version": "2", "k" * 20_000: []}))
        assert len(str(caught.value)) < 1_000


class TestParquet:
    def test_parquet_keeps_nested_types(self, tmp_path):
        table = pa.table({"q": ["x"], "context": [{"title": ["t"], "sentences": [["a", "b"]]}]})
        pq.write_table(table, tmp_path / "f.parquet")

        rows = decode(read_parquet, (tmp_path / "f.parquet").read_bytes(), tmp_path / "f.parquet")

        assert rows.columns == table.to_pydict()
        assert rows.numbers == [1]

    @pytest.mark.fault(35)
    @pytest.mark.parametrize("cut", [10, -1], ids=["header only", "last byte gone"])
    def test_parquet_rejects_cut_file(self, tmp_path, cut):
        pq.write_table(pa.table({"q": ["x"] * 1000}), tmp_path / "f.parquet")
        raw = (tmp_path / "f.parquet").read_bytes()[:cut]

        with pytest.raises(InputError) as caught:
            decode(read_parquet, raw, tmp_path / "f.parquet")

        assert caught.value.code == "bad_parquet"

    FEATURES = {
        "q": {"dtype": "large_string", "_type": "Value"},
        "kind": {"names": ["fact", "opinion"], "_type": "ClassLabel"},
        "scan": {"_type": "Image"},
        "scans": {"feature": {"_type": "Image"}, "_type": "List"},
    }
    SCHEMA = pa.schema(
        [
            ("q", pa.large_string()),
            ("kind", pa.int64()),
            ("scan", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("scans", pa.list_(pa.struct([("bytes", pa.binary())]))),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})},
    )
    ROWS = [("x", 1, {"bytes": b"png"}, []), ("y", None, None, None), ("z", -1, None, None)]

    def stored(self, form):
        table = pa.Table.from_pylist([dict(zip(self.SCHEMA.names, row, strict=True)) for row in self.ROWS], self.SCHEMA)
        file = io.BytesIO()
        if form == "parquet":
            pq.write_table(table, file)
        else:
            new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
            with new(file, self.SCHEMA) as writer:
                writer.write_table(table, max_chunksize=2)
        return file.getvalue()

    @pytest.mark.parametrize("form", ["parquet", "file", "stream"])
    def test_parquet_and_arrow_of_datasets_have_class_names_and_no_media(self, form):
        raw = self.stored(form)
        reader = {"parquet": read_parquet}.get(form, read_arrow)

        found = list(reader(io.BytesIO(raw), InputFile(None, "f", "f", SourceSpec(path=("f",)))))

        assert detect_format(raw[:64], "f", "f", encoding="utf-8", whole=True) == {"parquet": form}.get(form, "arrow")
        assert [row for piece in found for row in piece.rows.to_pylist()] == [
            {"q": "x", "kind": 1, "kind_name": "opinion"},
            {"q": "y", "kind": None, "kind_name": None},
            {"q": "z", "kind": -1, "kind_name": None},
        ]
        assert found[0].rows.schema.field("q").type == pa.string()
        assert list(found[0].notes) == ["column 'scan' is left out: Image", "column 'scans' is left out: Image"]

    def test_arrow_that_is_cut_or_damaged_is_refused(self):
        raw = self.stored("stream")
        for damaged in (raw[: len(raw) // 2], raw[:-8], raw[:16] + bytes(40) + raw[56:]):
            with pytest.raises(InputError) as caught:
                decode(read_arrow, damaged)
            assert caught.value.code == "bad_arrow"
