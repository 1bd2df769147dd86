"""TREC files are read as trec_eval reads them, strictly, and what is written is read again."""

import gzip
import json
import math
from contextlib import nullcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats import trec_columns
from rag_eval_pipeline.formats.trec import (
    Qrel,
    RunLine,
    Topic,
    checked_qrels,
    checked_topics,
    decode_id,
    encode_id,
    iterate_qrels,
    iterate_run,
    iterate_topics,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
    write_topics,
)

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1)
# Pieces that meet each other's escapes: white space, its escapes, escapes of escapes, escapes of something else.
PIECES = st.sampled_from(
    ["a", " ", "\t", "\n", "\r", "\0", "\x85", "\xa0", "\u2028", "%", "%20", "%25", "%2520", "%C2", "%C2%A0", "%A0",
     "%09", "20", "25", "%41", "%c2%a0", '"', "#", "'", ".pdf", "é"]
)  # fmt: skip
NAMES = st.one_of(TEXT, st.lists(PIECES, min_size=1, max_size=8).map("".join))
LINE = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)
QUERY_NAMES = NAMES.filter(lambda name: not name.startswith("#"))  # such a line is a comment

ENCODED = {
    #                                        name                       id
    "a space":                              ("a b.pdf",                 "a%20b.pdf"),
    "what a space would become":            ("a%20b.pdf",               "a%2520b.pdf"),
    "an escape of something else":          ("caf%C3%A9%27.pdf",        "caf%C3%A9%27.pdf"),
    "a bare per cent sign":                 ("100%.pdf",                "100%.pdf"),
    "an escaped per cent sign":             ("100%25.pdf",              "100%25.pdf"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "identifier"), ENCODED.values(), ids=ENCODED)
def test_trec_id_changes_only_where_white_space_would_split_it(name, identifier):
    assert encode_id(name) == identifier
    assert decode_id(identifier) == name


@given(NAMES)
@example("%25\xa0%2520 %")
def test_trec_id_round_trips(name):
    identifier = encode_id(name)

    assert decode_id(identifier) == name
    assert len(identifier.split()) == 1
    assert "\0" not in identifier


@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(
    pairs=st.lists(st.tuples(QUERY_NAMES, NAMES), max_size=6, unique=True), score=st.floats(allow_nan=False), text=LINE
)
def test_trec_files_round_trip(pairs, score, text, suffix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trec")
    pairs = [(encode_id(query), encode_id(document)) for query, document in pairs]
    files = {
        (write_qrels, iterate_qrels): [Qrel(*pair, grade) for grade, pair in enumerate(pairs, -3)],
        (write_run, iterate_run): [RunLine(*pair, rank, score, "tag") for rank, pair in enumerate(pairs)],
        (write_topics, iterate_topics): [Topic(query, f"x{text}") for query in dict(pairs)],
    }
    for (write, read), records in files.items():
        path = folder / f"{write.__name__}.txt{suffix}"

        assert write(path, records) == len(records)
        assert list(read(path)) == records


# What trec_eval 10 reads, and the value that it has there.
READ_RUN_LINES = {
    "fields after the tag":      (b"1 Q0 a 1 0.5 tag more and more",  RunLine("1", "a", 1, 0.5, "tag")),
    "a rank that is a word":     (b"1 Q0 a first 0.5 t",              RunLine("1", "a", None, 0.5, "t")),
    "a rank beyond 64 bits":     (b"1 Q0 a 99999999999999999999 2 t", RunLine("1", "a", None, 2.0, "t")),
    "tabs, blanks and CR":       (b"\t1 \tQ0\x0b a  1\t.5 t \r",      RunLine("1", "a", 1, 0.5, "t")),
    "beyond the largest float":  (b"1 Q0 a 1 1e999 t",                RunLine("1", "a", 1, math.inf, "t")),
    "minus infinity, written out": (b"1 Q0 a 1 -Infinity t",          RunLine("1", "a", 1, -math.inf, "t")),
    "a query that begins with #": (b"1# Q0 #a 1 1 #",                 RunLine("1#", "#a", 1, 1.0, "#")),
}  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), READ_RUN_LINES.values(), ids=READ_RUN_LINES)
def test_run_line_has_the_value_that_trec_eval_reads(line, expected, tmp_path):
    path = tmp_path / "run.txt"
    path.write_bytes(b"# a comment\n\n \t\r\n  # another\n" + line + b"\n#\n \n")
    assert list(iterate_run(path)) == [expected]


def test_qrels_may_have_comments_and_grades_with_a_point(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"# judged by hand\n# twice\n1 0 a 1.0\n#2 0 a 1\n1 0 b +2.\n# end")
    assert list(iterate_qrels(path)) == [Qrel("1", "a", 1), Qrel("1", "b", 2)]


QRELS = {
    #                             line                              code
    "five fields":               (b"1 0 a b 1\n",                   "bad_fields"),
    "an empty line":             (b"\n",                            "bad_fields"),
    "a grade that is a word":    (b"1 0 a yes\n",                   "bad_number"),
    "a grade beyond 64 bits":    (b"1 0 a 99999999999999999999\n",  "bad_number"),
    "bytes that are no UTF-8":   (b"1 0 \xff 1\n",                  "bad_encoding"),
    "the first line once more":  (b"0 0 first 0\n",                 "duplicate_document"),
}  # fmt: skip


RUNS = {
    "not a number":              (b"1 Q0 a 1 NaN t\n",              "bad_score"),
    "a decimal comma":           (b"1 Q0 a 1 0,5 t\n",              "bad_number"),
    "the first line once more":  (b"0 Q0 first 9 0.1 t\n",          "duplicate_document"),
}  # fmt: skip


LINES = [
    pytest.param(reader, first, *case, id=f"{reader.__name__}, {name}")
    for reader, first, table in (
        (iterate_qrels, b"0 0 first 1\n", QRELS),
        (iterate_run, b"0 Q0 first 1 1.0 t\n", RUNS),
    )
    for name, case in table.items()
]


@pytest.mark.parametrize(("reader", "first", "line", "code"), LINES)
def test_trec_error_names_the_line(reader, first, line, code, tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(first + line)

    with pytest.raises(InputError) as error:
        list(reader(path))

    assert (error.value.code, error.value.row, error.value.file) == (code, 2, str(path))
    assert "\n" not in str(error.value)


TOPICS = {
    #                               file                                                             code               row
    "an id twice":                 ("1\ttext\n1\tother\n",                                          "duplicate_query", 2),
    "a topic without a number":    ("<top>\n<title> a\n</top>\n",                                   "bad_topic",       1),
    "a topic that does not end":   ("<top>\n<num> 1\n<title> a\n",                                  "bad_topic",       1),
    "text between topics":         ("<top>\n<num> 1\n<title> a\n</top>\nx\n",                       "bad_topic",       1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "row"), TOPICS.values(), ids=TOPICS)
def test_topics_error_names_the_line(text, code, row, tmp_path):
    path = tmp_path / "topics"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        list(iterate_topics(path))

    assert (error.value.code, error.value.row) == (code, row)
    assert str(error.value) in [str(one) for one in checked_topics(path) if isinstance(one, InputError)]


def test_topics_of_the_tracks_keep_their_parts(tmp_path):
    path = tmp_path / "topics.301-302"
    path.write_text(
        "\n<top>\n\n<num> Number: 301 \n<title> International Organized Crime \n\n<desc> Description: \n"
        "Identify organizations that participate\nin crime.\n\n<narr> Narrative: \nA relevant document must\nname one.\n"
        "\n</top>\n\n<TOP>\n<head> Tipster\n<num>302</num>\n<title> Topic: Poliomyelitis </title>\n</TOP>\n"
    )

    assert list(iterate_topics(path)) == [
        Topic(
            "301", "International Organized Crime", "Identify organizations that participate in crime.",
            "A relevant document must name one.",
        ),
        Topic("302", "Poliomyelitis"),
    ]  # fmt: skip


def test_trec_returns_every_error_of_a_file(tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("1 0 a 1\n1 0 a 1\n2 0 b x\n2 0 c 1\n3 0 a 1\n1 0 b 1\n3 0 b 1\n3 0 a 0\n1 0 a 0\n")

    found = list(checked_qrels(qrels))

    # The last two repeat a document although another query came between.
    errors = [(one.row, one.field) for one in found if isinstance(one, InputError)]
    assert errors == [(2, "document id"), (3, "grade"), (8, "document id"), (9, "document id")]
    records = [(one.query_id, one.document_id) for one in found if not isinstance(one, InputError)]
    assert records == [("1", "a"), ("2", "c"), ("3", "a"), ("1", "b"), ("3", "b")]


WHOLE_FILES = {
    "a line without end":           (gzip.compress(b"x" * (17 * 1024 * 1024), 1), "long_line"),
    "no file":                      (None,                                       "missing_file"),
    "a gzip file that was cut":     (gzip.compress(b"1 0 a 1\n")[:-9],           "bad_gzip"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code"), WHOLE_FILES.values(), ids=WHOLE_FILES)
def test_trec_refuses_an_unreadable_file(content, code, tmp_path):
    path = tmp_path / "qrels.txt.gz"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError) as error:
        list(iterate_qrels(path))

    assert error.value.code == code


def test_topics_may_have_crlf_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "topics.tsv"
    path.write_bytes(b"\xef\xbb\xbf1\tone\r\n2\ttwo")

    assert list(iterate_topics(path)) == [Topic("1", "one"), Topic("2", "two")]


RUN_LINE = RunLine("1", "a", 1, 0.5, "t")
NOT_WRITTEN = {
    #                         writer         record                            code
    "an empty id":           (write_qrels,  Qrel("1", "", 1),                 "bad_id"),
    "a NUL":                 (write_qrels,  Qrel("1", "a\0b", 1),             "bad_id"),
    "a comment as qrel":     (write_qrels,  Qrel("#1", "a", 1),               "bad_id"),
    "a tag of two words":    (write_run,    RUN_LINE._replace(tag="a b"),         "bad_id"),
    "NaN":                   (write_run,    RUN_LINE._replace(score=math.nan),    "bad_score"),
    "a topic of two lines":  (write_topics, Topic("1", "two\nlines"),         "bad_topic"),
}  # fmt: skip


@pytest.mark.parametrize(("write", "record", "code"), NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_trec_writes_only_what_can_be_read_again(write, record, code, tmp_path):
    with pytest.raises(InputError) as error:
        write(tmp_path / "file.txt", [record])

    assert error.value.code == code
    assert list(tmp_path.iterdir()) == []


# Fields and separators that Arrow's CSV reader, or another one, might take for something else.
ODD_FIELDS = [b"", b"#", b"#1", b"\xff", b"\xef\xbb\xbf1", b"a\x1cb", b"a\0b", b'"', b'a"b c"', b"\\n", b"NA", b"null",
              b"nan", b"-Infinity", b"1e999", b"+5", b"5.", b".5", b"5.0", b"0x1F", b"1_0", b"1,5", b"5e-400",
              b"9" * 18, b"9" * 19, b"0.1234567890123456789", "\u0663".encode()]  # fmt: skip
ODD_SEPARATORS = [b"  ", b"\t", b" \t", b"\v", b"\r", b"\n", b"\r\n", b" more\n", b"\n\n"]


@st.composite
def trec_files(draw, fields):
    lines = []
    for number in range(draw(st.integers(1, 4))):
        words = [field.replace(b"?", b"%d" % number) for field in fields]
        if draw(st.booleans()):
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(ODD_FIELDS))
        separators = [b" "] * (len(words) - 1) + [b"\n"]
        if draw(st.booleans()):
            separators[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(ODD_SEPARATORS))
        lines.append(b"".join(word + separator for word, separator in zip(words, separators, strict=True)))
    return b"".join(lines).removesuffix(draw(st.sampled_from([b"", b"\n"])))


def read_by_column(path, reader):
    """The rows of a file, None where it has to be read line by line."""
    try:
        if reader is iterate_run:
            return [row for batch, _ in trec_columns.run_batches(path) for row in batch.to_pylist()]
        return trec_columns.read_qrels_table(path).to_pylist()
    except trec_columns.IrregularError:
        return None


READERS = {
    #        reader          fields of a line
    "run":   (iterate_run,   [b"q?", b"Q0", b"d?", b"1", b"0.5", b"t?"]),
    "qrels": (iterate_qrels, [b"q?", b"0", b"d?", b"1"]),
}  # fmt: skip


@pytest.mark.parametrize(("reader", "fields"), READERS.values(), ids=READERS)
@given(data=st.data(), block=st.sampled_from([20, 1 << 20]))
def test_trec_columns_hold_what_the_lines_say(reader, fields, data, block, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / "file"
    path.write_bytes(data.draw(trec_files(fields)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec_columns, "BLOCK_BYTES", block)
        found = read_by_column(path, reader)
    pairs = [(row["query_id"], row["document_id"]) for row in found or ()]
    is_repeating = len(set(pairs)) < len(pairs)  # which scoring finds in columns
    assert found is None or is_repeating or found == by_line(path, reader)


def by_line(path, reader):
    return [
        {name: value for name, value in line._asdict().items() if name in {"query_id", "document_id", "score", "grade"}}
        for line in reader(path)
    ]


ODD_FILES = {
    #                                            reader         file                                         by column, else the line's code
    "qrels, comments only":                     (iterate_qrels, b"# one\n# two\n",                           True),
    "qrels, a comment as the last block":       (iterate_qrels, b"1 0 a 1\n2 0 b 0\n3 0 c 2\n# end\n",       True),
    "qrels, a mark at the start":               (iterate_qrels, b"\xef\xbb\xbf1 0 a 1\n",                    True),
    "qrels, a carriage return within a line":   (iterate_qrels, b"1 0 a 1\r2 0 b 1\n",                       "bad_fields"),
    "qrels, a mark and three fields":           (iterate_qrels, b"\xef\xbb\xbf 0 a 1\n",                    "bad_fields"),
    "qrels, an iteration that is no UTF-8":     (iterate_qrels, b"1 \xff a 1\n",                            None),
    "run, comments only":                       (iterate_run,   b"# one\n# two\n",                           True),
    "run, a carriage return within a line":     (iterate_run,   b"1 Q0 a 1 2 t\r1 Q0 b 1 2 t\n",             True),
    "run, a tag that is no UTF-8":              (iterate_run,   b"1 Q0 a 1 2 \xff\n1 Q0 b 2 1 t\n",          "bad_encoding"),
    "run, a last tag that is no UTF-8":         (iterate_run,   b"1 Q0 a 1 2 t\n1 Q0 b 2 1 \xff\n",          "bad_encoding"),
}  # fmt: skip


@pytest.mark.parametrize(("reader", "data", "expected"), ODD_FILES.values(), ids=ODD_FILES)
def test_trec_columns_of_odd_files_are_those_of_the_lines_or_left_to_them(
    reader, data, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(trec_columns, "BLOCK_BYTES", 10)
    path = tmp_path / "file"
    path.write_bytes(data)

    found = read_by_column(path, reader)

    assert (found is not None) == (expected is True)
    with pytest.raises(InputError, match=expected) if isinstance(expected, str) else nullcontext():
        assert found in (None, by_line(path, reader))


@pytest.mark.parametrize("form", [b"%b %b %b %b %b %b\n", b"%b\t%b\t%b\t%b\t%b\t%b\n", b" %-5b %b %9b %4b %b %b \r\n"])
def test_trec_files_of_a_usual_form_are_read_by_column(form, tmp_path, monkeypatch):
    monkeypatch.setattr(trec_columns, "BLOCK_BYTES", 100)
    rows = [(b"%d" % (n // 4), b"Q0", b"d%d" % n, b"1", b"%d.5" % n, b"tag") for n in range(40)]
    path = tmp_path / "run"
    path.write_bytes(b"# a run\n" + b"".join(form % row for row in rows))

    found = read_by_column(path, iterate_run)

    assert found == [{"query_id": str(n // 4), "document_id": f"d{n}", "score": n + 0.5} for n in range(40)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_trec_reads_ranx_files(suffix, shared):
    folder = shared / "oracles" / "ranx"

    assert read_qrels(folder / f"qrels.trec{suffix}") == json.loads((folder / "qrels.json").read_text())
    run = {query: dict(scored) for query, scored in read_run(folder / f"run.trec{suffix}").items()}
    assert run == json.loads((folder / "run.json").read_text())
