"""Sentences and passages say where they stand, and lose no word."""

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import PageText
from rag_eval_pipeline.systems.bm25 import split_passages, split_sentences

TEXT = st.text(st.sampled_from("aB1 .!?\n'\"(é"), max_size=80)


def test_abbreviations_and_decimals_do_not_end_a_sentence():
    page = PageText("a.pdf", 1, 0, "Dr. Smith measured 3.5 m. The St. Mary light was lit in 1887! No. 4 stayed dark.")

    assert [s.text for s in split_sentences(page)] == [
        "Dr. Smith measured 3.5 m.",
        "The St. Mary light was lit in 1887!",
        "No. 4 stayed dark.",
    ]


@given(text=TEXT, start=st.integers(0, 1000))
def test_a_sentence_stands_where_it_says(text, start):
    page = PageText("a.pdf", 1, start, text)

    found = list(split_sentences(page))

    assert all(text[s.start - start : s.end - start] == s.text for s in found)
    assert "".join("".join(s.text.split()) for s in found) == "".join(text.split())


@given(text=TEXT, words=st.integers(1, 20))
def test_passages_hold_every_sentence_once_in_order(text, words):
    page = PageText("a.pdf", 1, 0, text)

    found = list(split_passages([page], words=words))

    assert [s for passage in found for s in passage.sentences] == list(split_sentences(page))
    assert all(len(p.text.split()) <= words or len(p.sentences) == 1 for p in found)
