"""Scores of an answer by the gold facts that it states, which TREC calls nuggets.

They are meant for means over many questions. By question they are weak: automatic labels of facts order systems over a
track as people's labels do, and the answers to one question hardly so.
Source: Pradeep et al. 2025, The Great Nugget Recall, arXiv 2504.15068 (AutoNuggetizer, TREC 2024 RAG Track);
castorini/nuggetizer, core/metrics.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

FACT_MEASURES = ("strict_vital_score", "vital_score", "strict_all_score", "all_score")
FACT_COUNTS = frozenset({"decided_facts", "undecided_facts"})  # they have no means
PARTIAL = 0.5  # of a fact that is stated in part, where that counts


class JudgedFact(NamedTuple):
    """A gold fact, and how much of it the answer states: 1.0, `PARTIAL` or 0.0; None if the judge does not decide."""

    is_vital: bool
    support: float | None


def fact_scores(facts: Sequence[JudgedFact]) -> dict[str, float]:
    """Return the scores of one answer by measure; nothing without facts.

    The strict scores are the share of the facts that are stated whole, the others count one that is stated in part as a
    half. What the judge does not decide is in no score, and counted. A question without a decided vital fact has no
    vital score; the official scorer gives 0.0.

    Source: castorini/nuggetizer, core/metrics.py, calculate_nugget_scores.
    """
    if not facts:
        return {}
    decided = [(is_vital, support) for is_vital, support in facts if support is not None]
    scores = {"decided_facts": float(len(decided)), "undecided_facts": float(len(facts) - len(decided))}
    vital = [support for is_vital, support in decided if is_vital]
    for name, supports in (("vital", vital), ("all", [support for _, support in decided])):
        if supports:
            scores[f"strict_{name}_score"] = sum(support == 1.0 for support in supports) / len(supports)
            scores[f"{name}_score"] = sum(supports) / len(supports)
    return scores
