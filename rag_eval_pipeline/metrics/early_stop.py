"""A sequential test of a few questions: stop as soon as a drop is sure, or a large one is excluded.

It counts, among questions that every reference run answered alike and right, those that are wrong now. While nothing
has changed, each is wrong with a small probability that is measured on the reference runs. After each batch the count
is compared with two limits, which are found exactly: by the distribution of the count over all looks.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.intervals import Values

Decision = Literal["regression", "pass", "undecided"]
FALSE_ALARMS = 0.001  # over all looks of one canary
MISSED = 0.05  # probability of passing although the share DROP is wrong
DROP = 0.15  # share of the questions that a pass excludes
RATE_MIN = 0.01  # of the probability that an unchanged system fails a question, however steady it looked


class Look(NamedTuple):
    """The limits after so many questions: a count that passes or less, and one that is a regression or more."""

    asked: int
    pass_at: int | None
    stop_at: int | None

    def decide(self, wrong: int) -> Decision:
        """Return what a count of wrong answers means."""
        if self.stop_at is not None and wrong >= self.stop_at:
            return "regression"
        return "pass" if self.pass_at is not None and wrong <= self.pass_at else "undecided"


def plan_looks(
    questions: int, batch: int, rate: float, *, rounds: int = 1, drop: float = DROP, missed: float = MISSED
) -> list[Look]:
    """Return the limits after each batch.

    The probability of a regression at any look is at most `FALSE_ALARMS` while each question is wrong, independently of
    the others, with a probability of at most `rate`; that of a pass is at most `missed` if it is `drop` or more. Each
    look may use up its share of both. Neither bound counts on the other limit having stopped the test.

    Args:
        rounds: How often all questions are asked; no batch has questions of two rounds.
    """
    sizes = [min(batch, questions - start) for start in range(0, questions, batch)] * rounds
    asked = np.cumsum(sizes).tolist()
    budgets = [count / (questions * rounds) for count in asked]
    stops = _limits(sizes, rate, [FALSE_ALARMS * one for one in budgets])
    # Passing is the same of right answers: many of them are improbable after a drop.
    passes = _limits(sizes, 1 - drop, [missed * one for one in budgets])
    return [
        Look(n, None if right is None or rate >= drop else n - right, stop)
        for n, stop, right in zip(asked, stops, passes, strict=True)
    ]


def _limits(sizes: Sequence[int], rate: float, budgets: Sequence[float]) -> list[int | None]:
    """Return the smallest count for each look so that the probability of reaching one so far is within its budget."""
    running, used, found = np.ones(1), 0.0, list[int | None]()
    for size, budget in zip(sizes, budgets, strict=True):
        for _ in range(size):
            running = np.append(running * (1 - rate), 0.0) + np.append(0.0, running * rate)
        tails = np.cumsum(running[::-1])[::-1]  # at least so many
        limit = next((count for count, tail in enumerate(tails) if used + tail <= budget), None)
        found.append(limit)
        if limit is not None:
            used += tails[limit]
            running[limit:] = 0.0
    return found


def steady_scores(runs: NDArray[np.float64]) -> Values:
    """Return the score that all runs agree on, by metric and question; NaN if they differ, if it is 0 or is missing.

    Args:
        runs: (runs, metrics, questions); NaN where there is no score.
    """
    first = runs[0]
    found: Values = np.where((runs == first).all(axis=0) & (first > 0), first, np.nan)
    return found


def find_fallen(steady: Values, now: Values) -> NDArray[np.bool_]:
    """Return which steady scores are gone or at most half of what they were: (metrics, questions).

    A question with one of them is wrong.
    """
    return np.asarray(~np.isnan(steady) & ~(now > steady / 2))


def rate_of_wrong(runs: NDArray[np.float64]) -> float | None:
    """Return how often an unchanged system fails a question that was steady: each run against the others.

    One more failure than was seen is counted, so that few runs do not promise too much. None with a single run.
    """
    if len(runs) < 2:
        return None
    wrong = steady_count = 0
    for number, run in enumerate(runs):
        steady = steady_scores(np.delete(runs, number, axis=0))
        wrong += int(find_fallen(steady, run).any(axis=0).sum())
        steady_count += int((~np.isnan(steady)).any(axis=0).sum())
    return max(RATE_MIN, (wrong + 1) / (steady_count + 1))
