"""Whatever could not be had, every question is kept or quarantined, never both and never neither."""

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.records import Context, Question
from rag_eval_pipeline.conversion.settlement import Missing, settle

NAMES = st.sampled_from(["a.pdf", "b.pdf", "c.pdf"])
CONTEXTS = st.lists(st.one_of(NAMES.map(lambda n: Context(n, n)), st.just(Context(None, None, "gold"))), max_size=4)
QUESTIONS = st.lists(CONTEXTS, max_size=6).map(
    lambda rows: [Question(n, "q", "a", ("a",), False, tuple(contexts)) for n, contexts in enumerate(rows)]
)
MISSING = st.dictionaries(NAMES, st.just(Missing("http_404", "the server said 404")))


def contexts_of(questions):
    return sum(len(question.contexts) for question in questions)


@given(questions=QUESTIONS, missing=MISSING)
def test_quarantine_takes_out_exactly_the_questions_that_lost_a_document(questions, missing):
    settled = settle(questions, missing, "quarantine")

    kept, gone = [q.id for q in settled.questions], [record.question_id for record in settled.quarantined]
    assert sorted(kept + gone) == [q.id for q in questions]
    assert gone == [q.id for q in questions if any(c.file_name in missing for c in q.contexts)]
    assert settled.contexts_lost == 0
    assert contexts_of(settled.questions) + settled.lost.total() == contexts_of(questions)
    assert settled.lost["http_404"] == sum(c.file_name in missing for q in questions for c in q.contexts)


@given(questions=QUESTIONS, missing=MISSING)
def test_keep_takes_out_the_contexts_and_counts_them(questions, missing):
    settled = settle(questions, missing, "keep")

    assert [q.id for q in settled.questions] == [q.id for q in questions]
    assert contexts_of(settled.questions) + settled.contexts_lost == contexts_of(questions)
    assert settled.lost.total() == settled.contexts_lost
    assert all(c.file_name not in missing for q in settled.questions for c in q.contexts)
