"""RAGChecker's figures of one answer, from labels of which claims are entailed by what.

Claims of the answer are held against the gold answer and each retrieved passage, claims of the gold answer against the
answer and each passage. The names are RAGChecker's, and so are the values where both are defined; where RAGChecker says
0.0 of nothing at all (no claims, nothing retrieved, nothing to use), a figure is absent here.
Source: Ru et al. 2024, RAGChecker; amazon-science/RAGChecker computation.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RAGCHECKER_MEASURES = (
    "precision", "recall", "f1", "claim_recall", "context_precision", "context_utilization",
    "noise_sensitivity_in_relevant", "noise_sensitivity_in_irrelevant", "hallucination", "self_knowledge",
    "faithfulness",
)  # fmt: skip
ENTAILMENT = "Entailment"  # as RAGChecker's files have it; the other labels are Neutral and Contradiction

Flags = NDArray[np.bool_]


class ClaimLabels(NamedTuple):
    """What entails what.

    Args:
        correct: (claims of the answer,) The gold answer entails it.
        covered: (claims of the gold answer,) The answer entails it.
        grounded: (claims of the answer, passages) The passage entails it.
        retrieved: (claims of the gold answer, passages) The passage entails it.
    """

    correct: Flags
    covered: Flags
    grounded: Flags
    retrieved: Flags


def labels_of(
    correct: Sequence[bool],
    covered: Sequence[bool],
    grounded: Sequence[Sequence[bool]],
    retrieved: Sequence[Sequence[bool]],
) -> ClaimLabels:
    """Labels as arrays; arguments as in `ClaimLabels`.

    Raises:
        ValueError: Not one row a claim, or not the same number of passages everywhere.
    """
    widths = {len(row) for row in (*grounded, *retrieved)}
    if len(grounded) != len(correct) or len(retrieved) != len(covered) or len(widths) > 1:
        raise ValueError(
            f"expected {len(correct)} and {len(covered)} rows of one width, found {len(grounded)} and "
            f"{len(retrieved)} of {sorted(widths)}"
        )
    n_passages = max(widths, default=0)
    return ClaimLabels(
        np.array(correct, dtype=bool),
        np.array(covered, dtype=bool),
        np.array(grounded, dtype=bool).reshape(len(correct), n_passages),
        np.array(retrieved, dtype=bool).reshape(len(covered), n_passages),
    )


def labels_of_record(record: Mapping[str, Sequence[str] | Sequence[Sequence[str]]]) -> ClaimLabels:
    """Labels of a record of RAGChecker's own files: `answer2response`, `response2answer`, `retrieved2response`, ...

    Raises:
        ValueError: As `labels_of`.
    """

    def flags(name: str) -> list[bool]:
        return [label == ENTAILMENT for label in record[name]]

    def rows(name: str) -> list[list[bool]]:
        return [[label == ENTAILMENT for label in row] for row in record[name]]

    return labels_of(
        flags("answer2response"), flags("response2answer"), rows("retrieved2response"), rows("retrieved2answer")
    )


def ragchecker_scores(labels: ClaimLabels) -> dict[str, float]:
    """The figures by the names of `RAGCHECKER_MEASURES`, in [0, 1]; those that the answer cannot have are absent."""
    correct, covered, grounded, retrieved = labels
    scores: dict[str, float] = {}
    if correct.size:
        scores["precision"] = _share(correct)
    if covered.size:
        scores["recall"] = _share(covered)
    if correct.size and covered.size:
        precision, recall = scores["precision"], scores["recall"]
        scores["f1"] = 2 * precision * recall / (precision + recall) if precision > 0 and recall > 0 else 0.0
    if retrieved.size:
        found = _any(retrieved, 1)
        scores["claim_recall"] = _share(found)
        scores["context_precision"] = _share(_any(retrieved, 0))
        if found.any():
            scores["context_utilization"] = float((found & covered).sum() / found.sum())
    if grounded.size:
        faithful = _any(grounded, 1)
        scores["faithfulness"] = _share(faithful)
        scores["hallucination"] = _share(~faithful & ~correct)
        scores["self_knowledge"] = _share(~faithful & correct)
        if retrieved.size:
            useful = _any(retrieved, 0)
            by_useful = _any(grounded & useful, 1)
            by_noise = _any(grounded & ~useful, 1) & ~by_useful
            scores["noise_sensitivity_in_relevant"] = _share(by_useful & ~correct)
            scores["noise_sensitivity_in_irrelevant"] = _share(by_noise & ~correct)
    return {name: scores[name] for name in RAGCHECKER_MEASURES if name in scores}


def _any(flags: Flags, axis: int) -> Flags:
    found: Flags = np.any(flags, axis=axis)
    return found


def _share(flags: Flags) -> float:
    return float(flags.mean())
