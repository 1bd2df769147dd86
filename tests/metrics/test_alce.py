"""ALCE's recall and precision as its scorer computes them, case by case and by a walk like its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.alce import AlceScores, CitedStatement, alce_scores
from tests.alce_loop import walked

UNCITED = CitedStatement(False)
SUPPORTED = CitedStatement(True, (True,))
WRONG = CitedStatement(False, (False,))
# Two citations: the first entails alone, the second neither alone nor is it missed.
OVERCITED = CitedStatement(True, (True, False), (None, True))
# Neither entails alone, and neither can go.
TOGETHER = CitedStatement(True, (False, False), (False, False))
OUT_OF_RANGE = CitedStatement(True, (True, True), (None, None), in_range=False)

CASES = {
    #                                      statements                       recall  precision
    "supported by its citation":          ([SUPPORTED],                     1.0,    1.0),
    "without citations":                  ([UNCITED],                       0.0,    0.0),
    "a citation that does not support":   ([WRONG],                         0.0,    0.0),
    "one citation too many":              ([OVERCITED],                     1.0,    1 / 2),
    "only together":                      ([TOGETHER],                      1.0,    1.0),
    "what is not there is not counted":   ([OUT_OF_RANGE],                  0.0,    0.0),
    "half of the statements":             ([SUPPORTED, UNCITED],            1 / 2,  1.0),
    "all of them":                        ([SUPPORTED, WRONG, OVERCITED, TOGETHER, OUT_OF_RANGE, UNCITED], 3 / 6, 4 / 6),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "recall", "precision"), CASES.values(), ids=CASES)
def test_recall_and_precision(statements, recall, precision):
    assert alce_scores(statements) == (recall, precision)


def test_an_answer_without_statements_has_no_score():
    assert alce_scores([]) is None


def test_f1_of_nothing_is_zero():
    assert AlceScores(0.0, 0.0).citation_f1 == 0.0
    assert AlceScores(1.0, 0.5).citation_f1 == 2 / 3


MISSING = {
    "no labels without": CitedStatement(True, (True, False)),
    "the one that is needed": CitedStatement(True, (True, False), (None, None)),
}


@pytest.mark.parametrize("statement", MISSING.values(), ids=MISSING)
def test_a_label_that_is_needed_must_be_there(statement):
    with pytest.raises(ValueError, match="statement 0"):
        alce_scores([statement])


some_answer = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), max_size=3),
        st.lists(st.frozensets(st.integers(0, 3), min_size=1, max_size=2), max_size=2),
    ),
    min_size=1,
    max_size=4,
)


@given(some_answer)
def test_labels_give_what_asking_gives(drawn):
    answer, entailing = [own for own, _ in drawn], [own for _, own in drawn]

    def entails(passages, number):
        return any(needed <= set(passages) for needed in entailing[number])

    statements = [
        CitedStatement(
            bool(passages) and entails(passages, number),
            [entails([passage], number) for passage in passages],
            [entails(passages[:i] + passages[i + 1 :], number) for i in range(len(passages))],
        )
        for number, passages in enumerate(answer)
    ]

    assert alce_scores(statements) == walked(answer, entailing)
