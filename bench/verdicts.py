"""The nightly verdict on simulated nights: false alarms, power, churn, equivalence and documents, against what is due.

    python bench/verdicts.py [--years 2] [--repetitions 100] [--seed 20000] [--shared ../shared/oracles]

Every decision is made by the product's own functions; only the nights are simulated (`simulated_nights.py` has the
model). A night has 30 comparisons: 3 systems on 10 sets of 50 to 2,000 questions, 12 metrics each. Each line ends in
`pass`; in `open` where it misses what is due by less than its own sampling error, and more years or repetitions would
tell; or in `FAIL`. The default takes some four minutes of one core. The shares of nights and the reruns that are due
were simulated before, eight years a row, of changes for the worse alone.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri
from simulated_nights import NAMES, Pool, Scores, System, changed, new_system, real_pool, runs, synthetic_pool

from rag_eval_pipeline.metrics.intervals import Interval, number_units
from rag_eval_pipeline.metrics.significance import (
    Noise,
    critical_value,
    exact_sign_flip_p,
    holm,
    needed_flips,
    paired_interval,
    run_noise,
    sign_flip_p_values,
    unit_sums,
)
from rag_eval_pipeline.metrics.verdicts import (
    BASELINE_RUNS,
    ROUNDING,
    RULES,
    ComparedMetric,
    Evidence,
    alerts,
    compare,
    confirm_flags,
    decide,
    flip_share,
    is_flagged,
    night_state,
)

SIZES = (50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000)
N_SYSTEMS = 3
NIGHTS = 365
NIGHTS_AT_ONCE = 73
# Nights are looked at in full only where something could be flagged: eleven differences that agree, none of them five
# times as large as another, are 2.47 standard errors from 0, and 1,999 signs find one in 1,200 more than 9 times with
# a probability below 1e-4.
SCREEN_Z = 2.4
SCREEN_FLIPS = 1999
SCREEN_P = 0.005
WORSE, BETTER = "regressed", "improved"


def word(value: float, low: float, high: float, error: float) -> str:
    """Whether a measured value is where it is due, or at least not surely elsewhere."""
    if low <= value <= high:
        return "pass"
    return "open" if low - error <= value <= high + error else "FAIL"


def pool_of(rng: np.random.Generator, shared: Path | None) -> Pool:
    return synthetic_pool(rng) if shared is None else real_pool(shared)


class Baseline(NamedTuple):
    """The pinned runs, and what is known of their noise: a design effect a metric where questions share documents."""

    runs: np.ndarray
    mean: np.ndarray
    clusters: list[str] | None
    noise: list[Noise | None]


def pinned(rng: np.random.Generator, system: System) -> Baseline:
    found, clusters = runs(rng, system, BASELINE_RUNS), system.clusters
    noise: list[Noise | None] = [None] * len(NAMES)
    if clusters is not None:
        units = number_units(clusters, len(clusters))
        noise = [run_noise(found[:, metric], units) for metric in range(len(NAMES))]
    return Baseline(found, found.mean(axis=0), clusters, noise)


def look(tonight: Scores, baseline: Baseline, seed: int) -> dict[str, Evidence] | None:
    """The product's evidence; None where nothing is flagged, most often seen at a glance."""
    differences = tonight - baseline.mean
    sums, squares = np.abs(differences.sum(axis=1)), (differences**2).sum(axis=1)
    limits, drawn = np.full(len(NAMES), SCREEN_Z), np.full(len(NAMES), True)
    for metric, noise in enumerate(baseline.noise):
        if noise is not None and noise.design_effect > 1:
            limits[metric] = critical_value(RULES.alpha / 2 / len(NAMES), noise)
            squares[metric] += noise.extra_squares(squares[metric])
            drawn[metric] = False
    could = sums >= np.maximum((RULES.min_effect - ROUNDING) * tonight.shape[1], limits * np.sqrt(squares))
    could &= squares > 0
    if not could.any():
        return None
    if not (could & ~drawn).any():
        quick = sign_flip_p_values(differences[could].T, seed=seed, flips=SCREEN_FLIPS)
        if min(p for p in quick if p is not None) > SCREEN_P:
            return None
    metrics = [ComparedMetric(name, tonight[i], list(baseline.runs[:, i])) for i, name in enumerate(NAMES)]
    found = compare(metrics, seed=seed, clusters=baseline.clusters)
    return found if any(is_flagged(one) for one in found.values()) else None


def confirmed(
    rng: np.random.Generator, system: System, first: dict[str, Evidence], baseline: Baseline
) -> dict[str, str]:
    """What one rerun says of each flagged metric; the metrics that were not flagged are not asked about."""
    rerun = runs(rng, system, 1)[0]
    flagged = [i for i, name in enumerate(NAMES) if is_flagged(first[name])]
    metrics = [ComparedMetric(NAMES[i], rerun[i], list(baseline.runs[:, i])) for i in flagged]
    return confirm_flags(first, compare(metrics, seed=int(rng.integers(2**63)), clusters=baseline.clusters))


def is_inside(interval: Interval, margin: float) -> bool:
    return -margin < interval.low and interval.high < margin


def direction(evidence: Evidence) -> str:
    return BETTER if (evidence.estimate > 0) == evidence.higher_is_better else WORSE


class Quiet(NamedTuple):
    """What unchanged systems brought, by direction: (nights) whether any was flagged, and alerts of each night."""

    flagged: dict[str, np.ndarray]
    reruns: dict[str, int]
    alerted: dict[str, np.ndarray]
    flips: float


def quiet_year(
    rng: np.random.Generator, phi: float, pool: Pool, nights: int, n_documents: int | None = None, icc: float = 0.0
) -> Quiet:
    flagged, alerted = ({side: np.zeros(nights, dtype=int) for side in (WORSE, BETTER)} for _ in range(2))
    shares = []
    for n in SIZES * N_SYSTEMS:
        system = new_system(rng, n, phi, pool)
        if n_documents is not None:
            system = system._replace(documents=np.arange(n) % n_documents, icc=icc)
        baseline = pinned(rng, system)
        shares.append(flip_share(list(baseline.runs[:, 0])))
        history = {name: ["unflagged"] * nights for name in NAMES}
        for start in range(0, nights, NIGHTS_AT_ONCE):
            for night, tonight in enumerate(runs(rng, system, min(NIGHTS_AT_ONCE, nights - start)), start=start):
                first = look(tonight, baseline, int(rng.integers(2**63)))
                if first is None:
                    continue
                for side in {direction(one) for one in first.values() if is_flagged(one)}:
                    flagged[side][night] += 1
                for name, confirmation in confirmed(rng, system, first, baseline).items():
                    history[name][night] = night_state(*decide(first[name], confirmation=confirmation))
        told: dict[int, set[str]] = defaultdict(set)
        for states in history.values():
            for night in np.flatnonzero(alerts(states)):
                told[night].add(states[night])
        for night, states in told.items():
            for side in states:
                alerted[side][night] += 1  # a comparison alerts once, however many of its metrics moved together
    return Quiet(flagged, {side: int(found.sum()) for side, found in flagged.items()}, alerted, float(np.mean(shares)))


def poisson_interval(count: int) -> tuple[float, float]:
    return (chdtri(2 * count, 0.975) / 2 if count else 0.0, chdtri(2 * count + 2, 0.025) / 2)


def false_alarms(seeds: Sequence[int], years: int, nights: int, shared: Path | None, shares: Sequence[float]) -> None:
    # Nights with a first flag, reruns a year, and the most alerts a year.
    due = {0.0: (0.0, 0.0, 0.0), 0.02: (0.0130, 4.8, 0.80), 0.05: (0.0627, 23.5, 0.80), 0.10: (0.0928, 35.9, 0.80)}
    n_years = years * len(seeds)
    print(f"\nUnchanged systems, 30 comparisons a night, {n_years} x {nights} nights a row; in brackets what is due")
    print(f"  {'phi':>5}{'seen':>7}  {'':10}{'nights flagged':>20}{'reruns a year':>16}{'alerts a year (95 %)':>26}"
          f"{'at most':>9}{'30 nights':>11}")  # fmt: skip
    for phi, (nights_due, reruns_due, limit) in due.items():
        if shares and phi not in shares:
            continue
        found = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            pool = pool_of(rng, shared)
            found += [quiet_year(rng, phi, pool, nights) for _ in range(years if phi else 1)]
        total = len(found) * nights / NIGHTS
        for side in (WORSE, BETTER):
            flagged = float(np.mean([(year.flagged[side] > 0).mean() for year in found]))
            reruns = sum(year.reruns[side] for year in found) / total
            count = sum(int(year.alerted[side].sum()) for year in found)
            blocks = [year.alerted[side][at : at + 30].any() for year in found for at in range(0, nights - 29, 30)]
            low, high = (bound / total for bound in poisson_interval(count))
            ends = word(count / total, 0.0, limit, count / total - low)
            if phi == 0:
                ends = "pass" if count == reruns == 0 else "FAIL"
            dues = ("", "") if side == BETTER else (f" ({nights_due:.2%})", f" ({reruns_due})")
            print(
                f"  {phi:5.0%}{np.mean([year.flips for year in found]):7.1%}  {side:10}{f'{flagged:.2%}{dues[0]}':>20}"
                f"{f'{reruns:.1f}{dues[1]}':>16}{f'{count / total:.2f} ({low:.2f}-{high:.2f})':>26}{limit:9.2f}"
                f"{f'{sum(blocks)}/{len(blocks)}':>11}   {ends}",
                flush=True,
            )


INDEPENDENT_AT_MOST = 1.2  # alerts a year
DETECTABLE_AT_MOST = 1.6  # times the drop that many documents show


def shared_noise(rng: np.random.Generator, years: int, nights: int, pool: Pool) -> None:
    """Alerts a year for the worse where questions share documents, and noise with them."""
    print(f"\nUnchanged systems whose questions share documents, {years} x {nights} nights a cell, for the worse")
    print(f"  {'phi':>5}{'documents':>11}{'ICC':>6}{'alerts a year (95 %)':>26}{'of independent noise':>22}")
    for phi in (0.02, 0.05, 0.10):
        for n_documents in (3, 12, 50):
            independent = 0.0
            for icc in (0.0, 0.1, 0.3, 0.6):
                # More of independent noise, which the others are divided by.
                found = [
                    quiet_year(rng, phi, pool, nights, n_documents, icc) for _ in range(years if icc else 3 * years)
                ]
                total = len(found) * nights / NIGHTS
                count = sum(int(year.alerted[WORSE].sum()) for year in found)
                low, high = (bound / total for bound in poisson_interval(count))
                ends, ratio = "", f"{count / total / independent:.1f}" if independent else "-"
                if icc == 0:
                    independent, ratio = count / total, ""
                    ends = word(count / total, 0.0, INDEPENDENT_AT_MOST, count / total - low)
                rate = f"{count / total:.2f} ({low:.2f}-{high:.2f})"
                print(f"  {phi:5.0%}{n_documents:11}{icc:6.1f}{rate:>26}{ratio:>22}   {ends}", flush=True)


def detectable(rng: np.random.Generator, repetitions: int, pool: Pool) -> None:
    """The drop that is confirmed on the first night in four cases of five: 3 documents of 300 questions, 300 of 3."""
    n, wanted = 900, 0.8
    print(f"\nThe drop of EM that is confirmed on night 1 in 80 %, {n} questions, {repetitions} repetitions a drop")
    print(f"  {'phi':>5}{'300 documents':>15}{'3 documents':>13}{'ratio':>7}{'at most':>9}")
    for phi in (0.02, 0.05, 0.10):
        drops = []
        for n_documents in (300, 3):
            least, most = 5, 100
            while most - least > 1:
                fall = (least + most) // 2
                seen = 0
                for _ in range(repetitions):
                    before = new_system(rng, n, phi, pool)._replace(documents=np.arange(n) % n_documents)
                    after = changed(rng, before, pool, fall=fall)
                    seen += first_confirmed_night(rng, before, after, 1, WORSE) is not None
                least, most = (least, fall) if seen >= wanted * repetitions else (fall, most)
            drops.append(most)
        ratio = drops[1] / drops[0]
        ends = word(ratio, 0.0, DETECTABLE_AT_MOST, 0.1)
        points = [f"{100 * drop / n:.1f}" for drop in drops]
        print(f"  {phi:5.0%}{points[0]:>15}{points[1]:>13}{ratio:7.2f}{DETECTABLE_AT_MOST:9.1f}   {ends}", flush=True)


def shared_equivalence(rng: np.random.Generator, repetitions: int, pool: Pool) -> None:
    """EM called equivalent although it fell by exactly the margin, where documents share noise."""
    print(f"\nEM called equivalent at a true drop of 2 points, 900 questions, {repetitions} repetitions, phi 2 %")
    print(f"  {'documents':>11}{'ICC':>6}{'measured':>10}{'at most':>9}")
    n = 900
    for n_documents in (3, 12, 50):
        for icc in (0.0, 0.3, 0.6):
            inside = 0
            for _ in range(repetitions):
                before = new_system(rng, n, 0.02, pool)._replace(documents=np.arange(n) % n_documents, icc=icc)
                after = changed(rng, before, pool, fall=round(RULES.equivalence_margin * n))
                baseline = pinned(rng, before)
                differences = runs(rng, after, 1)[0, 0] - baseline.mean[0]
                inside += is_inside(paired_interval(differences, noise=baseline.noise[0]), RULES.equivalence_margin)
            share = inside / repetitions
            ends = word(share, 0.0, 0.06, 1.96 * (0.06 * 0.94 / repetitions) ** 0.5)
            print(f"  {n_documents:11}{icc:6.1f}{share:10.3f}{0.06:9.2f}   {ends}", flush=True)


def first_confirmed_night(
    rng: np.random.Generator, before: System, after: System, nights: int, side: str
) -> int | None:
    """The night on which any metric's change to one side is confirmed, from 1; None if not within the nights."""
    baseline = pinned(rng, before)
    for night, tonight in enumerate(runs(rng, after, nights), start=1):
        first = look(tonight, baseline, int(rng.integers(2**63)))
        if first is not None:
            again = confirmed(rng, after, first, baseline)
            if any(state == "confirmed" and direction(first[name]) == side for name, state in again.items()):
                return night
    return None


class Cell(NamedTuple):
    """A row of the table of power: what changes, and the shares that are due on night 1 and within 7, with errors."""

    n: int
    phi: float
    drop: float
    churn: float = 0.0
    first: tuple[float, float] = (0.0, 1.0)
    week: tuple[float, float] = (0.0, 1.0)


CELLS = (
    Cell(50, 0.02, 0.10, first=(0, 0), week=(0, 0)),
    Cell(200, 0.02, 0.05, first=(0.20, 0.34), week=(0.76, 0.88)),
    Cell(200, 0.02, -0.05, first=(0.20, 0.34), week=(0.76, 0.88)),
    Cell(200, 0.05, 0.10, first=(0.83, 0.97), week=(0.95, 1)),
    Cell(500, 0.02, 0.02, first=(0.05, 0.17), week=(0.32, 0.52)),
    Cell(500, 0.02, 0.05, first=(0.95, 1)),
    Cell(500, 0.02, -0.05, first=(0.95, 1)),
    Cell(2000, 0.02, 0.02, first=(0.90, 1)),
    Cell(500, 0.02, 0.0, 0.12, week=(0, 0.02)),
    Cell(2000, 0.02, 0.0, 0.12, week=(0, 0.02)),
)


def power(rng: np.random.Generator, repetitions: int, pool: Pool) -> None:
    print(f"\nA change confirmed on night 1 / within 7, {repetitions} repetitions; a drop below 0 is a rise")
    print(f"  {'n':>6}{'phi':>6}{'drop':>6}{'churn':>7}{'measured':>15}   due")
    for cell in CELLS:
        found = []
        fall = round((max(cell.drop, 0) + cell.churn / 2) * cell.n)
        rise = round((max(-cell.drop, 0) + cell.churn / 2) * cell.n)
        for _ in range(repetitions):
            before = new_system(rng, cell.n, cell.phi, pool)
            after = changed(rng, before, pool, fall=fall, rise=rise)
            found.append(first_confirmed_night(rng, before, after, 7, BETTER if cell.drop < 0 else WORSE))
        shares = [float(np.mean([night is not None and night <= limit for night in found])) for limit in (1, 7)]
        words = set()
        for share, (low, high) in zip(shares, (cell.first, cell.week), strict=True):
            middle = min(max(share, low), high)
            words.add(word(share, low, high, 1.96 * (max(middle * (1 - middle), 0.01) / repetitions) ** 0.5))
        ends = next(one for one in ("FAIL", "open", "pass") if one in words)
        dues = " / ".join(f"{low:.2f}-{high:.2f}" for low, high in (cell.first, cell.week))
        measured = " / ".join(f"{share:.2f}" for share in shares)
        print(
            f"  {cell.n:6}{cell.phi:6.0%}{cell.drop:6.0%}{cell.churn:7.0%}{measured:>15}   {dues}   {ends}", flush=True
        )


def equivalence(rng: np.random.Generator, repetitions: int, pool: Pool) -> None:
    due = {100: (0.0, 0.05), 200: (0.08, 0.20), 500: (0.86, 0.96), 2000: (0.98, 1.0)}
    print(f"\nEM called equivalent (95 % interval inside 2 points), phi 2 %, {repetitions} repetitions")
    print(f"  {'n':>6}{'unchanged':>11}{'due':>11}{'true drop of 2 points':>24}{'and 12 % churn':>16}{'at most':>9}")
    for n, (least, most) in due.items():
        shares = []
        for drop, churn in ((0.0, 0.0), (0.02, 0.0), (0.02, 0.12)):
            inside = 0
            for _ in range(repetitions):
                before = new_system(rng, n, 0.02, pool)
                fall, rise = rng.binomial(n, drop + churn / 2), rng.binomial(n, churn / 2)
                after = changed(rng, before, pool, fall=fall, rise=rise)
                differences = runs(rng, after, 1)[0, 0] - runs(rng, before, BASELINE_RUNS)[:, 0].mean(axis=0)
                inside += is_inside(paired_interval(differences), RULES.equivalence_margin)
            shares.append(inside / repetitions)
        error = 1.96 * (0.06 * 0.94 / repetitions) ** 0.5
        words = [word(shares[0], least, most, 1.96 * (0.25 / repetitions) ** 0.5)]
        words += [word(share, 0.0, 0.06, error) for share in shares[1:]]
        ends = next(one for one in ("FAIL", "open", "pass") if one in words)
        print(
            f"  {n:6}{shares[0]:11.2f}{f'{least:.2f}-{most:.2f}':>11}{shares[1]:24.3f}{shares[2]:16.3f}{0.06:9.2f}   "
            f"{ends}",
            flush=True,
        )


def documents(rng: np.random.Generator, repetitions: int) -> None:
    error = 1.96 * (0.025 * 0.975 / repetitions) ** 0.5
    print(f"\nWhole documents of 5 questions change, as often up as down: p <= .025, {repetitions} repetitions")
    print(f"  {'changes of whole documents':30}{'ignored':>9}{'due':>7}{'by document':>13}{'at most':>9}")
    names = [str(i // 5) for i in range(500)]
    for whole, ignored in ((0.5, 0.08), (1.0, 0.20)):
        found = np.zeros(2)
        for _ in range(repetitions):
            # 100 documents; a third change, each all of its questions or, half of the time, each question for itself.
            moved = rng.random(100) < 1 / 3
            together = rng.choice((-1.0, 1.0), (100, 1)) * np.ones((100, 5))
            apart = rng.choice((-1.0, 1.0), (100, 5))
            differences = (moved[:, None] * np.where(rng.random((100, 1)) < whole, together, apart)).ravel()
            for place, clusters in enumerate((None, names)):
                p_value = exact_sign_flip_p(unit_sums(differences[:, None], clusters)[:, 0])
                found[place] += p_value <= 0.025 and differences.sum() < 0
        shares = found / repetitions
        ends = word(shares[1], 0.0, 0.03, error)
        print(f"  {f'{whole:.0%}':30}{shares[0]:9.3f}{ignored:7.2f}{shares[1]:13.3f}{0.03:9.2f}   {ends}", flush=True)
    print("\n  Called equivalent although documents fall by 2 points as a whole")
    print(f"  {'documents':>9}{'questions each':>16}{'ignored':>9}{'by document':>13}{'at most':>9}")
    for n_documents, size in ((20, 25), (100, 5), (400, 5)):
        names = [str(i // size) for i in range(n_documents * size)]
        found = np.zeros(2)
        for _ in range(repetitions // 4):
            differences = -np.repeat(rng.random(n_documents) < 0.02, size).astype(float)
            for place, clusters in enumerate((None, names)):
                found[place] += is_inside(paired_interval(differences, clusters=clusters), RULES.equivalence_margin)
        shares = found / (repetitions // 4)
        ends = word(shares[1], 0.0, 0.06, 1.96 * (0.06 * 0.94 / (repetitions // 4)) ** 0.5)
        print(f"  {n_documents:9}{size:16}{shares[0]:9.3f}{shares[1]:13.3f}{0.06:9.2f}   {ends}", flush=True)


def night_wide(rng: np.random.Generator, pool: Pool) -> None:
    before = new_system(rng, 10_000, 0.02, pool)
    after = changed(rng, before, pool, fall=1000)
    baseline, tonight = runs(rng, before, BASELINE_RUNS), runs(rng, after, 1)[0]
    n_tests = len(NAMES) * len(SIZES) * N_SYSTEMS
    flips = needed_flips(n_tests, alpha=RULES.alpha)
    [p_value] = sign_flip_p_values((tonight[0] - baseline[:, 0]).mean(axis=0)[:, None], seed=1, flips=flips)
    corrected = holm([p_value] + [1.0] * (n_tests - 1))[0]
    ends = "pass" if corrected <= RULES.alpha / 2 else "FAIL"
    print(f"\nn = 10,000, 10 points, Holm over the {n_tests} tests of a night, {flips:,} flips")
    print(f"  corrected p {corrected:.4f}, at most {RULES.alpha / 2:g}   {ends}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=2, help="Years of false alarms a row.")
    parser.add_argument("--nights", type=int, default=NIGHTS, help="Nights of a year; fewer for a quick look.")
    parser.add_argument("--repetitions", type=int, default=100, help="Of a cell of power; of the others, more.")
    parser.add_argument(
        "--seed", type=int, nargs="+", default=[20_000], help="Of false alarms, years for each of them."
    )
    parser.add_argument("--phi", type=float, nargs="*", help="Only these rows of false alarms: 0, 0.02, 0.05, 0.1.")
    parser.add_argument("--tables", nargs="*", help="Only these: alarms, shared, detectable, power, ...")
    parser.add_argument("--shared", type=Path, help="Folder with squad_em_f1: real answers' scores.")
    wanted = parser.parse_args()
    rng = np.random.default_rng(wanted.seed[0])
    pool = pool_of(rng, wanted.shared)
    started = time.process_time()
    tables = {
        "alarms": lambda: false_alarms(wanted.seed, wanted.years, wanted.nights, wanted.shared, wanted.phi or ()),
        "shared": lambda: shared_noise(rng, wanted.years, wanted.nights, pool),
        "detectable": lambda: detectable(rng, wanted.repetitions, pool),
        "power": lambda: power(rng, wanted.repetitions, pool),
        "equivalence": lambda: equivalence(rng, 4 * wanted.repetitions, pool),
        "shared-equivalence": lambda: shared_equivalence(rng, 4 * wanted.repetitions, pool),
        "documents": lambda: documents(rng, 20 * wanted.repetitions),
        "night-wide": lambda: night_wide(rng, pool),
    }
    for name, table in tables.items():
        if not wanted.tables or name in wanted.tables:
            table()
    print(f"\n{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
