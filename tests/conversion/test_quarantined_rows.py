"""Quarantined rows are written out once, mended by hand, and the next conversion has them as if they had been good."""

import datetime
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.quarantine_file import write_quarantine
from rag_eval_pipeline.conversion.quarantined_rows import write_for_mending
from rag_eval_pipeline.conversion.records import QuarantineRecord
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.mends import MENDED
from rag_eval_pipeline.storage.digests import sha256_of
from tests.conversion.conftest import HEAD, PLAIN, write_benchmark
from tests.sources.mended_relation import mend, plan_with_mends

CSV = 'q,a\nfirst,1\n,2\n"third\nline",3,"4\n5"\nfourth,drop\nfifth,\nsixth,6,7\n'
SPEC = PLAIN + "where: answer <> 'drop' OR answer IS NULL\n"


def converted(paths):
    """The benchmark with the quarantine of its first conversion step."""
    write_quarantine(paths.quarantine, plan(paths).quarantine)
    return paths


def written(paths):
    return [json.loads(line) for line in (paths.source / MENDED).read_text().splitlines()]


def outline(lines):
    return [(line["row"], line["values"], line.get("undecoded"), line["was"]) for line in lines]


def test_each_quarantined_row_gets_a_line_with_what_stands_there(benchmark):
    paths = converted(benchmark(SPEC, {"questions.csv": CSV}))

    found = write_for_mending(paths)

    assert (found.path, found.count, found.undecoded, found.waiting) == (paths.source / MENDED, 4, 2, 0)
    assert outline(written(paths)) == [
        (2, {"q": "", "a": "2"}, None, "empty_question: q"),
        (3, {"q": None, "a": None}, '"third\nline",3,"4\n5"', "row_width"),
        (5, {"q": "fifth", "a": ""}, None, "empty_answer: a"),
        (6, {"q": None, "a": None}, "sixth,6,7", "row_width"),
    ]
    assert {(line["file"], line["sha256"]) for line in written(paths)} == {
        ("questions.csv", sha256_of(paths.source / "questions.csv"))
    }


def test_rows_that_have_a_line_are_not_written_again_and_lines_stay_as_they_are(benchmark):
    paths = converted(benchmark(SPEC, {"questions.csv": CSV}))
    mend(paths, (2, {"q": "mine", "a": "2"}), "{ not finished")
    before = (paths.source / MENDED).read_bytes().removesuffix(b"\n")
    (paths.source / MENDED).write_bytes(before)  # an editor that ends no file with a newline

    first = write_for_mending(paths)
    after = (paths.source / MENDED).read_bytes()
    second = write_for_mending(paths)

    assert (first.count, first.waiting) == (3, 1)
    assert after.startswith(before + b"\n{")
    assert (second.count, second.waiting) == (0, 4)
    assert (paths.source / MENDED).read_bytes() == after


def test_what_was_written_out_changes_nothing_until_it_is_edited(benchmark):
    paths = converted(benchmark(SPEC, {"questions.csv": CSV}))
    before = plan(paths)
    write_for_mending(paths)

    after, notes = plan_with_mends(paths)

    assert after.counts == before.counts
    assert after.quarantine == before.quarantine
    assert after.questions == before.questions
    assert [note.partition(" expected")[0] for note in notes] == [
        f'data/sources/scratch/{MENDED}, line {line}, field "undecoded":' for line in (2, 4)
    ]


def test_mended_rows_are_accepted_and_nothing_else_changes(benchmark):
    paths = converted(benchmark(SPEC, {"questions.csv": CSV}))
    before = plan(paths)
    write_for_mending(paths)
    values = {2: ("second", "2"), 3: ("third\nline", "3"), 5: ("fifth", "5"), 6: ("sixth", "6")}
    lines = [
        {**line, "values": dict(zip("qa", values[line["row"]], strict=True)), "undecoded": None}
        for line in written(paths)
    ]
    (paths.source / MENDED).write_text("".join(json.dumps(line) + "\n" for line in lines))

    after, notes = plan_with_mends(paths)

    assert notes == []
    assert (after.counts.accepted, after.counts.dropped, after.counts.quarantined) == (5, 1, 0)
    assert [(q.id, q.question, q.answer, q.source_row) for q in after.questions] == [
        (0, "first", "1", 1),
        (1, "second", "2", 2),
        (2, "third\nline", "3", 3),
        (4, "fifth", "5", 5),
        (5, "sixth", "6", 6),
    ]
    assert after.questions[0] == before.questions[0]
    assert after.source_digest != before.source_digest


def test_rows_that_only_lack_a_document_or_were_dropped_are_left_out(benchmark):
    paths = benchmark(PLAIN, {"questions.csv": "q,a\nfirst,1\nsecond,2\n"})
    sha256 = sha256_of(paths.source / "questions.csv")
    write_quarantine(
        paths.quarantine,
        [
            QuarantineRecord("documents", "missing_document", "questions.csv", None, 1, 0, "contexts", "x", "y"),
            QuarantineRecord("where", "dropped", "questions.csv", sha256, 2, 1, "where", "x", "y"),
        ],
    )

    found = write_for_mending(paths)

    assert found.count == 0
    assert not (paths.source / MENDED).exists()


def test_a_row_whose_place_the_query_does_not_say_is_named(benchmark):
    sql = HEAD + "source: questions.csv\nquestions: SELECT min(q) AS question, min(a) AS answer FROM source\n"
    paths = benchmark(sql, {"questions.csv": "q,a\nfirst,1\n"})
    sha256 = sha256_of(paths.source / "questions.csv")
    record = QuarantineRecord("validation", "empty_answer", "questions.csv", sha256, None, 0, "answer", "an answer", "")
    write_quarantine(paths.quarantine, [record])

    found = write_for_mending(paths)

    assert found.count == 0
    assert "let it return source_row" in found.notes[0]


def test_several_questions_of_one_row_give_one_line(benchmark):
    sql = "source: q.jsonl\nquestions: SELECT unnest(qs) AS question, a AS answer, source_row FROM source\n"
    paths = converted(benchmark(HEAD + sql, {"q.jsonl": '{"qs": ["", ""], "a": "1"}\n'}))

    assert write_for_mending(paths).count == 1
    assert outline(written(paths)) == [(1, {"qs": ["", ""], "a": "1"}, None, "empty_question: question")]


def test_values_of_jsonl_are_written_as_they_stand_in_the_file(benchmark):
    rows = [
        '{"q": "", "a": "1", "m": {"k": 1.0}, "n": 1}',
        '{"q": "x"',
        '{"q": "y", "a": "3", "m": 7, "n": 1.5}',
        "[1]",
    ]
    spec = HEAD + "source: q.jsonl\nquestions: {question: q, answer: a}\n"
    paths = converted(benchmark(spec, {"q.jsonl": "\n".join(rows)}))

    write_for_mending(paths)

    blank = {"q": None, "a": None, "m": None, "n": None}
    assert outline(written(paths)) == [
        (1, json.loads(rows[0]), None, "empty_question: q"),
        (2, blank, '{"q": "x"', "bad_json"),
        (4, blank, "[1]", "not_an_object"),
    ]
    assert '"n": 1}' in (paths.source / MENDED).read_text()


def test_an_item_of_a_json_file_shows_what_was_found(benchmark):
    spec = HEAD + "source: q.json\nquestions: {question: q, answer: a}\n"
    paths = converted(benchmark(spec, {"q.json": '[{"q": "x", "a": "1"}, 7]'}))

    write_for_mending(paths)

    assert outline(written(paths)) == [(2, {"q": None, "a": None}, "7", "not_an_object")]


def test_bytes_that_are_no_text_can_be_seen(benchmark):
    paths = converted(benchmark(PLAIN, {"questions.csv": b"q,a\n\xff\xfe,1\nx,2\n"}))

    write_for_mending(paths)

    assert [line["undecoded"] for line in written(paths)] == ["\\xff\\xfe,1"]


def test_times_of_parquet_are_texts_and_bytes_are_not_mended(benchmark):
    spec = HEAD + "source: q.parquet\nquestions: {question: q, answer: a}\n"
    paths = benchmark(spec)
    at = [datetime.datetime(2024, 1, 2, 3, 4)]  # noqa: DTZ001  # parquet has times of no zone
    pq.write_table(pa.table({"q": [""], "a": ["1"], "at": at}), paths.source / "q.parquet")
    write_for_mending(converted(paths))

    assert written(paths)[0]["values"] == {"q": "", "a": "1", "at": "2024-01-02 03:04:00"}

    pq.write_table(pa.table({"q": [""], "a": ["1"], "raw": [b"\x00"]}), paths.source / "q.parquet")
    found = write_for_mending(converted(paths))

    assert found.count == 0
    assert "mend the file itself" in found.notes[0]


def test_an_old_quarantine_is_refused(benchmark):
    paths = converted(benchmark(SPEC, {"questions.csv": CSV}))
    (paths.source / "questions.csv").write_text("q,a\nnew,1\n" + CSV)

    with pytest.raises(InputError) as raised:
        write_for_mending(paths)

    assert raised.value.code == "stale_quarantine"


def test_a_benchmark_that_was_never_converted_is_refused(benchmark):
    with pytest.raises(InputError) as raised:
        write_for_mending(benchmark(SPEC, {"questions.csv": CSV}))

    assert raised.value.code == "missing_file"


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1, max_size=6).filter(str.strip)


def cell(text):
    return '"' + text.replace('"', '""') + '"'


@st.composite
def csv_files(draw):
    """A good file, the same with bad rows, and what mends them."""
    rows = draw(
        st.lists(st.tuples(TEXT, TEXT, st.sampled_from(["", "", "empty", "short", "long", "quote"])), min_size=1)
    )
    good, bad, mends = "q,a\n", "q,a\n", []
    for number, (question, answer, damage) in enumerate(rows, start=1):
        line = f"{cell(question)},{cell(answer)}\n"
        damaged = {"": line, "empty": ' ,"x"\n', "short": "x\n", "long": f"{line[:-1]},3\n", "quote": '"a"b,c\n'}
        good += line
        bad += damaged[damage]
        if damage:
            mends.append((number, {"q": question, "a": answer}))
    return "csv", good, bad, mends


@st.composite
def jsonl_files(draw):
    """The same of JSON lines, with columns of several types."""
    numbers = draw(st.sampled_from([st.integers(-9, 9), st.floats(-9, 9), st.integers(2**62, 2**63 - 1)]))
    objects = st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": st.none() | TEXT})
    row = st.fixed_dictionaries(
        {"q": TEXT, "a": TEXT, "n": st.none() | numbers, "m": st.none() | objects, "l": st.lists(TEXT, max_size=2)}
    )
    damages = ["", "", "empty", "text", "number", "fraction", "key", "broken", "list"]
    rows = draw(st.lists(st.tuples(row, st.sampled_from(damages)), min_size=1, max_size=8))
    good, bad, mends = "", "", []
    for number, (values, damage) in enumerate(rows, start=1):
        line = json.dumps(values)
        damaged = {
            "": line,
            "empty": json.dumps({**values, "q": " "}),
            "text": json.dumps({**values, "n": "many", "m": "x"}),
            "number": json.dumps({**values, "q": 5, "l": 7}),
            "fraction": json.dumps({**values, "q": "", "n": 0.5}),
            "key": json.dumps({**values, "a": "", "m": {"c": [1]}}),
            "broken": line[:-1],
            "list": "[]",
        }
        good += line + "\n"
        bad += damaged[damage] + "\n"
        if damage:
            mends.append((number, values))
    return "jsonl", good, bad, mends


@settings(max_examples=60, deadline=None)
@given(st.one_of(csv_files(), jsonl_files()))
def test_a_mended_file_comes_to_the_questions_of_one_that_was_always_good(file):
    kind, good, bad, mends = file
    name = f"questions.{kind}"
    columns = (
        "{question: q, answer: a, metadata: [q]}" if kind == "csv" else "{question: q, answer: a, metadata: [n, m, l]}"
    )
    spec = f"{HEAD}source: {{path: {name}, format: {kind}}}\nquestions: {columns}\n"
    with tempfile.TemporaryDirectory() as folder:
        wanted = plan(write_benchmark(Path(folder, "good"), spec, {name: good}))
        paths = write_benchmark(Path(folder, "bad"), spec, {name: bad})
        mend(paths, *mends, file=name)
        found, notes = plan_with_mends(paths)

        assert notes == []
        assert found.counts == wanted.counts
        assert found.counts.accepted == found.counts.rows
        assert found.quarantine == []
        assert [repr(question) for question in found.questions] == [repr(question) for question in wanted.questions]
