"""Comparisons of the first nights: as long as no baseline is pinned, a night is compared with the few before it."""

from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.reporting.baselines import earlier_runs, needed_runs, newest_alike


class Provisional(NamedTuple):
    """How far a pair is on the way to its baseline.

    Args:
        nights: Evaluations alike so far, the newest among them.
        needed: How many a baseline takes.
        earlier: Ids of those that the newest is compared with.
    """

    nights: int
    needed: int
    earlier: tuple[str, ...]

    @property
    def words(self) -> str:
        """`provisional: 4 of 5 nights`."""
        return f"provisional: {self.nights} of {self.needed} nights"


def provisional_of(evaluations: Sequence[Evaluation]) -> Provisional | None:
    """Of a pair without baseline.

    Args:
        evaluations: Published ones of the pair, oldest first; None is returned for none.
    """
    if not evaluations:
        return None
    alike = len(newest_alike(evaluations))
    earlier = tuple(one.record.evaluation_id for one in earlier_runs(evaluations))
    return Provisional(alike, needed_runs(evaluations[-1]), earlier)
