"""What conversion writes is read back unchanged; a question with a missing document is kept or quarantined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.quarantine import QuarantineRecord, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.question_table import (
    Missing,
    MissingDocuments,
    batch_of,
    distinct_items,
    iterate_batches,
    questions_of,
    write_batches,
)
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

    write_batches(path, [batch_of(questions)])

    assert [question for batch in iterate_batches(path) for question in questions_of(batch)] == questions


@given(st.lists(RECORD, max_size=4))
def test_quarantine_records(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("quarantine") / "quarantine.jsonl"

    write_quarantine(path, records)

    assert read_quarantine(path) == records


def test_distinct_items_are_the_first_of_equal_values_in_each_question():
    named = [["a", "b", "a", None], [], ["b", "b"], [None]]
    rows = [[Context(name, None) for name in names] for names in named]
    questions = [Question(n, "q", "a", ("a",), False, tuple(contexts)) for n, contexts in enumerate(rows)]

    places, counts = distinct_items(batch_of(questions).column("contexts"), "document")

    assert (places.to_pylist(), counts.tolist()) == ([0, 1, 4], [2, 0, 1, 0])


def test_damaged_files_are_named(tmp_path):
    (tmp_path / "questions.parquet").write_bytes(b"PAR1")
    (tmp_path / "quarantine.jsonl").write_bytes(b'{"stage": 1}\n')

    with pytest.raises(InputError, match=r"questions\.parquet") as parquet:
        list(iterate_batches(tmp_path / "questions.parquet"))
    with pytest.raises(InputError, match="row 1") as lines:
        read_quarantine(tmp_path / "quarantine.jsonl")

    assert (parquet.value.code, lines.value.code) == ("bad_parquet", "bad_quarantine")


NAMES = st.sampled_from(["a.pdf", "b.pdf", "c.pdf"])
NAMED_CONTEXTS = st.lists(
    st.one_of(NAMES.map(lambda n: Context(n, n)), st.just(Context(None, None, "gold"))), max_size=4
)
QUESTIONS = st.lists(NAMED_CONTEXTS, max_size=6).map(
    lambda rows: [Question(n, "q", "a", ("a",), False, tuple(contexts)) for n, contexts in enumerate(rows)]
)
MISSING = st.dictionaries(NAMES, st.just(Missing("http_404", "the server said 404")))


def drop(questions, missing, policy):
    made = MissingDocuments(missing, policy)
    return [q for batch in made.drop([batch_of(questions)]) for q in questions_of(batch)], made


def contexts_of(questions):
    return sum(len(question.contexts) for question in questions)


@given(questions=QUESTIONS, missing=MISSING)
def test_quarantine_takes_out_exactly_the_questions_that_lost_a_document(questions, missing):
    kept_questions, settled = drop(questions, missing, "quarantine")

    kept, gone = [q.id for q in kept_questions], [record.question_id for record in settled.quarantined]
    assert sorted(kept + gone) == [q.id for q in questions]
    assert gone == [q.id for q in questions if any(c.file_name in missing for c in q.contexts)]
    assert settled.contexts_lost == 0
    assert contexts_of(kept_questions) + settled.lost.total() == contexts_of(questions)
    assert settled.lost["http_404"] == sum(c.file_name in missing for q in questions for c in q.contexts)


@given(questions=QUESTIONS, missing=MISSING)
def test_keep_takes_out_the_contexts_and_counts_them(questions, missing):
    kept_questions, settled = drop(questions, missing, "keep")

    assert [q.id for q in kept_questions] == [q.id for q in questions]
    assert contexts_of(kept_questions) + settled.contexts_lost == contexts_of(questions)
    assert settled.lost.total() == settled.contexts_lost
    assert all(c.file_name not in missing for q in kept_questions for c in q.contexts)
