"""Beside the gold answer: what is missing and what is extra, as SQuAD compares words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.report.question import answer_diff, nearest_gold_answer

CASES = {
    #                                   gold            given              stretches
    "the same":                        ("Ada Lovelace", "Ada Lovelace",    [("same", "Ada Lovelace")]),
    "case and full stops do not count": ("Ada Lovelace", "ada lovelace.",   [("same", "ada lovelace.")]),
    "a word more":                     ("Ada",          "Ada Lovelace",    [("same", "Ada "), ("extra", "Lovelace")]),
    "a word less":                     ("Ada Lovelace", "Ada",             [("same", "Ada"), ("missing", "Lovelace")]),
    "another word":                    ("in 1887",      "in 1888",         [("same", "in "), ("missing", "1887"), ("extra", "1888")]),
    "an article that only one has":    ("mine",         "the mine",        [("extra", "the "), ("same", "mine")]),
    "no answer":                       ("Ada",          "",                [("missing", "Ada")]),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "given_text", "segments"), CASES.values(), ids=CASES)
def test_a_difference(gold, given_text, segments):
    assert answer_diff(gold, given_text) == segments


@given(st.lists(st.sampled_from(["a", "b", "the", "x."])), st.lists(st.sampled_from(["a", "b", "x"])))
def test_what_is_not_missing_is_the_answer(gold, words):
    text = " ".join(words)

    assert "".join(s.text for s in answer_diff(" ".join(gold), text) if s.part != "missing").strip() == text


def test_a_long_answer_is_not_aligned():
    assert answer_diff("word " * 401, "word") == []


def test_the_nearest_of_several_gold_answers_is_compared_with():
    assert (
        nearest_gold_answer(["June 9, 1888", "9 June 1888"], "on 9 June 1888") == "June 9, 1888"
    )  # the same words: the first
    assert nearest_gold_answer(["a mine", "a harbour"], "the harbour") == "a harbour"
    assert nearest_gold_answer([], "x") is None
