"""The watch: evidence, gathered over nights, that a metric declines where no single night is sure of it.

Each night is compared by `label_test`, k = 1: with all nights since the baseline was pinned, which finds a sudden
change soonest, and with the frozen reference, which a slow decline does not dilute. Each p becomes a bet against
"nothing changed" whose mean is at most 1 while that holds. The evidence is the statistic of Shiryaev and Roberts: the
sum, over all nights on which a decline may have begun, of the product of the bets since. While nothing changes, the
mean time until it reaches a number is at least that many nights.

The p of nights that are compared with all earlier ones are independent. A frozen reference that happens to be high
counts against every night; so the comparison with it allows for one standard error of its mean. A night on which no
score differs between runs says nothing and is passed over.

Source: Shiryaev 1963; Roberts 1966; Vovk et al. 2021 (arXiv 2102.10439) for bets on exchangeability and their mixture;
Shaer et al. 2026 (arXiv 2602.13848) for fixed references.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.distributions import normal_cdf, normal_quantile
from rag_eval_pipeline.metrics.run_labels import LabelTest
from rag_eval_pipeline.metrics.verdict_rules import QUIET_NIGHTS

# A bet on p is the mean of k p^(k - 1) over these k; small ones win most on the smallest p.
EXPONENTS = np.array([0.05, 0.1, 0.2, 0.4, 0.6, 0.8])
# What one night weighs at most, as p = 1e-4 would: a bad hour is no decline.
BET_MAX = 200.0
NEWEST_RUNS = 60  # of all nights since the pin, those that a night is compared with
QUIET_BET = float(np.mean(EXPONENTS * 0.5 ** (EXPONENTS - 1)))  # of p = 1/2


def bet(test: LabelTest, *, higher_is_better: bool = True, frozen_runs: int | None = None) -> float | None:
    """Return the factor by which a night multiplies the evidence; None if no score differs between runs.

    It is the mean bet over the values that p could have taken had ties been broken at random.

    Args:
        frozen_runs: The runs of a reference that many nights are compared with.
    """
    if test.at >= 1:
        return None
    p = test.low if higher_is_better else test.high
    limits = np.array([max(0.0, p - test.at), p])
    if frozen_runs:
        z = normal_quantile(limits) * (1 + 1 / frozen_runs) ** 0.5 + frozen_runs**-0.5
        limits = np.maximum(limits, normal_cdf(z))
    low, high = limits
    if high - low < 1e-3 * high:
        found = np.mean(EXPONENTS * high ** (EXPONENTS - 1))
    else:
        found = np.mean(high**EXPONENTS - low**EXPONENTS) / (high - low)
    return min(BET_MAX, float(found))


class Bets(NamedTuple):
    """A night's two bets on one metric, None where no score differs between runs, and the evidence that alerts."""

    all_nights: float | None
    reference: float | None
    alert_at: float
    is_changed: bool = False  # a decline of the metric was confirmed by itself


class Watched(NamedTuple):
    """The evidence of a decline of one metric after a night.

    Args:
        evidence: Shown as 1 : `evidence`; the larger one of the two comparisons.
        since: The number, from 0, of the night with which the decline probably began; None without evidence.
        is_alert: The evidence has reached what alerts with this night.
        is_known: An alert was raised, or a decline confirmed, and three quiet nights have not passed yet.
    """

    evidence: float
    since: int | None
    is_alert: bool = False
    is_known: bool = False


class _Stream(NamedTuple):
    total: float = 0.0  # the statistic
    product: float = 0.0  # of the bets since the start for which it is largest
    since: int | None = None

    def after(self, night: int, factor: float | None) -> "_Stream":
        if factor is None:
            return self
        since = self.since if self.product > 1 else night
        return _Stream((1 + self.total) * factor, max(1.0, self.product) * factor, since)


def watch(nights: Sequence[Bets | None]) -> list[Watched]:
    """Follow one metric from the first night after its baseline was pinned.

    After an alert the evidence is not gathered until three nights in a row were quiet: in the upper half of what was to
    be expected, in both comparisons.

    Args:
        nights: Oldest first; None where the metric was not compared.
    """
    streams = [_Stream(), _Stream()]
    known: Watched | None = None
    quiet = 0
    found = []
    for number, bets in enumerate(nights):
        is_alert = False
        if bets is not None and known is not None and not bets.is_changed:
            quiet = quiet + 1 if all(one is None or one <= QUIET_BET for one in bets[:2]) else 0
            known = None if quiet >= QUIET_NIGHTS else known
        elif bets is not None:
            streams = [one.after(number, factor) for one, factor in zip(streams, bets[:2], strict=True)]
            best = max(streams, key=lambda one: one.total)
            is_alert = best.total >= bets.alert_at and not bets.is_changed
            if is_alert or bets.is_changed:
                known = known or Watched(best.total, best.since, is_known=True)
                streams, quiet = [_Stream(), _Stream()], 0
        best = max(streams, key=lambda one: one.total)
        found.append((known or Watched(best.total, best.since))._replace(is_alert=is_alert))
    return found
