"""Words in spans are counted by number, in the texts that are known, whatever their script."""

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.question_scores import citation_scores
from rag_eval_pipeline.metrics.span_columns import Citation, Span, columns_of, file_numbers
from rag_eval_pipeline.metrics.span_tokens import count_out_of_bounds, tokens_of
from rag_eval_pipeline.metrics.spans import token_overlap

TEXT = "Ada Lovelace wrote notes, in 1843."
#       0   4        13    19     26 29


def cite(start, end, file_name="a.pdf"):
    return Citation(file_name, None, Span(start, end))


def scores(gold, predicted, **texts):
    named = {f"{name}.pdf": tokens_of(text) for name, text in texts.items()}
    return citation_scores([gold], [predicted], texts=named)[0]


def test_word_scores_of_one_answer():
    # Gold: Ada Lovelace wrote; cited: Lovelace wrote notes in. Shared: two.
    row = scores([cite(0, 18)], [cite(4, 28)], a=TEXT)

    assert (row["token_precision"], row["token_recall"]) == (2 / 4, 2 / 3)
    assert (row["token_f1"], row["token_jaccard"]) == (4 / 7, 2 / 5)


def test_an_end_inside_a_word_costs_no_word():
    row = scores([cite(4, 12)], [cite(5, 13)], a=TEXT)

    assert row["token_f1"] == 1.0
    assert row["char_f1"] < 1.0


def test_words_of_several_documents_are_added():
    row = scores([cite(0, 3), cite(0, 5, "b.pdf")], [cite(0, 3)], a=TEXT, b="Notes on engines")

    assert (row["token_precision"], row["token_recall"]) == (1.0, 1 / 2)


def test_without_the_text_of_a_cited_document_there_is_no_word_score():
    row = scores([cite(0, 3)], [cite(0, 3), cite(0, 5, "b.pdf")], a=TEXT)

    assert "token_f1" not in row
    assert row["span_recall"] == 1.0


def test_spans_that_hold_no_word_have_no_word_score():
    assert "token_f1" not in scores([cite(24, 25)], [cite(33, 34)], a=TEXT)


def test_spans_behind_the_end_of_their_text_are_counted():
    files = file_numbers([[cite(0, 3), cite(0, 5, "b.pdf")]])
    spans = columns_of([[cite(30, 34), cite(30, 35), cite(0, 99, "b.pdf")]], files)

    assert count_out_of_bounds(spans, files, {"a.pdf": tokens_of(TEXT)}) == 1


some_spans = st.lists(
    st.builds(lambda start, n: cite(start, start + n), st.integers(0, 60), st.integers(1, 20)), max_size=4
)


@given(some_spans, some_spans, st.text("ab c,.漢字ไท", max_size=60))
def test_many_answers_at_once_count_the_words_of_each_alone(gold, predicted, text):
    one = token_overlap([c.span for c in gold], [c.span for c in predicted], text)

    rows = citation_scores([gold, gold], [predicted, []], texts={"a.pdf": tokens_of(text)})

    assert rows[0].get("token_jaccard") == one.jaccard
    assert rows[0].get("token_precision") == one.precision
