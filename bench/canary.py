"""The canary on simulated systems: false stops where nothing changed, and questions until a drop is sure.

    python bench/canary.py [--repetitions 2000] [--seed 30]

Questions are right or wrong. A share 3 phi of them is unstable and right in each run with a probability of its own,
uniform in (0, 1); two runs then differ on a share phi. The canary asks 30 of those that 5 runs had right, 8 at once,
with the limits and the measured rate of the product. A drop makes stable, right questions wrong for good: 15 points of
all questions. Each line ends in `pass` or `FAIL`; the default takes some 75 seconds of one core.
"""

import argparse

import numpy as np

from rag_eval_pipeline.metrics.early_stop import (
    FALSE_ALARMS,
    find_fallen,
    plan_looks,
    rate_of_wrong,
    steady_scores,
)

QUESTIONS, BATCH, REFERENCE, DROP = 30, 8, 5, 0.15
WORLDS = [(n, phi, right) for n in (60, 200, 500) for phi in (0.0005, 0.02, 0.05, 0.1) for right in (0.6, 0.9)]


def canary(rng: np.random.Generator, rates: np.ndarray, now: np.ndarray) -> tuple[str, int]:
    """Return the decision and the questions asked."""
    runs = (rng.random((REFERENCE, 1, rates.size)) < rates) * 1.0
    steady, rate = steady_scores(runs), rate_of_wrong(runs)
    order = rng.permutation(np.flatnonzero(~np.isnan(steady[0])))[:QUESTIONS]
    tonight = (rng.random((1, rates.size)) < now) * 1.0
    wrong = find_fallen(steady, tonight).any(axis=0)[order]
    decision, asked = "undecided", 0
    for look in plan_looks(order.size, BATCH, rate) if order.size and rate is not None else ():
        decision, asked = look.decide(int(wrong[: look.asked].sum())), look.asked
        if decision != "undecided":
            break
    return decision, asked


def main() -> None:
    """Print a line for each world."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=30)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    stops = total = 0
    for n, phi, right in WORLDS:
        false = passed = 0
        until = []
        for number in range(args.repetitions):
            stable = (rng.random(n) < right) * 1.0
            rates = np.where(rng.random(n) < 3 * phi, rng.random(n), stable)
            decision, _ = canary(rng, rates, rates)
            false += decision == "regression"
            passed += decision == "pass"
            if number < args.repetitions // 10:
                fallen = rng.permutation(np.flatnonzero(rates == 1))[: round(DROP * n)]
                now = rates.copy()
                now[fallen] = 0.0
                decision, asked = canary(rng, rates, now)
                until.append(asked if decision == "regression" else np.inf)
        stops, total, median = stops + false, total + args.repetitions, np.median(until)
        print(
            f"{n} questions, phi {phi:.2%}, {right:.0%} right: false stops {false} of {args.repetitions}, passed "
            f"{passed / args.repetitions:.0%}; a drop of 15 points is sure after {median:.0f} at the median, found "
            f"{np.isfinite(until).mean():.0%}  {'pass' if median <= QUESTIONS else 'FAIL'}",
            flush=True,
        )
    word = "pass" if stops <= FALSE_ALARMS * total else "FAIL"
    print(f"{stops} false stops of {total}, at most {FALSE_ALARMS * total:.0f} are due  {word}")


if __name__ == "__main__":
    main()
