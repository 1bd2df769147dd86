"""What conversion writes is read back unchanged; a question with a missing document is kept or quarantined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.quarantine import QuarantineRecord, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.question_spool import (
    Missing,
    MissingDocuments,
    batch_of,
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
    source_item=st.none() | TEXT,
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
    item=st.none() | TEXT,
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


@given(questions=QUESTIONS, missing=MISSING, policy=st.sampled_from(["quarantine", "keep"]))
def test_questions_with_missing_documents_go_or_lose_their_contexts_and_all_are_counted(questions, missing, policy):
    settled = MissingDocuments(missing, policy)
    kept = [question for batch in settled.drop([batch_of(questions)]) for question in questions_of(batch)]

    affected = [q.id for q in questions if any(c.file_name in missing for c in q.contexts)]
    gone = [record.question_id for record in settled.quarantined]
    assert gone == (affected if policy == "quarantine" else [])
    assert sorted([q.id for q in kept] + gone) == [q.id for q in questions]
    assert all(context.file_name not in missing for question in kept for context in question.contexts)
    before, after = (sum(len(question.contexts) for question in some) for some in (questions, kept))
    assert after + settled.lost.total() == before
    assert settled.contexts_lost == (0 if policy == "quarantine" else settled.lost.total())
    assert settled.lost["http_404"] == sum(c.file_name in missing for q in questions for c in q.contexts)
