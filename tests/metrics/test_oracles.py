"""Scores equal what the official scorers printed, to the last bit; `bench/oracles.py` reads and aggregates both."""

import pytest

from bench import oracles as official

# Interpolated precision is compared with pytrec_eval at 0 and 1 only: trec_eval 9, which it contains, turns fractions of
# recall into ranks otherwise than trec_eval 10, whose published output `retrieval/test_score_command.py` compares.
SCORERS = {
    "pytrec_eval": (lambda _: official.pytrec_eval(), 1809),
    "SQuAD": (official.squad, 34),
    "RAGChecker": (lambda folder: official.ragchecker(folder / "ragchecker"), 11),
    "ai-rag-chat-evaluator": (lambda folder: official.published_run(folder / "ai-rag-chat-evaluator"), 9),
}


@pytest.mark.parametrize(("compare", "values"), SCORERS.values(), ids=SCORERS)
def test_scores_equal_official_output(compare, values, oracles):
    compared = list(compare(oracles))

    assert {one.file: one.differing for one in compared} == {one.file: [] for one in compared}
    assert sum(len(one.theirs) for one in compared) == values
