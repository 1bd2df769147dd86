"""The watch on simulated nights: false alarms where nothing changes, and nights until a decline is found.

    python bench/watch.py [--minutes 4] [--repetitions 30] [--seed 6]

Questions are right or wrong. A share 3 phi of them is unstable and right in each run with a probability of its own,
uniform in (0, 1); two runs then differ on a share phi. A decline makes stable, right questions wrong for good: all at
once, or as many more each night. 20 runs are the frozen reference; 30 quiet nights pass before a decline. Alarms are
counted at 1 : 100 and 1 : 1,000, where some can be seen; at most one in so many nights is due in each comparison.
"""

import argparse
import time

import numpy as np

from rag_eval_pipeline.metrics.declines import NEWEST_RUNS, Bets, bet, watch
from rag_eval_pipeline.metrics.run_labels import Values, label_test, pair_runs

REFERENCE, QUIET = 20, 30
ALERT_AT = 365 * 30 * 12 * 2 / 0.5  # 30 pairs, 12 metrics, two comparisons, one false alarm in two years
QUIET_ROWS = ((50, 0.05), (100, 0.10), (200, 0.02), (200, 0.0005))
LEVELS = (100, 1_000)
# Questions, phi, points lost at once, and points lost each night.
DECLINES = (
    (200, 0.02, 0.03, 0), (200, 0.05, 0.03, 0), (500, 0.05, 0.02, 0), (500, 0.02, 0.01, 0), (1000, 0.05, 0.01, 0),
    (500, 0.02, 0, 0.001), (500, 0.05, 0, 0.001),
)  # fmt: skip
WITHIN = (1, 3, 7, 14, 28)


def new_rates(rng: np.random.Generator, n: int, phi: float) -> Values:
    return np.where(rng.random(n) < 3 * phi, rng.random(n), (rng.random(n) < 0.75) * 1.0)


def night_bets(runs: Values, night: int, alert_at: float) -> Bets:
    """Compare the run of a night; the first runs are the reference."""
    now = runs[REFERENCE + night :][:1]
    earlier = runs[max(0, REFERENCE + night - NEWEST_RUNS) : REFERENCE + night]
    reference = label_test(pair_runs(runs[:REFERENCE], now))
    return Bets(bet(label_test(pair_runs(earlier, now))), bet(reference, frozen_runs=REFERENCE), alert_at)


def count_alarms(rng: np.random.Generator, n: int, phi: float, seconds: float) -> tuple[int, dict[int, list[int]]]:
    """Return the nights simulated, and the alarms of each comparison at each level."""
    end, nights, found = time.monotonic() + seconds, 0, {level: [0, 0] for level in LEVELS}
    while time.monotonic() < end:
        rates = new_rates(rng, n, phi)
        runs = (rng.random((REFERENCE + 365, n)) < rates) * 1.0
        bets = [night_bets(runs, night, 0.0) for night in range(365)]
        nights += len(bets)
        for level, counts in found.items():
            for side in (0, 1):
                total = 0.0
                for factor in (one[side] for one in bets):
                    total = total if factor is None else (1 + total) * factor
                    if total >= level:
                        counts[side], total = counts[side] + 1, 0.0
    return nights, found


def nights_to_alert(rng: np.random.Generator, n: int, phi: float, at_once: float, nightly: float) -> tuple[int, int]:
    """Return the number of nights until a decline is found (99: not at all), and from where the alert dates it."""
    rates = new_rates(rng, n, phi)
    lost = rng.permutation(np.flatnonzero(rates == 1))
    rows = [rng.random((REFERENCE + QUIET, n)) < rates]
    for night in range(max(WITHIN)):
        now = rates.copy()
        now[lost[: round(n * (at_once + nightly * (night + 1)))]] = 0
        rows.append(rng.random((1, n)) < now)
    runs = np.concatenate(rows) * 1.0
    bets = [night_bets(runs, night, ALERT_AT) for night in range(QUIET + max(WITHIN))]
    first = next(((number, one.since or 0) for number, one in enumerate(watch(bets)) if one.is_alert), None)
    return (99, 0) if first is None else (first[0] + 1 - QUIET, first[1] - QUIET)


def watch_table(*, minutes: float = 4.0, repetitions: int = 30, seed: int = 6) -> str:
    """Return both tables as Markdown."""
    rng = np.random.default_rng(seed)
    head = "| questions, phi | quiet nights | against all nights at 1 : 100, 1 : 1,000 | against the reference | due |"
    lines = [head, "|---|---|---|---|---|"]
    for n, phi in QUIET_ROWS:
        nights, found = count_alarms(rng, n, phi, 60 * minutes / len(QUIET_ROWS))
        seen = [", ".join(str(found[level][side]) for level in LEVELS) for side in (0, 1)]
        due = ", ".join(f"{nights / level:.1f}" for level in LEVELS)
        lines.append(f"| {n}, {100 * phi:g} % | {nights:,} | {seen[0]} | {seen[1]} | at most {due} |")
    within = " / ".join(map(str, WITHIN))
    lines += ["", f"| questions, phi, decline | found within {within} nights | dated to night |", "|---|---|---|"]
    for n, phi, at_once, nightly in DECLINES:
        found_on = np.array([nights_to_alert(rng, n, phi, at_once, nightly) for _ in range(repetitions)])
        shares = " / ".join(f"{np.mean(found_on[:, 0] <= limit):.2f}" for limit in WITHIN)
        what = f"{100 * at_once:g} points" if at_once else f"{100 * nightly:g} points a night"
        since = np.median(found_on[found_on[:, 0] < 99, 1] + 1)
        lines.append(f"| {n}, {100 * phi:g} %, {what} | {shares} | {since:g} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The watch on simulated nights.")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--seed", type=int, default=6)
    print(watch_table(**vars(parser.parse_args())))
