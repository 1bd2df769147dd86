"""A key into options is never a gold answer and an option never a gold text: `init` proposes the right option's text."""

import pytest

from tests.scaffold.test_shapes import gold, jsonl

OPTIONS = ["pond", "puddle", "dock", "cup"]
LABELLED = {"text": OPTIONS, "label": ["A", "B", "C", "D"]}
DEEP, DRY = {"question": "Which is deep?"}, {"question": "Which is dry?"}

# The rows of a file; the answers that become gold.
CHOICES = {
    "numbers from 0":            ([{**DEEP, "choices": OPTIONS, "answer": 2}, {**DRY, "choices": ["sand", "sea"], "answer": 0}],
                                  ["dock", "sand"]),
    "numbers from 1":            ([{**DEEP, "options": OPTIONS, "label": "4"}, {**DRY, "options": ["sand", "sea"], "label": "2"}],
                                  ["cup", "sea"]),
    "letters":                   ([{**DEEP, "options": OPTIONS, "answer": "C"}, {**DRY, "options": ["sand", "sea"], "answer": "a"}],
                                  ["dock", "sand"]),
    "labels of parallel lists":  ([{**DEEP, "choices": LABELLED, "answerKey": "C"},
                                   {**DRY, "choices": {"text": ["sand", "sea"], "label": ["1", "2"]}, "answerKey": "1"}],
                                  ["dock", "sand"]),
    "labels of objects":         ([{**DEEP, "choices": [{"label": "a", "text": "pond"}, {"label": "b", "text": "dock"}],
                                    "answerKey": "B"}], ["dock"]),
    "an object of letters":      ([{**DEEP, "options": {"A": "pond", "B": "dock"}, "answer": "B"}], ["dock"]),
    "the text beside its letter": ([{**DEEP, "options": {"A": "pond", "B": "dock"}, "answer": "dock", "answer_idx": "B"}],
                                  ["dock"]),
    "JSON in cells":             ([{**DEEP, "choices": '["pond", "dock"]', "answer": "B"}], ["dock"]),
    "columns called by letters": ([{**DEEP, "A": "pond", "B": "dock", "C": "cup", "answer": "B"}], ["dock"]),
    "columns, number from 0":    ([{**DEEP, "opa": "pond", "opb": "dock", "cop": 1}, {**DRY, "opa": "sand", "opb": "sea", "cop": 0}],
                                  ["dock", "sand"]),
    "a key that is secret":      ([{**DEEP, "ending0": "pond", "ending1": "dock", "label": 1},
                                   {**DRY, "ending0": "sand", "ending1": "sea", "label": -1}], ["dock"]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), CHOICES.values(), ids=CHOICES)
def test_key_into_options_is_read_as_the_text(planned, rows, expected):
    found = planned({"q.jsonl": jsonl(*rows)})

    assert [question.answers for question in found.questions] == [(answer,) for answer in expected]
    assert gold(found) == [[] for _ in expected]
    assert not any(question.is_impossible for question in found.questions)


def test_key_that_may_count_from_0_or_1_is_left_to_the_user(started):
    proposal = started({"q.jsonl": jsonl({**DEEP, "choices": OPTIONS, "answer": 2, "passage": "It is deep."})})

    assert [text.partition(":")[0] for text in proposal.missing] == ["answer"]
    [guess] = [text for text in proposal.guesses if text.startswith("answer:")]
    assert "2 of ['pond', 'puddle', 'dock', 'cup']" in guess
    assert '`("choices")["answer" + 1]`' in guess
