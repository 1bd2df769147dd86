"""Agreement of a judge with people beyond chance: Cohen's kappa with intervals, and what it does to a mean.

Kappa is 1 for equal verdicts, 0 for what chance gives, below 0 for opposite ones. It has no value where chance alone
would agree always. Two intervals are made, because the analytic one is too narrow for small or lopsided samples and the
bootstrap's has no width without a disagreement; the wider end counts.
Source: Cohen 1960; Fleiss, Cohen and Everitt 1969, formula 13, for the standard error.
"""

import math
from collections import Counter
from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.bootstrap import RESAMPLES, SEED
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, Interval

Values = NDArray[np.float64]


class Confusion(NamedTuple):
    """Counts of pairs of verdicts.

    Args:
        true_kept: Both say yes.
        true_missed: People say yes, the judge no.
        false_taken: People say no, the judge yes.
        false_kept: Both say no.
    """

    true_kept: int
    true_missed: int
    false_taken: int
    false_kept: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> "Confusion":
        """Of pairs of people's and the judge's verdicts."""
        counts = Counter(pairs)
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def total(self) -> int:
        """Pairs."""
        return sum(self)

    @property
    def people_share(self) -> float | None:
        """Share of yes among people's verdicts; None without any."""
        return (self.true_kept + self.true_missed) / self.total if self.total else None

    @property
    def judge_share(self) -> float | None:
        """Share of yes among the judge's verdicts; None without any."""
        return (self.true_kept + self.false_taken) / self.total if self.total else None


class Kappa(NamedTuple):
    """Cohen's kappa.

    Args:
        value: At most 1; None where it has none.
        reason: Why it has none: `nothing_to_compare`, `no_variation`.
        analytic: Interval by the large-sample standard error; None where kappa is 1 or has no value.
        bootstrap: Percentiles over resamples; None where all resamples are equal.
        interval: The lower of both lower ends and the higher of both higher ones; None without a value.
    """

    value: float | None
    reason: str | None
    analytic: Interval | None
    bootstrap: Interval | None
    interval: Interval | None


class Bias(NamedTuple):
    """What the judge does to a mean: its share of yes less people's, in [-1, 1], with a 95 % interval."""

    value: float
    low: float
    high: float


def kappa_of(table: Confusion, *, seed: int = SEED, resamples: int = RESAMPLES) -> Kappa:
    """Kappa of the pairs."""
    if table.total == 0:
        return Kappa(None, "nothing_to_compare", None, None, None)
    value = _kappa(np.array([table], dtype=np.float64))[0]
    if math.isnan(value):
        return Kappa(None, "no_variation", None, None, None)
    analytic = _analytic(table, value)
    bootstrap = _bootstrap(table, seed, resamples)
    both = [interval for interval in (analytic, bootstrap) if interval is not None] or [_without_disagreement(table)]
    widest = Interval(min(each.low for each in both), max(each.high for each in both))
    return Kappa(float(value), None, analytic, bootstrap, widest)


def bias_of(table: Confusion) -> Bias | None:
    """The difference of both shares of yes; None without pairs.

    Source: Agresti and Min 2005, Simple improved confidence intervals for comparing matched proportions.
    """
    if table.total == 0:
        return None
    n = table.total + 2
    up, down = table.false_taken + 0.5, table.true_missed + 0.5
    centre = (up - down) / n
    half = _z() * math.sqrt((up + down) - (up - down) ** 2 / n) / n
    value = (table.false_taken - table.true_missed) / table.total
    return Bias(value, max(-1.0, centre - half), min(1.0, centre + half))


def _kappa(tables: Values) -> Values:
    """(tables,) of (tables, 4); NaN where chance agrees always."""
    a, b, c, d = (tables[:, i] for i in range(4))
    n = tables.sum(axis=1)
    chance = ((a + b) * (a + c) + (c + d) * (b + d)) / (n * n)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = np.where(chance < 1, ((a + d) / n - chance) / (1 - chance), np.nan)
    return np.asarray(kappa, dtype=np.float64)


def _analytic(table: Confusion, kappa: float) -> Interval | None:
    n = table.total
    cells = [[table.true_kept / n, table.true_missed / n], [table.false_taken / n, table.false_kept / n]]
    rows = [sum(row) for row in cells]
    columns = [cells[0][i] + cells[1][i] for i in range(2)]
    chance = sum(rows[i] * columns[i] for i in range(2))
    first = sum(cells[i][i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(2))
    second = (1 - kappa) ** 2 * sum(
        cells[i][j] * (columns[i] + rows[j]) ** 2 for i in range(2) for j in range(2) if i != j
    )
    third = (kappa - chance * (1 - kappa)) ** 2
    variance = max(0.0, first + second - third) / (n * (1 - chance) ** 2)
    if variance <= 1e-15:
        return None  # a width of zero would claim certainty
    half = _z() * math.sqrt(variance)
    return Interval(max(-1.0, kappa - half), min(1.0, kappa + half))


def _without_disagreement(table: Confusion) -> Interval:
    """Of equal verdicts: down to the kappa that as many disagreements would give as may have gone unseen.

    Source: Hanley and Lippman-Hand 1983, If nothing goes wrong, is everything all right?
    """
    unseen = min(-math.log((1 - CONFIDENCE) / 2), table.total / 2)
    moved = [table.true_kept - unseen / 2, unseen / 2, unseen / 2, table.false_kept - unseen / 2]
    low = float(_kappa(np.maximum(np.array([moved]), 0.0))[0])
    return Interval(low, 1.0)


def _bootstrap(table: Confusion, seed: int, resamples: int) -> Interval | None:
    drawn = np.random.default_rng(seed).multinomial(
        table.total, np.array(table, dtype=np.float64) / table.total, size=resamples
    )
    values = _kappa(drawn.astype(np.float64))
    values = values[~np.isnan(values)]
    if values.size == 0 or values.min() == values.max():
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return Interval(float(low), float(high))


def _z() -> float:
    return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
