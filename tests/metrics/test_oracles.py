"""Scores equal what the official scorers printed, to the last bit; `bench/oracles.py` reads and aggregates both."""

import pytest

from bench import oracles as official

SCORERS = {
    "SQuAD": (official.squad, 34),
    "ai-rag-chat-evaluator": (lambda folder: official.published_run(folder / "ai-rag-chat-evaluator"), 9),
}


@pytest.mark.parametrize(("compare", "values"), SCORERS.values(), ids=SCORERS)
def test_scores_equal_official_output(compare, values, oracles):
    check(compare(oracles), values)


# Interpolated precision is compared at 0 and 1 only: trec_eval 9, which pytrec_eval contains, turns fractions of recall
# into ranks otherwise than trec_eval 10, whose published output `retrieval/test_score_command.py` compares.
def test_scores_equal_pytrec_eval():
    check(official.pytrec_eval(), 1809)


def check(found, values):
    compared = list(found)

    assert {one.file: one.differing for one in compared} == {one.file: [] for one in compared}
    assert sum(len(one.theirs) for one in compared) == values
