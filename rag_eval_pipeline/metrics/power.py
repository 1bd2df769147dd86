"""What a set of questions can show: power, the smallest effect that is found, the number of questions needed.

Two views: the paired t test's, for planning with a spread that was seen, and the nightly procedure's, for which the
number of questions alone sets a limit.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rag_eval_pipeline.metrics.paired_intervals import critical_value
from rag_eval_pipeline.metrics.significance import Noise, uncertainty

POWER = 0.8
NORMAL_POWER = 0.8416  # the normal quantile of it
ALPHA = 0.05
FAR = 4.0  # standard errors; significance the wrong way then has a probability below 1e-6, and scipy often no number
QUESTIONS_MAX = 10**9  # more than anybody asks; where a search gives up


def paired_power(effect: float, spread: float, n_questions: int, *, alpha: float = ALPHA) -> float:
    """The probability that a two-sided paired t test finds an effect.

    Args:
        effect: True mean difference.
        spread: Standard deviation of the differences, above 0, in the same unit.
        n_questions: Two or more.
        alpha: Two-sided; the verdict's 0.02 over 12 metrics is 0.02 / 12 at Holm's first step.

    Returns:
        In [alpha, 1].

    Raises:
        ValueError: A spread that is not above 0, or fewer than two questions.

    Source: Cohen 1988, 2.3, by the noncentral t distribution.
    """
    if spread <= 0 or n_questions < 2:
        raise ValueError(f"expected a spread above 0 and two questions, found {spread} and {n_questions}")
    from scipy.special import nctdtr, stdtrit

    shift = abs(effect) / spread * math.sqrt(n_questions)
    limit = float(stdtrit(n_questions - 1, 1 - alpha / 2))
    # A small effect is also found the wrong way round.
    wrong_way = float(nctdtr(n_questions - 1, shift, -limit)) if shift < FAR else 0.0
    return 1 - float(nctdtr(n_questions - 1, shift, limit)) + wrong_way


def minimum_detectable_effect(spread: float, n_questions: int, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest true mean difference that a paired t test finds with this power, in the unit of the spread.

    Args:
        spread: Standard deviation of the differences, above 0.
        n_questions: Two or more.
        alpha: Two-sided.
        power: Above alpha, below 1.

    Raises:
        ValueError: As `paired_power`.

    Source: Cohen 1988, 2.3; in large samples 2.80 * spread / sqrt(n) at 5 % and 80 %.
    """
    high = spread
    while paired_power(high, spread, n_questions, alpha=alpha) < power:
        high *= 2
    return _bisect(lambda effect: paired_power(effect, spread, n_questions, alpha=alpha) >= power, 0.0, high)


def needed_questions(effect: float, spread: float, *, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """The fewest questions with which a paired t test finds an effect with this power.

    Args:
        effect: True mean difference.
        spread: Standard deviation of the differences, above 0.
        alpha: Two-sided.
        power: Above alpha, below 1.

    Returns:
        Two or more; None when a billion do not do.

    Raises:
        ValueError: As `paired_power`.

    Source: Cohen 1988, 2.4.
    """
    low, high = 1, 2
    while paired_power(effect, spread, high, alpha=alpha) < power:
        low, high = high, 2 * high
        if high > QUESTIONS_MAX:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = paired_power(effect, spread, middle, alpha=alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def needed_units(n_metrics: int, *, alpha: float, noise: Noise | None = None) -> int:
    """How many units must fall, while none rises, before a drop can be flagged.

    k units that all fall have p = 2^-k, and Holm's first step multiplies by the number of metrics: 11 units for 12
    metrics at alpha 0.02. However far each falls, fewer never do. Noise that documents share asks for more.

    Args:
        n_metrics: Tests that are corrected together.
        alpha: Two-sided.
        noise: Of the pinned runs, where the units are questions whose documents may share it.

    Source: the smallest p of a sign test with k units, Fisher 1935, 21.
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
    """The smallest drop, as a share of the range, that can be flagged: as many units as needed fall, and none rises.

    Args:
        sizes: Questions of each unit: 1 each where questions are counted, and the drop is 11/n with 12 metrics; those
            of documents, which then fall as a whole, the smallest ones first.
        n_metrics: Tests that are corrected together.
        alpha: Two-sided.
        min_effect: Smaller changes are not flagged.
        noise: See `needed_units`.

    Returns:
        At least `min_effect`; None when even a fall in every unit could not be flagged.

    Source: Holm 1979 for the smallest p's share of alpha; a sign-flip test of k falls has a p of 2^-k at least.
    """
    needed = needed_units(n_metrics, alpha=alpha, noise=noise)
    return max(sum(sorted(sizes)[:needed]) / sum(sizes), min_effect) if needed <= len(sizes) else None


class Detection(NamedTuple):
    """What a benchmark can show, as shares of a metric's range.

    Args:
        at_best: The smallest drop that can be flagged at all, while nothing else moves; None: none can.
        usually: The smallest drop that is flagged on four nights of five; None: none is.
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
    """The smallest drops of right or wrong answers that one night finds.

    Args:
        n_questions: Asked.
        flip_share: Share of the answers that differ between two runs of the unchanged system.
        n_metrics: Tests that are corrected together.
        n_runs: Pinned runs; with one of a deterministic system, a flip share of 0.
        n_documents: Documents that the questions share evenly (`clusters.effective_clusters`); None where each has its
            own. Noise is taken to be independent, which the pinned runs show the less surely the fewer documents there
            are.
        alpha: Two-sided.
        min_effect: Smaller changes are not flagged.

    Source: the normal approximation of the power of a paired test, with the squares that the drop itself adds.
    """
    squares = n_questions * flip_share / 2 * (1 + 1 / n_runs)
    noise = None
    if squares and n_documents is not None:
        noise = Noise(uncertainty(n_documents, n_runs), squares, (n_runs - 1) * n_documents)
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


def _bisect(is_enough: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(60):  # halved to the last bit
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
