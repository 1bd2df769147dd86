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

from rag_eval_pipeline.metrics.clusters import count_units, number_units
from rag_eval_pipeline.metrics.exact_permutation import RELATIVE_TIE

FLIPS = 19_999
RESOLUTION = 10  # how many times finer than the limit the smallest p must be, after correction
SIGNS_AT_ONCE = 4_000_000  # 32 MB as doubles

Differences = NDArray[np.float64]


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
    scores = np.array(tonight, dtype=np.float64)  # None becomes NaN
    total = np.zeros(scores.size)
    for run in baselines:
        earlier = np.array(run, dtype=np.float64)
        if earlier.size != scores.size:
            raise ValueError(f"expected {scores.size} scores in each baseline run, found {earlier.size}")
        # Differences are averaged, not scores: six times 0.7, over 6, is not 0.7 again.
        total += scores - earlier
    return total / len(baselines)


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
    has_pairs = ~np.isnan(differences)
    sums = unit_sums(np.nan_to_num(differences), clusters)
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


def unit_sums(differences: Differences, clusters: Sequence[str] | None) -> Differences:
    """Each independent unit's sum: a document's, or the question's own difference without clusters.

    Args:
        differences: (questions, metrics), without NaN.
        clusters: One name a question, or None.

    Returns:
        (units, metrics), units in the order of first appearance.
    """
    units = number_units(clusters, len(differences))
    n_units = count_units(units)
    if n_units == len(differences):
        return differences
    sums = np.zeros((n_units, differences.shape[1]))
    np.add.at(sums, units, differences)
    return sums


def needed_flips(n_metrics: int, *, alpha: float, least: int = FLIPS) -> int:
    """Sign assignments that make the smallest possible p, after correction, ten times smaller than the limit.

    Without this, many metrics could never be flagged, however far they fell.

    Args:
        n_metrics: Tests that are corrected together.
        alpha: Two-sided; p is compared with half of it.
        least: What is drawn for few metrics.
    """
    return max(least, math.ceil(RESOLUTION * n_metrics / (alpha / 2)) - 1)


def comparison_seed(comparison_key: str, run_ids: Iterable[str]) -> int:
    """The first 8 bytes of sha256 over the key and the run ids, one a line: same comparison, same p."""
    text = "\n".join((comparison_key, *run_ids))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
