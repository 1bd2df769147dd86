"""The nightly verdict on simulated nights: false alarms, power, churn, equivalence and document clusters.

    python bench/verdicts.py [--years 2] [--repetitions 100] [--seed 20000] [--shared ../shared/oracles]

Every decision is made by the product's own functions; only the nights are simulated (`simulated_nights.py` has the
model). A night has 30 comparisons: 3 systems on 10 sets of 50 to 2,000 questions, 12 metrics each. The default takes a
few minutes of one core; the expected rates of false alarms, in brackets, come from eight years a row.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri
from simulated_nights import NAMES, Pool, Scores, System, changed, new_system, real_pool, runs, synthetic_pool

from rag_eval_pipeline.metrics.alert_states import alerts, night_state
from rag_eval_pipeline.metrics.baselines import BASELINE_RUNS, flip_share
from rag_eval_pipeline.metrics.corrections import holm
from rag_eval_pipeline.metrics.equivalence import is_inside
from rag_eval_pipeline.metrics.evidence import RULES, ComparedMetric, Evidence, compare
from rag_eval_pipeline.metrics.flags import confirm_flags, is_flagged
from rag_eval_pipeline.metrics.intervals import difference_interval
from rag_eval_pipeline.metrics.significance import needed_flips, sign_flip_p_values
from rag_eval_pipeline.metrics.verdicts import verdict

SIZES = (50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000)
N_SYSTEMS = 3
NIGHTS = 365
NIGHTS_AT_ONCE = 30
SCREEN_FLIPS = 499
SCREEN_P = 0.03  # 15 of 499 signs where a flag needs one in 1,200: probability below 1e-15


def look(tonight: Scores, baseline: np.ndarray, seed: int) -> dict[str, Evidence] | None:
    """The product's evidence; None where a few signs already show that nothing can be flagged."""
    differences = (tonight - baseline).mean(axis=0).T
    large = np.abs(differences.mean(axis=0)) >= RULES.min_effect - 1e-9
    if not large.any():
        return None
    quick = sign_flip_p_values(differences[:, large], seed=seed, flips=SCREEN_FLIPS)
    if min(p for p in quick if p is not None) > SCREEN_P:
        return None
    metrics = [ComparedMetric(name, tonight[i], list(baseline[:, i])) for i, name in enumerate(NAMES)]
    found = compare(metrics, seed=seed)
    return found if any(is_flagged(one) for one in found.values()) else None


def confirmed(
    rng: np.random.Generator, system: System, first: dict[str, Evidence], baseline: np.ndarray
) -> dict[str, str]:
    """What one rerun says of each flagged metric; the metrics that were not flagged are not asked about."""
    rerun = runs(rng, system, 1)[0]
    flagged = [i for i, name in enumerate(NAMES) if is_flagged(first[name])]
    metrics = [ComparedMetric(NAMES[i], rerun[i], list(baseline[:, i])) for i in flagged]
    return confirm_flags(first, compare(metrics, seed=int(rng.integers(2**63))))


class Year(NamedTuple):
    """What a year of unchanged systems brought: counts of nights, reruns, alerts, and 30-night blocks with any."""

    flagged_nights: int
    reruns: int
    falls: int
    rises: int
    blocks: int
    flips: float


def quiet_year(rng: np.random.Generator, phi: float, pool: Pool, nights: int) -> Year:
    flagged, alerted = np.zeros(nights, dtype=bool), np.zeros(nights, dtype=bool)
    reruns = falls = rises = 0
    shares = []
    for n in SIZES * N_SYSTEMS:
        system = new_system(rng, n, phi, pool)
        baseline = runs(rng, system, BASELINE_RUNS)
        shares.append(flip_share(list(baseline[:, 0])))
        history = {name: ["unflagged"] * nights for name in NAMES}
        for start in range(0, nights, NIGHTS_AT_ONCE):
            for night, tonight in enumerate(runs(rng, system, min(NIGHTS_AT_ONCE, nights - start)), start=start):
                first = look(tonight, baseline, int(rng.integers(2**63)))
                if first is None:
                    continue
                flagged[night] = True
                reruns += 1
                for name, confirmation in confirmed(rng, system, first, baseline).items():
                    history[name][night] = night_state(verdict(first[name], confirmation=confirmation))
        told = {name: alerts(states) for name, states in history.items()}
        for night in range(nights):
            # A comparison alerts once, however many of its metrics moved together.
            states = {history[name][night] for name in NAMES if told[name][night]}
            falls += "regressed" in states
            rises += "improved" in states
            alerted[night] |= bool(states)
    blocks = sum(alerted[start : start + 30].any() for start in range(0, nights - 29, 30))
    return Year(int(flagged.sum()), reruns, falls, rises, blocks, float(np.mean(shares)))


def first_confirmed_night(rng: np.random.Generator, before: System, after: System, nights: int) -> int | None:
    """The night on which any metric's fall is confirmed, from 1; None if not within the nights."""
    baseline = runs(rng, before, BASELINE_RUNS)
    for night, tonight in enumerate(runs(rng, after, nights), start=1):
        first = look(tonight, baseline, int(rng.integers(2**63)))
        if first is not None:
            again = confirmed(rng, after, first, baseline)
            if any(state == "confirmed" and first[name].estimate < 0 for name, state in again.items()):
                return night
    return None


def poisson_interval(count: int) -> tuple[float, float]:
    return (chdtri(2 * count, 0.975) / 2 if count else 0.0, chdtri(2 * count + 2, 0.025) / 2)


def false_alarms(rng: np.random.Generator, years: int, nights: int, pool: Pool) -> None:
    expected = {
        0.0: ("0.00 %", "0.0", "0.00-1.84"),
        0.02: ("1.30 %", "4.8", "0.03-0.90"),
        0.05: ("6.27 %", "23.5", "0.28-1.63"),
        0.10: ("9.28 %", "35.9", "0.51-2.14"),
    }
    print(f"\nUnchanged systems, 30 comparisons a night, {years} x {nights} nights a row; expected values in brackets")
    heads = (
        ("nights flagged", 20),
        ("reruns a year", 18),
        ("alerts a year (95 %)", 34),
        ("fell/rose", 11),
        ("blocks", 9),
    )
    print(f"  {'phi':>5}{'seen':>7}" + "".join(f"{head:>{width}}" for head, width in heads))
    for phi, (flagged_then, reruns_then, alerts_then) in expected.items():
        found = [quiet_year(rng, phi, pool, nights) for _ in range(years if phi else 1)]
        total = len(found) * nights / NIGHTS
        count = sum(year.falls + year.rises for year in found)
        low, high = (limit / total for limit in poisson_interval(count))
        flagged = sum(year.flagged_nights for year in found) / (len(found) * nights)
        blocks = f"{sum(year.blocks for year in found)}/{len(found) * (nights // 30)}"
        print(
            f"  {phi:5.0%}{np.mean([year.flips for year in found]):7.1%}{f'{flagged:.2%} ({flagged_then})':>20}"
            f"{f'{sum(year.reruns for year in found) / total:.1f} ({reruns_then})':>18}"
            f"{f'{count / total:.2f} ({low:.2f}-{high:.2f}) ({alerts_then})':>34}"
            f"{f'{sum(year.falls for year in found)}/{sum(year.rises for year in found)}':>11}{blocks:>9}",
            flush=True,
        )


def power(rng: np.random.Generator, repetitions: int, pool: Pool) -> None:
    cells = [
        (50, 0.02, 0.10, 0.0, "0 / 0 / 0"),
        (200, 0.02, 0.05, 0.0, ".27 +-.07 / .58 / .82 +-.06"),
        (200, 0.05, 0.10, 0.0, ".90 / .99 / 1"),
        (500, 0.02, 0.02, 0.0, ".11 / .27 / .42"),
        (500, 0.02, 0.05, 0.0, ">= .95"),
        (2000, 0.02, 0.02, 0.0, ">= .90"),
        (500, 0.02, 0.0, 0.12, "churn alone: <= .02"),
        (2000, 0.02, 0.0, 0.12, "churn alone: <= .02"),
    ]
    error = 1.96 * (0.25 / repetitions) ** 0.5
    print(f"\nA fall confirmed on night 1 / within 3 / within 7, {repetitions} repetitions, +-{error:.2f} at .5")
    print(f"  {'n':>6}{'phi':>6}{'drop':>6}{'churn':>7}{'measured':>20}   expected")
    for n, phi, drop, churn, expected in cells:
        found = []
        for _ in range(repetitions):
            before = new_system(rng, n, phi, pool)
            after = changed(rng, before, pool, fall=round((drop + churn / 2) * n), rise=round(churn / 2 * n))
            found.append(first_confirmed_night(rng, before, after, 7))
        shares = [np.mean([night is not None and night <= limit for night in found]) for limit in (1, 3, 7)]
        measured = " / ".join(f"{share:.2f}" for share in shares)
        print(f"  {n:6}{phi:6.0%}{drop:6.0%}{churn:7.0%}{measured:>20}   {expected}", flush=True)


def equivalence(rng: np.random.Generator, repetitions: int, pool: Pool) -> None:
    expected = {100: "0 ", 200: ".14", 500: ".91", 2000: "1"}
    print(f"\nEM called equivalent (95 % interval inside 2 points), phi 2 %, {repetitions} repetitions")
    print(f"  {'n':>6}{'unchanged':>11}{'expected':>10}{'true drop of 2 points':>24}{'and 12 % churn':>16}   expected")
    for n, unchanged in expected.items():
        shares = []
        for drop, churn in ((0.0, 0.0), (0.02, 0.0), (0.02, 0.12)):
            inside = 0
            for _ in range(repetitions):
                before = new_system(rng, n, 0.02, pool)
                after = changed(
                    rng, before, pool, fall=rng.binomial(n, drop + churn / 2), rise=rng.binomial(n, churn / 2)
                )
                differences = runs(rng, after, 1)[0, 0] - runs(rng, before, BASELINE_RUNS)[:, 0].mean(axis=0)
                inside += is_inside(difference_interval(differences), RULES.equivalence_margin)
            shares.append(inside / repetitions)
        print(f"  {n:6}{shares[0]:11.2f}{unchanged:>10}{shares[1]:24.3f}{shares[2]:16.3f}   <= .06", flush=True)


def clusters(rng: np.random.Generator, repetitions: int) -> None:
    print(
        f"\nWhole documents of 5 questions change, as often up as down: share with p <= .025, {repetitions} repetitions"
    )
    print(f"  {'questions that change together':34}{'ignored':>9}{'expected':>10}{'by document':>13}   expected")
    for whole, expected in ((0.5, ".08"), (1.0, ".20")):
        found = np.zeros(2)
        for _ in range(repetitions):
            # 100 documents; a third change, each all of its questions or, half of the time, each question for itself.
            moved = rng.random(100) < 1 / 3
            together = rng.choice((-1.0, 1.0), (100, 1)) * np.ones((100, 5))
            apart = rng.choice((-1.0, 1.0), (100, 5))
            differences = (moved[:, None] * np.where(rng.random((100, 1)) < whole, together, apart)).reshape(-1, 1)
            names = [str(i // 5) for i in range(500)]
            seed = int(rng.integers(2**63))
            for place, own in enumerate((None, names)):
                [p_value] = sign_flip_p_values(differences, seed=seed, clusters=own, flips=999)
                # One direction: the rate of one side is half of both.
                found[place] += p_value <= 0.025 and differences.sum() < 0
        shares = found / repetitions
        print(f"  {f'{whole:.0%}':34}{shares[0]:9.3f}{expected:>10}{shares[1]:13.3f}   <= .03", flush=True)


def night_wide(rng: np.random.Generator, pool: Pool) -> None:
    before = new_system(rng, 10_000, 0.02, pool)
    after = changed(rng, before, pool, fall=1000)
    baseline, tonight = runs(rng, before, BASELINE_RUNS), runs(rng, after, 1)[0]
    n_tests = len(NAMES) * len(SIZES) * N_SYSTEMS
    flips = needed_flips(n_tests, alpha=RULES.alpha)
    [p_value] = sign_flip_p_values((tonight[0] - baseline[:, 0]).mean(axis=0)[:, None], seed=1, flips=flips)
    corrected = holm([p_value] + [1.0] * (n_tests - 1))[0]
    word = "rejected" if corrected <= RULES.alpha / 2 else "NOT rejected"
    print(f"\nn = 10,000, 10 points, Holm over the {n_tests} tests of a night, {flips:,} flips")
    print(f"  corrected p {corrected:.4f}: {word} (expected: rejected)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=2, help="Years of false alarms a row.")
    parser.add_argument("--nights", type=int, default=NIGHTS, help="Nights of a year; fewer for a quick look.")
    parser.add_argument(
        "--repetitions", type=int, default=100, help="Repetitions of a cell of power; of others, four times."
    )
    parser.add_argument("--seed", type=int, default=20_000)
    parser.add_argument("--shared", type=Path, help="Folder with squad_em_f1: real answers' scores.")
    wanted = parser.parse_args()
    rng = np.random.default_rng(wanted.seed)
    pool = synthetic_pool(rng) if wanted.shared is None else real_pool(wanted.shared)
    started = time.process_time()
    false_alarms(rng, wanted.years, wanted.nights, pool)
    power(rng, wanted.repetitions, pool)
    equivalence(rng, 4 * wanted.repetitions, pool)
    clusters(rng, 4 * wanted.repetitions)
    night_wide(rng, pool)
    print(f"\n{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
