"""Whatever could not be had, every question is kept or quarantined, never both and never neither."""

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.question_table import Missing, MissingDocuments, batch_of, questions_of
from rag_eval_pipeline.conversion.questions import Context, Question

NAMES = st.sampled_from(["a.pdf", "b.pdf", "c.pdf"])
CONTEXTS = st.lists(st.one_of(NAMES.map(lambda n: Context(n, n)), st.just(Context(None, None, "gold"))), max_size=4)
QUESTIONS = st.lists(CONTEXTS, max_size=6).map(
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
