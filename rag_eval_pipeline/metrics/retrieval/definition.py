"""A retrieval measure as data: its row in the registry, trec_eval's name, its parameters, and a function of standings.

A family becomes a measure when its parameters are known: `ndcg@k` with k = 10 is `ndcg@10`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from rag_eval_pipeline.metrics.registry import Level, Metric
from rag_eval_pipeline.metrics.retrieval.standings import Standings

LEVELS: tuple[Level, ...] = ("passage", "page", "document")
CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)  # trec_eval's
LOWEST_GEOMETRIC = 0.00001  # trec_eval's MIN_GEO_MEAN: one score of 0 would make a geometric mean 0

# cutoff: a rank; fraction: of the number of relevant documents; numbers: in a fixed order; pairs: grade=gain or
# name=number.
Takes = Literal["nothing", "cutoff", "fraction", "numbers", "pairs"]
Summary = Literal["mean", "sum", "geometric", "none"]
Printed = Literal["decimal", "integer", "text"]
Shown = Literal["both", "queries", "summary"]


class Parameters(NamedTuple):
    """What makes a measure of a family.

    Args:
        k: Cutoff: a rank of at least 1.
        numbers: In the order in which the family names them; one for a family of fractions.
        gains: Grade -> gain, for grades that do not gain their own number.
        named: Such as p=0.8.
    """

    k: int = 0
    numbers: tuple[float, ...] = ()
    gains: Mapping[int, float] = {}
    named: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Family:
    """A measure before its parameters are known.

    Args:
        metric: Its row in the registry; a family with a cutoff has a name that ends in `@k`.
        score: (queries,) scores of standings; every query has one, 0.0 where nothing was retrieved.
        trec: trec_eval's name; None where it has no such measure.
        takes: What kind of parameters.
        defaults: trec_eval's parameters where none are given; a measure each for cutoffs and fractions.
        named: Parameters by name with their defaults.
        summary: What stands for all queries together.
        printed: How trec_eval prints a value.
        shown: Where trec_eval prints it.
    """

    metric: Metric
    score: Callable[[Standings, Parameters], NDArray[Any]]
    trec: str | None = None
    takes: Takes = "nothing"
    defaults: tuple[float, ...] = ()
    named: Mapping[str, float] = field(default_factory=dict)
    summary: Summary = "mean"
    printed: Printed = "decimal"
    shown: Shown = "both"


@dataclass(frozen=True, slots=True)
class Measure:
    """A definition that turns standings into one score a query.

    Args:
        name: This project's name, with its parameters: `ndcg@10`.
        trec_name: The name that trec_eval prints; None where it has no such measure.
        label: The one of the two that was asked for; it is printed.
        meaning: One sentence for reports.
        family: Where it comes from.
        parameters: What made it.
    """

    name: str
    trec_name: str | None
    label: str
    meaning: str
    family: Family
    parameters: Parameters

    @property
    def source(self) -> str:
        """Where the definition comes from."""
        return self.family.metric.source

    def score(self, standings: Standings) -> NDArray[Any]:
        """(queries,) the score of each query."""
        return self.family.score(standings, self.parameters)
