"""RAGChecker's figures equal its published example, and what cannot be computed is absent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.claim_labels import RAGCHECKER_MEASURES, labels_of, labels_of_record, ragchecker_scores


def test_the_published_example_to_the_last_bit(oracles):
    (record,) = json.loads((oracles / "ragchecker" / "checking_outputs.json").read_text())["results"]

    assert ragchecker_scores(labels_of_record(record)) == record["metrics"]


# Two claims, three passages. The first claim is wrong and stands in the useful first passage; the second is right and in
# none. Of the gold answer's two claims the first stands in the first passage and is in the answer.
LABELS = labels_of([False, True], [True, False], [[1, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]])


def test_figures_by_hand():
    assert ragchecker_scores(LABELS) == {
        "precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2,
        "claim_recall": 1 / 2, "context_precision": 1 / 3, "context_utilization": 1.0,
        "noise_sensitivity_in_relevant": 1 / 2, "noise_sensitivity_in_irrelevant": 0.0,
        "hallucination": 0.0, "self_knowledge": 1 / 2, "faithfulness": 1 / 2,
    }  # fmt: skip


def test_a_wrong_claim_of_a_useless_passage_is_noise():
    labels = labels_of([False], [True], [[False, True]], [[True, False]])

    assert ragchecker_scores(labels)["noise_sensitivity_in_irrelevant"] == 1.0


ABSENT = {
    "an answer without claims": (labels_of([], [False], [], [[True]]), {"recall", "claim_recall", "context_precision", "context_utilization"}),
    "nothing retrieved": (labels_of([True], [True], [[]], [[]]), {"precision", "recall", "f1"}),
    "a gold answer without claims": (labels_of([True], [], [[True]], []), {"precision", "faithfulness", "hallucination", "self_knowledge"}),
    "nothing useful retrieved": (labels_of([True], [True], [[True]], [[False]]), set(RAGCHECKER_MEASURES) - {"context_utilization"}),
}  # fmt: skip


@pytest.mark.parametrize(("labels", "present"), ABSENT.values(), ids=ABSENT)
def test_what_cannot_be_computed_is_absent(labels, present):
    assert set(ragchecker_scores(labels)) == present


def test_labels_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="rows of one width"):
        labels_of([True], [True], [[True]], [[True, False]])
    with pytest.raises(ValueError, match="rows of one width"):
        labels_of([True], [True], [], [[True]])


flags = st.booleans()


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_a_claim_is_faithful_hallucinated_or_known(n_claims, n_gold, n_passages, data):
    rows = st.lists(flags, min_size=n_passages, max_size=n_passages)
    labels = labels_of(
        data.draw(st.lists(flags, min_size=n_claims, max_size=n_claims)),
        data.draw(st.lists(flags, min_size=n_gold, max_size=n_gold)),
        data.draw(st.lists(rows, min_size=n_claims, max_size=n_claims)),
        data.draw(st.lists(rows, min_size=n_gold, max_size=n_gold)),
    )

    scores = ragchecker_scores(labels)

    assert scores["faithfulness"] + scores["hallucination"] + scores["self_knowledge"] == pytest.approx(1)
    assert all(0.0 <= score <= 1.0 for score in scores.values())
    wrong = 1 - scores["precision"]
    noise = scores["noise_sensitivity_in_relevant"] + scores["noise_sensitivity_in_irrelevant"]
    assert noise + scores["hallucination"] == pytest.approx(wrong)
