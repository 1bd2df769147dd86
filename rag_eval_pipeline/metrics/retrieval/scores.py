"""Scores of a whole run: standings of every query of the qrels, a score of each measure, and what stands for all.

A query that the run does not contain counts 0 like one that retrieved nothing, and is counted as missing. One without
a relevant document counts 0 too, as trec_eval counts it. Queries that were never judged are left out and counted.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.retrieval.definition import Measure
from rag_eval_pipeline.metrics.retrieval.hits import Hits, find_hits, joined
from rag_eval_pipeline.metrics.retrieval.runs import Qrels, Run
from rag_eval_pipeline.metrics.retrieval.standings import Placed, Standings


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of a run, in the order of the queries' bytes: the order in which trec_eval adds them up.

    Args:
        queries: Every query of the qrels.
        measures: What was scored.
        values: Of each measure (queries,) scores.
        missing: Queries of the qrels that the run does not contain; they count 0.
        nothing_relevant: Queries without a relevant document; they count 0.
        unjudged: How many queries of the run the qrels do not contain; they are left out.
    """

    queries: Sequence[str]
    measures: tuple[Measure, ...]
    values: tuple[NDArray[Any], ...]
    missing: tuple[str, ...]
    nothing_relevant: tuple[str, ...]
    unjudged: int

    def summary(self, measure: Measure) -> float | int | None:
        """What stands for all queries: mean, sum or geometric mean; None for a measure that has none, or no query."""
        return summary_of(measure, self.values[self.measures.index(measure)])


def summary_of(measure: Measure, values: NDArray[Any]) -> float | int | None:
    """The same of any scores of a measure, added up in their order."""
    kind = measure.family.summary
    if kind == "sum":
        return int(values.sum())
    if kind == "none" or not values.size:
        return None
    # A running sum, one addition after the other: np.sum adds pairwise, and its last bits are others.
    mean = float(np.cumsum(values, dtype=np.float64)[-1]) / values.size
    return math.exp(mean) if kind == "geometric" else mean


def standings(run: Run | Iterable[Run], qrels: Qrels, *, level: int = 1) -> tuple[Standings, NDArray[np.bool_], int]:
    """Where the judged documents stand, which queries of the qrels the run contains, and how many others it does.

    Args:
        run: A run, or its parts one after the other; each query stands in one part.
        qrels: Judgements, of documents that are named as the run's are.
        level: Least grade that counts as relevant, at least 1.
    """
    retrieved = np.zeros(len(qrels.queries), np.int64)
    present = np.zeros(len(qrels.queries), bool)
    parts: list[Hits] = []
    unjudged = 0
    for part in [run] if isinstance(run, Run) else run:
        positions = qrels.positions(part.queries)
        known = positions >= 0
        retrieved[positions[known]] = np.diff(part.offsets)[known]
        present[positions[known]] = True
        unjudged += int((~known).sum())
        parts.append(find_hits(part, qrels, positions))
    return Standings(retrieved, Placed(*joined(parts)), qrels.best_first, level=level), present, unjudged


def score(run: Run | Iterable[Run], qrels: Qrels, measures: Sequence[Measure], *, level: int = 1) -> Scores:
    """Every measure of every query; arguments as in `standings`.

    Raises:
        InputError: What making a part of the run raises.
    """
    found, present, unjudged = standings(run, qrels, level=level)
    return Scores(
        qrels.queries,
        tuple(measures),
        tuple(measure.score(found) for measure in measures),
        tuple(qrels.queries[place] for place in np.flatnonzero(~present).tolist()),
        tuple(qrels.queries[place] for place in np.flatnonzero(found.n_relevant == 0).tolist()),
        unjudged,
    )
