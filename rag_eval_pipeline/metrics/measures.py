"""Retrieval measures as data: a name, trec_eval's name for it, what it means, its source, and its score for one query.

Every measure equals trec_eval to the last bit: sums run in rank order with `math.log2`, because another order of
addition or another logarithm changes the last digits. A measure sees only where the relevant documents stand, never the
whole ranking.
"""

import math
import re
import sys
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple, Protocol

from rag_eval_pipeline.errors import InputError

CUTOFFS = (1, 3, 5, 10)  # the specification's k; `parse_measure` takes any other as well
WHOLE_RANKING = sys.maxsize


class RelevantRanks(NamedTuple):
    """Where the relevant documents of one query stand in its ranking: all that a measure needs.

    Args:
        ranks: 1-based ranks of the relevant documents that were retrieved, ascending.
        grades: Their grades in the same order, each at least 1.
        ideal: Grades of all relevant documents, retrieved or not, descending; never empty.
    """

    ranks: tuple[int, ...]
    grades: tuple[int, ...]
    ideal: tuple[int, ...]

    def within(self, k: int) -> int:
        """How many relevant documents stand at rank `k` or better."""
        return bisect_right(self.ranks, k)


@dataclass(frozen=True, slots=True)
class Measure:
    """A definition that turns one query's ranking into a score in [0, 1]; higher is better.

    Args:
        name: This project's name, with its cutoff: `ndcg@10`.
        trec_name: The name that trec_eval prints; None where it has no such measure.
        meaning: One sentence for reports.
        source: Where the definition comes from.
        score: The score of one query that has at least one relevant document.
    """

    name: str
    trec_name: str | None
    meaning: str
    source: str
    score: Callable[[RelevantRanks], float]


def hit(relevant: RelevantRanks, k: int) -> float:
    """1.0 when any relevant document is in the top k, else 0.0; trec_eval calls it success, some call it recall."""
    return 1.0 if relevant.within(k) else 0.0


def all_hit(relevant: RelevantRanks, k: int) -> float:
    """1.0 when every relevant document is in the top k, else 0.0; always 0.0 when more than k are relevant."""
    return 1.0 if relevant.within(k) == len(relevant.ideal) else 0.0


def recall(relevant: RelevantRanks, k: int) -> float:
    """Share of the relevant documents that are in the top k."""
    return relevant.within(k) / len(relevant.ideal)


def precision(relevant: RelevantRanks, k: int) -> float:
    """Share of the top k that is relevant; divides by k even where fewer were retrieved."""
    return relevant.within(k) / k


def reciprocal_rank(relevant: RelevantRanks, k: int) -> float:
    """1 / rank of the first relevant document; 0.0 when none is in the top k."""
    return 1.0 / relevant.ranks[0] if relevant.within(k) else 0.0


def average_precision(relevant: RelevantRanks, k: int) -> float:
    """Precision at each relevant document of the top k, summed and divided by the number of all relevant documents."""
    total = 0.0
    for found, rank in enumerate(relevant.ranks[: relevant.within(k)], start=1):
        total += found / rank
    return total / len(relevant.ideal)


def ndcg(relevant: RelevantRanks, k: int) -> float:
    """Discounted cumulative gain of the top k over that of the best possible top k; the gain is the grade itself."""
    found = relevant.within(k)
    gain = discounted_gain(relevant.ranks[:found], relevant.grades[:found])
    ideal = relevant.ideal[:k]
    return gain / discounted_gain(range(1, len(ideal) + 1), ideal)


def discounted_gain(ranks: tuple[int, ...] | range, grades: tuple[int, ...]) -> float:
    """Sum of grade / log2(rank + 1), added in rank order."""
    total = 0.0
    for rank, grade in zip(ranks, grades, strict=True):
        total += grade / math.log2(rank + 1)
    return total


class ScoreAtCutoff(Protocol):
    """A function that scores one query at a cutoff."""

    def __call__(self, relevant: RelevantRanks, k: int) -> float:
        """A score in [0, 1]."""


class Family(NamedTuple):
    """A measure before its cutoff is known; `{k}` in the texts stands for it.

    Args:
        score: The score at a cutoff.
        trec_name: trec_eval's name at a cutoff, if it has one.
        meaning: The sentence of `Measure.meaning`.
        source: The source of `Measure.source`.
        whole_trec_name: trec_eval's name over the whole ranking; None where a cutoff is needed.
    """

    score: ScoreAtCutoff
    trec_name: str | None
    meaning: str
    source: str
    whole_trec_name: str | None = None


FAMILIES = {
    "hit": Family(hit, "success_{k}", "A relevant document is in the top {k}.", "trec_eval m_success.c"),
    "all_hit": Family(
        all_hit,
        None,
        "Every relevant document is in the top {k}.",
        "not in trec_eval; for questions over several documents",
    ),
    "recall": Family(recall, "recall_{k}", "Share of the relevant documents in the top {k}.", "trec_eval m_recall.c"),
    "precision": Family(precision, "P_{k}", "Share of the top {k} that is relevant.", "trec_eval m_P.c"),
    "ndcg": Family(
        ndcg,
        "ndcg_cut_{k}",
        "Discounted gain of the top {k} over that of the best possible order.",
        "Jarvelin and Kekalainen 2002; trec_eval m_ndcg_cut.c, m_ndcg.c",
        "ndcg",
    ),
    "map": Family(
        average_precision,
        "map_cut_{k}",
        "Mean of the precision at each relevant document of the top {k}.",
        "trec_eval m_map_cut.c, m_map.c",
        "map",
    ),
    "mrr": Family(
        reciprocal_rank,
        None,
        "Reciprocal of the rank of the first relevant document in the top {k}.",
        "trec_eval m_recip_rank.c; the cutoff as in MS MARCO",
        "recip_rank",
    ),
}
OTHER_NAMES = {"rr": "mrr"}  # what ir_measures calls it, and what its users will type

DEFAULT_MEASURES = (*(f"{family}@{k}" for family in FAMILIES if family != "mrr" for k in CUTOFFS), "mrr")


@cache
def parse_measure(name: str) -> Measure:
    """The measure of a name such as `ndcg@10`, `mrr` or `all_hit@5`; upper and lower case are the same.

    Raises:
        InputError: `unknown_measure`.
    """
    parts = re.fullmatch(r"([a-z_]+)(?:@([1-9][0-9]{0,8}))?", name.lower())
    family_name = "" if parts is None else OTHER_NAMES.get(parts[1], parts[1])
    family = FAMILIES.get(family_name)
    if parts is None or family is None or (parts[2] is None and family.whole_trec_name is None):
        accepted = ", ".join(f"{known}@k" for known in FAMILIES)
        raise InputError(
            "unknown_measure", "measure", f"{accepted}, map, mrr or ndcg", found=name, hint="Write it like ndcg@10."
        )
    if parts[2] is None:
        meaning = family.meaning.replace("top {k}", "ranking")
        score = partial(family.score, k=WHOLE_RANKING)
        return Measure(family_name, family.whole_trec_name, meaning, family.source, score)
    k = int(parts[2])
    trec_name = None if family.trec_name is None else family.trec_name.format(k=k)
    return Measure(
        f"{family_name}@{k}", trec_name, family.meaning.format(k=k), family.source, partial(family.score, k=k)
    )
