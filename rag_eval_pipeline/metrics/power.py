"""What a benchmark can detect: the units that must change, and the smallest drop that one night finds."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.metrics.significance import Noise, critical_value, design_effect_limit

NORMAL_POWER = 0.8416  # the normal quantile of a power of 80 %


def needed_units(n_metrics: int, *, alpha: float, noise: Noise | None = None) -> int:
    """Return how many units must fall, with none rising, before a drop can be flagged at all.

    k units that all fall have p = 2^-k, and Holm's first step multiplies by the number of metrics: 11 units for 12
    metrics at alpha 0.02. Noise that documents share asks for more.

    Args:
        n_metrics: Tests that are corrected together.
        alpha: Two-sided.
        noise: Of the pinned runs, if the units are questions whose documents may share it.

    Source: Fisher 1935, 21, for the smallest p of a sign test.
    """
    if noise is None or noise.design_effect == 1:
        return math.ceil(math.log2(n_metrics / (alpha / 2)))
    critical = critical_value(alpha / 2 / n_metrics, noise)
    units = math.ceil(critical**2)
    while units**2 < critical**2 * (units + noise.extra_squares(units)):
        units += 1
    return units


def smallest_detectable_drop(
    sizes: Sequence[int], *, n_metrics: int, alpha: float, min_effect: float, noise: Noise | None = None
) -> float | None:
    """Return the smallest drop, as a share of the range, that can be flagged if as few units as possible fall.

    Args:
        sizes: Questions of each unit; the smallest units fall first.
        n_metrics: Tests that are corrected together.
        alpha: Two-sided.
        min_effect: Smaller changes are not flagged.
        noise: See `needed_units`.

    Returns:
        At least `min_effect`; None if even a fall of every unit could not be flagged.
    """
    needed = needed_units(n_metrics, alpha=alpha, noise=noise)
    return max(sum(sorted(sizes)[:needed]) / sum(sizes), min_effect) if needed <= len(sizes) else None


class Detection(NamedTuple):
    """What a benchmark can show, as shares of a metric's range.

    Args:
        at_best: Smallest drop that can be flagged at all, if nothing else moves; None if no drop can.
        usually: Smallest drop that is flagged on four nights of five; None if no drop is.
    """

    at_best: float | None
    usually: float | None


def detectable_drop(
    n_questions: int,
    *,
    flip_share: float,
    n_metrics: int,
    n_runs: int,
    n_documents: float | None,
    alpha: float,
    min_effect: float,
) -> Detection:
    """Return the smallest drops of right or wrong answers that one night finds.

    Args:
        n_questions: Asked.
        flip_share: Share of the answers that differ between two runs of the unchanged system.
        n_metrics: Tests that are corrected together.
        n_runs: Pinned runs; of a deterministic system one, with a flip share of 0.
        n_documents: Documents that the questions share evenly (`effective_clusters`); None if each has its own. Noise
            is assumed to be independent, of which the pinned runs are the less sure the fewer documents there are.
        alpha: Two-sided.
        min_effect: Smaller changes are not flagged.

    Source: the normal approximation of the power of a paired test, with the squares that the drop itself adds.
    """
    squares = n_questions * flip_share / 2 * (1 + 1 / n_runs)
    noise = None
    if squares and n_documents is not None:
        noise = Noise(design_effect_limit(n_documents, n_runs), squares, (n_runs - 1) * n_documents)
    at_best = smallest_detectable_drop(
        [1] * n_questions, n_metrics=n_metrics, alpha=alpha, min_effect=min_effect, noise=noise
    )
    critical = critical_value(alpha / 2 / n_metrics, noise)
    for fallen in range(needed_units(n_metrics, alpha=alpha, noise=noise), n_questions + 1):
        total = squares + fallen
        needed = critical * math.sqrt(total + (0.0 if noise is None else noise.extra_squares(squares)))
        if fallen >= needed + NORMAL_POWER * math.sqrt(squares):
            return Detection(at_best, max(fallen / n_questions, min_effect))
    return Detection(at_best, None)
