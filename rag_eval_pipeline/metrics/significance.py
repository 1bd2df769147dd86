"""Paired tests between tonight's scores and a baseline's, question by question.

The test flips the signs of the paired differences: were nothing changed, each difference could as well have the other
sign. It serves binary and graded measures alike and needs no distribution. Where the pinned runs show that questions of
one document err together, the sum of the differences is divided by its standard error with a design effect instead.
What is decided from these numbers stands in `verdicts`.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.clusters import Units, count_units, effective_clusters, number_units
from rag_eval_pipeline.metrics.exact_permutation import RELATIVE_TIE

FLIPS = 19_999
RESOLUTION = 10  # how many times finer than the limit the smallest p must be, after correction
SIGNS_AT_ONCE = 4_000_000  # 32 MB as doubles

RUNS_FOR_NOISE = 3  # pinned runs; fewer say too little about what they share
FEW_DOCUMENTS = 8  # below this many, the upper limit of the design effect is taken
UPPER_LIMIT = 0.80  # one-sided confidence of that limit

Differences = NDArray[np.float64]


class Noise(NamedTuple):
    """How much the scores of an unchanged system move between runs, and how far documents share that.

    Args:
        design_effect: What the variance of a run's sum is multiplied by because questions of one document err together;
            at least 1.
        squares: The expected sum of squared paired differences of an unchanged system.
        degrees_of_freedom: Of the design effect: (runs - 1) x documents.
    """

    design_effect: float
    squares: float
    degrees_of_freedom: float

    def extra_squares(self, squares: float) -> float:
        """What the design effect adds to a sum of squared differences.

        Only the part that is noise is shared: a real change has no run-to-run noise, however many questions it moves.
        """
        return (self.design_effect - 1) * min(self.squares, squares)


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


def run_noise(runs: NDArray[np.float64], units: Units) -> Noise:
    """The run-to-run noise of the pinned runs, from their residuals around each question's mean.

    The design effect is the sum over runs and documents of (the document's sum of residuals) squared, over the sum of
    all squared residuals. Few documents say little about it, and noise that they share weakly would go unseen: below
    eight the upper 80 % limit is taken. Documents of unequal size count as fewer.

    Args:
        runs: (runs, questions), without NaN; three runs or more.
        units: (questions,), from `clusters.number_units`.

    Source: Kish 1965, 5.4, for the design effect; the chi-squared limit of a variance.
    """
    n_runs, n_questions = runs.shape
    residuals = runs - runs.mean(axis=0)
    squares = float((residuals**2).sum())
    sums = np.zeros((count_units(units), n_runs))
    np.add.at(sums, units, residuals.T)
    documents = effective_clusters(np.bincount(units).astype(np.float64)) if n_questions else 0.0
    freedom = (n_runs - 1) * documents
    if squares <= RELATIVE_TIE * max(1.0, float((runs**2).sum())):  # nothing but rounding
        return Noise(1.0, 0.0, freedom)
    effect = float((sums**2).sum()) / squares * uncertainty(documents, n_runs)
    return Noise(max(1.0, effect), squares / (n_runs - 1) * (1 + 1 / n_runs), freedom)


def uncertainty(documents: float, n_runs: int) -> float:
    """What a design effect is multiplied by for its upper 80 % limit where documents are few; 1 where they are not."""
    from scipy.special import chdtri

    freedom = (n_runs - 1) * documents
    return freedom / float(chdtri(freedom, UPPER_LIMIT)) if documents < FEW_DOCUMENTS else 1.0


def design_effect_p(differences: Differences, noise: Noise) -> float:
    """One-sided p of a mean difference whose noise is shared within documents, in the direction that it has.

    Args:
        differences: (questions,), without NaN.
        noise: With a design effect above 1.

    Returns:
        Of Student's t: the sum of the differences over the root of the sum of their squares, the noise among them
        multiplied by the design effect. 1.0 when no difference is other than 0.
    """
    from scipy.special import stdtr

    squares = float(differences @ differences)
    if squares == 0:
        return 1.0
    t = abs(float(differences.sum())) / math.sqrt(squares + noise.extra_squares(squares))
    return float(stdtr(noise.degrees_of_freedom, -t))


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
