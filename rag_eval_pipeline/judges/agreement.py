"""Agreement of a judge with labels: the confusion table, Cohen's kappa with its intervals, and bias."""

import math
from collections import Counter
from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.judges.trust_card import Bias, KappaRecord, Limits
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, RESAMPLES, SEED


class Confusion(NamedTuple):
    """Counts of pairs of verdicts, named as in `ConfusionRecord`."""

    both_yes: int
    labels_yes_judge_no: int
    labels_no_judge_yes: int
    both_no: int

    @classmethod
    def tally(cls, pairs: Iterable[tuple[bool, bool]]) -> Self:
        """Count pairs of a label and the judge's verdict."""
        counts = Counter(pairs)
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def kappa_of(table: Confusion, *, seed: int = SEED, resamples: int = RESAMPLES) -> KappaRecord:
    """Return Cohen's kappa: 1 for equal verdicts, 0 for what chance gives, below 0 for opposite ones.

    It has no value without pairs, and if chance alone would always agree. The interval has the wider ends of the
    analytic one, which is too narrow for small or lopsided samples, and of the bootstrap's, which has no width without
    a disagreement.
    Source: Cohen 1960; Fleiss, Cohen and Everitt 1969, formula 13, for the standard error.
    """
    if not sum(table):
        return KappaRecord(reason="nothing_to_compare")
    value = float(_kappas(np.array([table], dtype=np.float64))[0])
    if math.isnan(value):
        return KappaRecord(reason="no_variation")
    analytic = _analytic_interval(table, value)
    bootstrap = _bootstrap_interval(table, seed, resamples)
    known = [one for one in (analytic, bootstrap) if one is not None] or [_interval_without_disagreement(table)]
    widest = Limits(low=min(one.low for one in known), high=max(one.high for one in known))
    return KappaRecord(value=value, analytic=analytic, bootstrap=bootstrap, interval=widest)


def bias_of(table: Confusion) -> Bias | None:
    """Return the judge's share of yes less that of the labels, which is what the judge does to a mean.

    Source: Agresti and Min 2005, Simple improved confidence intervals for comparing matched proportions.
    """
    if not (total := sum(table)):
        return None
    _, fn, fp, _ = table
    n = total + 2
    up, down = fp + 0.5, fn + 0.5
    centre = (up - down) / n
    half = _Z * math.sqrt((up + down) - (up - down) ** 2 / n) / n
    return Bias(
        value=(fp - fn) / total,
        interval=Limits(low=max(-1.0, centre - half), high=min(1.0, centre + half)),
    )


_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def _kappas(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """(tables,) of (tables, 4); NaN where chance always agrees."""
    tp, fn, fp, tn = (tables[:, i] for i in range(4))
    n = tables.sum(axis=1)
    chance = ((tp + fn) * (tp + fp) + (fp + tn) * (fn + tn)) / (n * n)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = np.where(chance < 1, ((tp + tn) / n - chance) / (1 - chance), np.nan)
    return np.asarray(kappa, dtype=np.float64)


def _analytic_interval(table: Confusion, kappa: float) -> Limits | None:
    n = sum(table)
    tp, fn, fp, tn = (count / n for count in table)
    cells = [[tp, fn], [fp, tn]]
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
    half = _Z * math.sqrt(variance)
    return Limits(low=max(-1.0, kappa - half), high=min(1.0, kappa + half))


def _interval_without_disagreement(table: Confusion) -> Limits:
    # Hanley and Lippman-Hand 1983, If nothing goes wrong, is everything all right?
    unseen = min(-math.log((1 - CONFIDENCE) / 2), sum(table) / 2)
    moved = [table.both_yes - unseen / 2, unseen / 2, unseen / 2, table.both_no - unseen / 2]
    return Limits(low=float(_kappas(np.maximum(np.array([moved]), 0.0))[0]), high=1.0)


def _bootstrap_interval(table: Confusion, seed: int, resamples: int) -> Limits | None:
    shares = np.array(table, dtype=np.float64) / sum(table)
    drawn = np.random.default_rng(seed).multinomial(sum(table), shares, size=resamples)
    values = _kappas(drawn.astype(np.float64))
    values = values[~np.isnan(values)]
    if values.size == 0 or values.min() == values.max():
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return Limits(low=float(low), high=float(high))
