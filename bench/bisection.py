"""The search for the first bad of 32 versions of a noisy service: how often it is right, and what it asks.

    python bench/bisection.py [--seeds 40]

Questions are right or wrong. A share 3 phi of them is unstable and right in each run with a probability of its own,
uniform in (0, 1); two runs then differ on a share phi. From a version on, stable questions that were right are wrong
with a probability of 0.9: so many points of all questions. Versions, questions, tests and limits are those of the
product, 8 are asked at once, and the reference is of 5 runs. A world where a step is left undecided counts as wrong.
Each line ends in `pass` (right in at least 95 %) or `FAIL`; the default takes some 20 seconds of one core.
"""

import argparse

import numpy as np

from rag_eval_pipeline.metrics.early_stop import rate_of_wrong, steady_scores
from rag_eval_pipeline.monitoring.bisection import find_broken, halve

VERSIONS, BATCH, REFERENCE, REPEATED = 32, 8, 5, 0.9
WORLDS = [(n, phi, drop) for n in (60, 200, 500) for phi in (0.0005, 0.02, 0.05, 0.1) for drop in (0.05, 0.15, 0.3)]


def search(rng: np.random.Generator, n: int, phi: float, drop: float) -> tuple[bool | None, int]:
    """Return whether the first bad version is found, None if the fault cannot be told by single questions."""
    good = np.where(rng.random(n) < 3 * phi, rng.random(n), (rng.random(n) < 0.8) * 1.0)
    bad = good.copy()
    stable = rng.permutation(np.flatnonzero(good == 1))
    bad[stable[: round(drop * n)]] = 1 - REPEATED
    first = int(rng.integers(1, VERSIONS))
    runs = (rng.random((REFERENCE, 1, n)) < good) * 1.0
    steady, rate = steady_scores(runs)[0], rate_of_wrong(runs)
    asked = 0

    def ask(version, places, is_enough):
        nonlocal asked
        rates = (bad if version >= first else good)[list(places)]
        wrong = np.zeros(0, dtype=bool)
        for start in range(0, rates.size, BATCH):
            part = rates[start : start + BATCH]
            wrong = np.append(wrong, rng.random(part.size) >= part)
            if is_enough(wrong):
                break
        asked += wrong.size
        return wrong

    order = rng.permutation(np.flatnonzero(~np.isnan(steady))).tolist()
    broken = find_broken(lambda *one: ask(VERSIONS - 1, *one), order, rate, BATCH)
    if broken is None:
        return None, asked

    def decide(version):
        decision = broken.decide(lambda *one: ask(version, *one))[0]
        return {"regression": "bad", "pass": "good", "undecided": "skipped"}[decision]

    is_good = decide(0) == "good"
    _, found, skipped = halve(VERSIONS, decide)
    return is_good and found == first and not skipped, asked


def main() -> None:
    """Print a line for each world."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=40)
    args = parser.parse_args()
    for n, phi, drop in WORLDS:
        results = [search(np.random.default_rng(seed), n, phi, drop) for seed in range(args.seeds)]
        decided = [(is_right, asked) for is_right, asked in results if is_right is not None]
        right = sum(is_right for is_right, _ in decided)
        asked = np.median([asked for _, asked in decided]) if decided else 0
        print(
            f"{n} questions, phi {phi:.2%}, {100 * drop:.0f} points: right {right} of {len(decided)}, {asked:.0f} "
            f"questions asked at the median; {args.seeds - len(decided)} need all questions  "
            f"{'pass' if right >= 0.95 * len(decided) else 'FAIL'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
