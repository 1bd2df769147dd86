"""The pinned runs that tonight is compared with: how many, how steady they were, and a week against them.

A baseline is pinned by a person and never rolls: a slow decline would pull it along, and the luck of a single run stays
in every comparison with it, tonight's and the rerun's alike.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from rag_eval_pipeline.metrics.flags import Confirmation

BASELINE_RUNS = 5  # with one, false alerts are ten times as many: its luck fails tonight and the rerun together
FLIP_SHARE_MAX = 0.10  # the error rates of the procedure were simulated up to here
WEEK_NIGHTS = 7


def first_confirmation(n_baseline_runs: int, *, is_deterministic: bool = False) -> Confirmation:
    """What a flag waits for before its rerun: nothing, the baseline, or the rerun.

    Args:
        n_baseline_runs: Runs that are pinned; the first nights collect them, or they are run at once.
        is_deterministic: The system gives the same answers every night: one run stands for all, and a rerun would
            confirm every change.

    Returns:
        `not_needed`, `provisional` (a verdict that never alerts) or `pending`.
    """
    if is_deterministic:
        return "not_needed"
    return "provisional" if n_baseline_runs < BASELINE_RUNS else "pending"


def flip_share(runs: Sequence[Sequence[float | None]]) -> float | None:
    """The share of questions whose score differs between two runs of an unchanged system, over all pairs of runs.

    Args:
        runs: A binary metric's scores (exact match) in the baseline runs; same questions, same order.

    Returns:
        In [0, 1]. None without two runs that have a question in common. Above 0.10 the procedure's error rates are not
        known; see `flip_sentence`.

    Raises:
        ValueError: Runs of different lengths.
    """
    if len({len(run) for run in runs}) > 1:
        raise ValueError(f"expected runs over the same questions, found {sorted({len(run) for run in runs})}")
    scores = [np.array(run, dtype=np.float64) for run in runs]  # None becomes NaN
    differences = [one - other for one, other in combinations(scores, 2)]
    n_pairs = sum(int((~np.isnan(difference)).sum()) for difference in differences)
    n_flipped = sum(int((np.nan_to_num(difference) != 0).sum()) for difference in differences)
    return n_flipped / n_pairs if n_pairs else None


def flip_sentence(share: float | None) -> str:
    """How steady the system was, as a reader is told beside its verdicts."""
    if share is None:
        return "How much the answers differ between two runs is not known: there are no two baseline runs."
    shown = f"{100 * share:.1f} % of the answers differ between two runs of the unchanged system"
    if share > FLIP_SHARE_MAX:
        return f"{shown}; above {100 * FLIP_SHARE_MAX:g} % nobody knows how often a verdict is false."
    return f"{shown}."


def weekly_scores(nights: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean of seven nights, question by question, to be compared with the baseline like one night.

    Args:
        nights: One metric's scores; same questions, same order.

    Returns:
        One a question; None where any of the nights has no score, so that every question weighs the same.

    Raises:
        ValueError: Another number of nights than seven, or nights of different lengths.
    """
    if len(nights) != WEEK_NIGHTS:
        raise ValueError(f"expected {WEEK_NIGHTS} nights, found {len(nights)}")
    means: list[float | None] = []
    for scores in zip(*nights, strict=True):
        known = [score for score in scores if score is not None]
        # From the first night on, so that nights that agree have exactly their score as mean.
        deviations = sum(score - known[0] for score in known) if known else 0.0
        means.append(known[0] + deviations / len(scores) if len(known) == len(scores) else None)
    return means
