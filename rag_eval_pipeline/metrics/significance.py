"""Paired tests between tonight's scores and a baseline's, question by question.

The test flips the signs of the paired differences: were nothing changed, each difference could as well have the other
sign. It serves binary and graded measures alike and needs no distribution; whole documents are flipped where questions
share one. What is decided from these numbers stands in `verdicts`.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.statistics import CONFIDENCE, Interval

FLIPS = 19_999
SIGNS_AT_ONCE = 4_000_000  # 32 MB as doubles
# Sums of the same differences in another order differ in their last bits only; a tie must not be lost to that.
RELATIVE_TIE = 1e-9

Differences = NDArray[np.float64]
Units = NDArray[np.int64]


def paired_differences(tonight: Sequence[float | None], baselines: Sequence[Sequence[float | None]]) -> Differences:
    """Tonight's score minus the mean of the baseline runs, one a question.

    Args:
        tonight: One score a question; None where it failed.
        baselines: The same questions in the same order, one sequence a run; one or more runs.

    Returns:
        (questions,), NaN where any of the runs has no score. Exactly 0.0 where all runs agree.

    Raises:
        ValueError: No baseline, or runs of different lengths.
    """
    if not baselines:
        raise ValueError("expected at least one baseline run")
    differences = []
    for score, *earlier in zip(tonight, *baselines, strict=True):
        known = [value for value in earlier if value is not None]
        if score is None or len(known) < len(earlier):
            differences.append(math.nan)
        else:
            # Differences are averaged, not scores: six times 0.7, over 6, is not 0.7 again.
            differences.append(sum(score - value for value in known) / len(known))
    return np.array(differences, dtype=np.float64)


def number_units(clusters: Sequence[str] | None, n_questions: int) -> Units:
    """The number of each question's independent unit: its cluster, or itself without clusters.

    Raises:
        ValueError: Another number of clusters than questions.
    """
    if clusters is None:
        return np.arange(n_questions, dtype=np.int64)
    if len(clusters) != n_questions:
        raise ValueError(f"expected a cluster for each of {n_questions} questions, found {len(clusters)}")
    return np.unique(np.asarray(clusters), return_inverse=True)[1].astype(np.int64)


def sign_flip_p_values(
    differences: Differences, *, seed: int, clusters: Sequence[str] | None = None, flips: int = FLIPS
) -> list[float | None]:
    """One-sided p of each metric's mean difference, in the direction that it has.

    Args:
        differences: (questions, metrics), NaN where a question has no pair for a metric.
        seed: Same seed, same signs; one sign matrix serves all metrics.
        clusters: One name a question; questions of one name get one sign. None: each its own.
        flips: Random sign assignments, B.

    Returns:
        (1 + assignments at least as extreme) / (B + 1), in (0, 1]: to be compared with alpha / 2. 1.0 when no
        difference is other than 0; None for a metric without pairs.

    Source: Phipson and Smyth 2010 for the estimate of p; exact McNemar's test where the measure is binary.
    """
    units = number_units(clusters, len(differences))
    has_pairs = ~np.isnan(differences)
    sums = np.zeros((units.max(initial=-1) + 1, differences.shape[1]))
    np.add.at(sums, units, np.nan_to_num(differences))
    sums = sums[(sums != 0).any(axis=1)]
    observed = sums.sum(axis=0)
    direction = np.where(observed < 0, -1.0, 1.0)
    reach = np.abs(observed) - RELATIVE_TIE * np.abs(sums).sum(axis=0)
    extreme = np.zeros(differences.shape[1], dtype=np.int64)
    rng = np.random.default_rng(seed)
    n_units = len(sums)
    row_bytes = (n_units + 7) // 8
    step = max(1, SIGNS_AT_ONCE // max(1, n_units))
    for start in range(0, flips, step):
        rows = min(step, flips - start)
        random_bytes = np.frombuffer(rng.bytes(rows * row_bytes), dtype=np.uint8).reshape(rows, row_bytes)
        positive = np.unpackbits(random_bytes, axis=1, count=n_units).astype(np.float64)
        flipped = 2 * (positive @ sums) - observed
        extreme += (flipped * direction >= reach).sum(axis=0)
    return [
        (1 + count) / (flips + 1) if has_pairs[:, metric].any() else None
        for metric, count in enumerate(extreme.tolist())
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the family-wise p of each, in the order given, at most 1.

    Source: Holm 1979.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, p_values[index] * (len(p_values) - place))
        corrected[index] = min(1.0, largest)
    return corrected


def difference_interval(
    differences: Differences, *, clusters: Sequence[str] | None = None, value_range: float = 1.0
) -> Interval:
    """95 % t-interval of the mean difference with two pseudo-questions, +range and -range; never of zero width.

    Args:
        differences: (questions,), without NaN; may be empty.
        clusters: One name a question; the spread is then taken between clusters. Each pseudo-question is its own.
        value_range: Largest minus smallest possible score.

    Source: Bonett and Price 2012 for the pseudo-questions; cluster-robust variance with G / (G - 1).
    """
    from scipy.special import stdtrit

    n_questions = len(differences)
    units = number_units(clusters, n_questions)
    n_units = int(units.max(initial=-1)) + 3
    units = np.append(units, (n_units - 2, n_units - 1))
    padded = np.append(differences, (value_range, -value_range))
    centre = float(padded.mean())
    residuals = np.bincount(units, padded - centre, minlength=n_units)
    variance = n_units / (n_units - 1) * float(residuals @ residuals) / padded.size**2
    half = float(stdtrit(n_units - 1, (1 + CONFIDENCE) / 2)) * math.sqrt(variance)
    return Interval(centre - half, centre + half)


def smallest_detectable_drop(n_units: int, *, n_metrics: int, alpha: float, min_effect: float) -> float | None:
    """The smallest drop, as a share of the range, that can be flagged: as many units as needed fall, and none rises.

    k units that all fall have p = 2^-k, and Holm's first step multiplies by the number of metrics: 11 units for 12
    metrics at alpha 0.02, so 11/n.

    Returns:
        At least `min_effect`; None when even a fall in every unit could not be flagged.
    """
    needed = math.ceil(math.log2(n_metrics / (alpha / 2)))
    return max(needed / n_units, min_effect) if needed <= n_units else None


def comparison_seed(comparison_key: str, run_ids: Iterable[str]) -> int:
    """The first 8 bytes of sha256 over the key and the run ids, one a line: same comparison, same p."""
    text = "\n".join((comparison_key, *run_ids))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
