"""What conversion writes down it reads back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.quarantine import QuarantineRecord, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.question_table import read_questions, write_questions
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers(0, 2**40)
CONTEXT = st.builds(
    Context,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | NUMBER,
    st.none() | NUMBER,
    st.none() | NUMBER,
)
QUESTION = st.builds(
    Question,
    id=NUMBER,
    question=TEXT,
    answer=TEXT,
    answers=st.lists(TEXT, max_size=3).map(tuple),
    is_impossible=st.booleans(),
    contexts=st.lists(CONTEXT, max_size=3).map(tuple),
    source_id=st.none() | TEXT,
    query_type=st.none() | TEXT,
    difficulty=st.none() | TEXT,
    metadata=st.dictionaries(TEXT, st.none() | TEXT | NUMBER | st.lists(st.booleans(), max_size=2), max_size=2),
    source_file=st.none() | TEXT,
    source_row=st.none() | NUMBER,
)
RECORD = st.builds(
    QuarantineRecord,
    stage=TEXT,
    code=TEXT,
    file=st.none() | TEXT,
    sha256=st.none() | TEXT,
    row=st.none() | NUMBER,
    question_id=st.none() | NUMBER,
    field=st.none() | TEXT,
    expected=TEXT,
    excerpt=st.none() | TEXT,
    line=st.none() | NUMBER,
)


@given(st.lists(QUESTION, max_size=4))
def test_questions(tmp_path_factory, questions):
    path = tmp_path_factory.mktemp("questions") / "questions.parquet"

    write_questions(path, questions)

    assert read_questions(path) == questions


@given(st.lists(RECORD, max_size=4))
def test_quarantine_records(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("quarantine") / "quarantine.jsonl"

    write_quarantine(path, records)

    assert read_quarantine(path) == records


def test_the_same_questions_give_the_same_bytes(tmp_path):
    question = Question(0, "q", "a", ("a",), False, (Context("d", "d.pdf"),), metadata={"b": 1, "a": 2})

    for name in ("one", "two"):
        write_questions(tmp_path / name, [question])

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_damaged_files_are_named(tmp_path):
    (tmp_path / "questions.parquet").write_bytes(b"PAR1")
    (tmp_path / "quarantine.jsonl").write_bytes(b'{"stage": 1}\n')

    with pytest.raises(InputError, match=r"questions\.parquet") as parquet:
        read_questions(tmp_path / "questions.parquet")
    with pytest.raises(InputError, match="row 1") as lines:
        read_quarantine(tmp_path / "quarantine.jsonl")

    assert (parquet.value.code, lines.value.code) == ("bad_parquet", "bad_quarantine")
