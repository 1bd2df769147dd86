"""The nightly verdict on simulated and real nights: false alarms, shared noise, dips, power, churn and drift.

    python bench/verdicts.py [--tables alarms power ...] [--seed 60000] [--scale 1.0] [--write]

Every decision is the product's own (`metrics.verdicts`, `monitoring.nightly`); only the nights are simulated
(`simulated_nights.py` has the model), but for those of `../shared/data/real_noise`. Each line ends in `pass`, in `open`
where it misses what is due by less than its own sampling error, or in `FAIL`. `--scale` multiplies years and
repetitions; `--write` puts the tables into `docs/explanation/verdicts-figures.md`.
"""

import argparse
import csv
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtr, ndtri
from simulated_nights import NAMES, System, changed, new_system, runs, synthetic_pool

from rag_eval_pipeline.metrics.intervals import number_units
from rag_eval_pipeline.metrics.run_labels import label_test, pair_runs
from rag_eval_pipeline.metrics.verdict_rules import BASELINE_RUNS, CHANGES, FIRST_LOOK, REFERENCE_RUNS, RUNS, Budget
from rag_eval_pipeline.metrics.verdicts import ComparedMetric, compare, decide, is_flagged, rerun_outcome
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "explanation" / "verdicts-figures.md"
REAL = REPOSITORY.parent / "shared" / "data" / "real_noise" / "harbour_nights.csv"
SIZES = (50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000)
PAIRS = 30
SETTINGS = VerdictSettings()
SCREEN_Z = 2.3  # nearer to the mean no p is below 0.01 / 12, which is 3.1 standard errors, 2.7 where skewed most
Runs = np.ndarray  # (runs, metrics, questions)
Answer = Callable[[int], Runs]  # answers again, so many times


def word(value: float, low: float, high: float, error: float = 0.0) -> str:
    """Whether a measured value is where it is due, or at least not surely elsewhere."""
    if low <= value <= high:
        return "pass"
    return "open" if low - error <= value <= high + error else "FAIL"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def poisson_interval(count: float) -> tuple[float, float]:
    return (chdtri(2 * count, 0.975) / 2 if count else 0.0, chdtri(2 * count + 2, 0.025) / 2)


class Pair(NamedTuple):
    """What a night is compared with."""

    reference: Runs
    units: np.ndarray | None
    budget: Budget


def is_conspicuous(pair: Pair, tonight: np.ndarray) -> bool:
    """Whether any metric is flagged, without the rest of the evidence: Holm's first step of the least p."""
    bag = np.concatenate([pair.reference, tonight[np.newaxis]])
    if pair.units is not None:
        width = int(pair.units.max()) + 1
        bag = np.stack([[np.bincount(pair.units, row, width) for row in run] for run in bag])
    moved = (bag[-1] - bag.mean(axis=0)).sum(axis=-1)
    far = np.abs(moved) > SCREEN_Z * np.sqrt(bag.var(axis=0).sum(axis=-1)) + 1e-9
    for metric in np.flatnonzero(far):
        test = label_test(pair_runs(pair.reference[:, metric], tonight[np.newaxis, metric], pair.units))
        if len(far) * min(test.low, test.high) <= FIRST_LOOK:
            return True
    return False


def metrics_of(pair: Pair, current: Runs, names: Sequence[str]) -> list[ComparedMetric]:
    return [ComparedMetric(name, current[:, i].tolist(), pair.reference[:, i].tolist()) for i, name in enumerate(names)]


def decide_night(pair: Pair, tonight: Runs, again: Answer, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Return the metrics that a night confirms as changed, each with its word; reruns follow as in the product."""
    if not is_conspicuous(pair, tonight[0]):
        return {}
    current = tonight
    first = {
        name: found.evidence
        for name, found in compare(
            metrics_of(pair, current, names), units=pair.units, rules=SETTINGS.night_rules(1, pair.budget)
        ).items()
        if is_flagged(found.evidence)
    }
    confirmed: dict[str, str] = {}
    waiting = set(first)
    while waiting and len(current) < RUNS:
        current = np.concatenate([current, again(1)])
        rules = SETTINGS.night_rules(len(current), pair.budget)
        found = compare(metrics_of(pair, current, names), units=pair.units, rules=rules)
        outcomes = {name: rerun_outcome(first[name], found[name].evidence, rules) for name in waiting}
        for name, outcome in outcomes.items():
            kind = decide(found[name].evidence, confirmation=outcome, rules=rules).kind
            if outcome == "confirmed" and kind in CHANGES:
                way = "down" if (found[name].evidence.estimate or 0) < 0 else "up"
                confirmed[name] = f"{kind} {way}"
        waiting = {name for name, outcome in outcomes.items() if outcome == "pending"}
    return confirmed


def pair_of(rng: np.random.Generator, system: System, n_reference: int, budget: Budget) -> Pair:
    units = None if system.clusters is None else number_units(system.clusters, len(system.clusters))
    return Pair(runs(rng, system, n_reference), units, budget)


def asking(rng: np.random.Generator, system: System) -> Answer:
    return lambda number: runs(rng, system, number)


def count_alarms(
    rng: np.random.Generator, systems: Sequence[System], nights: int, n_reference: int, budget: Budget
) -> np.ndarray:
    """Return how many pair-nights of unchanged systems alarm (down, up)."""
    found = np.zeros(2)
    for system in systems:
        pair = pair_of(rng, system, n_reference, budget)
        for tonight in runs(rng, system, nights):
            ways = {word.split()[1] for word in decide_night(pair, tonight[np.newaxis], asking(rng, system)).values()}
            found += ["down" in ways, "up" in ways]
    return found


def alarms(seed: int, scale: float) -> Iterator[str]:
    """(a) False alarms of unchanged systems: questions by themselves."""
    yield f"Unchanged systems, {PAIRS} pairs of {SIZES[0]} to {SIZES[-1]:,} questions, 12 metrics: alarms a year, at"
    yield "the default budget (0.5, of which 0.25 a side) and at 100 times it, where they can be counted."
    yield "| φ | reference | budget a side | years | down (95 %) | up (95 %) | |"
    yield "|---|---|---|---|---|---|---|"
    for phi in (0.02, 0.05, 0.10):
        for n_reference in (BASELINE_RUNS, REFERENCE_RUNS):
            for a_year, nights in ((0.5, 360), (50.0, 360)):
                rng = np.random.default_rng(seed + round(1000 * phi) + n_reference)
                pool, nights = synthetic_pool(rng), max(1, round(nights * scale))
                systems = [new_system(rng, n, phi, pool) for n in SIZES * (PAIRS // len(SIZES))]
                found = count_alarms(rng, systems, nights, n_reference, Budget(a_year, PAIRS))
                years = nights / 365
                shown, ends = [], []
                for count in found:
                    low, high = (bound / years for bound in poisson_interval(count))
                    shown.append(f"{count / years:.2f} ({low:.2f} to {high:.2f})")
                    ends.append(word(count / years, 0, a_year / 2, count / years - low))
                worst = next(one for one in ("FAIL", "open", "pass") if one in ends)
                yield row(f"{phi:.0%}", n_reference, f"{a_year / 2:g}", f"{years:.2g}", *shown, worst)


def shared(seed: int, scale: float) -> Iterator[str]:
    """(b) Noise that documents share."""
    nights, per = round(400 * scale), 5
    level, due = Budget(0.004 * 365, 1), 0.002
    yield f"300 questions on few documents, φ 5 %, {per} systems a cell, {nights} nights each, at a budget of {due}"
    yield "alarms a night and side, so that they can be counted. ICC: chance that a document's questions have one luck."
    yield "| documents | reference | independent | ICC 0.1 | ICC 0.3 | ICC 0.6 | at most | |"
    yield "|---|---|---|---|---|---|---|---|"
    for n_documents in (3, 12, 50):
        for n_reference in (BASELINE_RUNS, REFERENCE_RUNS):
            rates = []
            for icc in (0.0, 0.1, 0.3, 0.6):
                rng = np.random.default_rng(seed + n_documents + round(100 * icc) + n_reference)
                pool = synthetic_pool(rng)
                systems = [
                    new_system(rng, 300, 0.05, pool)._replace(documents=np.arange(300) % n_documents, icc=icc)
                    for _ in range(per)
                ]
                rates.append(count_alarms(rng, systems, nights, n_reference, level).max() / nights / per)
            ends = word(max(rates), 0, due, 2 * (due / nights / per) ** 0.5)
            yield row(n_documents, n_reference, *(f"{rate:.4f}" for rate in rates), due, ends)


def binary_runs(rng: np.random.Generator, chance: np.ndarray, number: int, sd: float = 0.0) -> Runs:
    """Right or wrong answers, (runs, 1, questions); `sd`: of the noise that a whole run shares, in probits."""
    shift = sd * rng.standard_normal((number, 1))
    return (rng.random((number, chance.size)) < ndtr(ndtri(chance) + shift))[:, np.newaxis] * 1.0


def wavering(rng: np.random.Generator, n: int, phi: float, right: float = 0.7) -> np.ndarray:
    """The chance of each question to be right; a share 3 phi of them wavers."""
    chance = (rng.random(n) < right) * 1.0
    unstable = rng.random(n) < 3 * phi
    return np.where(unstable, rng.random(n), chance)


def night_rates(
    rng: np.random.Generator, chance: Callable[[], np.ndarray], sets: int, nights: int, reference: int,
    budget: Budget, sd: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """Return the share of nights with a false alarm (down, up) of one right-or-wrong metric."""
    found = np.zeros(2)
    for _ in range(sets):
        chances = chance()
        pair = Pair(binary_runs(rng, chances, reference, sd), None, budget)
        for tonight in binary_runs(rng, chances, nights, sd):
            ways = decide_night(pair, tonight[np.newaxis], partial(binary_runs, rng, chances, sd=sd), ("EM",))
            found += [any("down" in one for one in ways.values()), any("up" in one for one in ways.values())]
    return found / (sets * nights)


def whole_runs(seed: int, scale: float) -> Iterator[str]:
    """(c) Noise that a whole run shares, against which only the guard helps."""
    sets, nights, budget = round(40 * scale), 100, Budget(0.002 * 365, 1)
    yield f"One metric, {sets} x {nights} nights a cell, at a budget of 0.001 alarms a night and side. A run's luck"
    yield "shifts all chances by a normal number (in probits)."
    yield "| questions | φ | sd of a run | B 5: per 1,000 nights | B 20 | at most | |"
    yield "|---|---|---|---|---|---|---|"
    for n, phi in ((300, 0.05), (200, 0.10)):
        for sd in (0.0, 0.1, 0.3):
            rates = []
            for reference in (BASELINE_RUNS, REFERENCE_RUNS):
                rng = np.random.default_rng(seed + n + round(100 * sd) + reference)
                chance = partial(wavering, rng, n, phi)
                found = night_rates(rng, chance, sets, nights, reference, budget, sd)
                rates.append(1000 * float(found.max()))
            limit = {0.0: 1.0, 0.1: 3.0}.get(sd)
            error = 2 * 1000 * (0.003 / sets / nights) ** 0.5
            ends = "reported" if limit is None else word(rates[1], 0, limit, error)
            yield row(n, f"{phi:.0%}", sd, *(f"{rate:.2f}" for rate in rates), limit or "-", ends)


def dips(seed: int, scale: float) -> Iterator[str]:
    """(d) Rates near 0 and 1."""
    sets, nights, level = round(40 * scale), 25, 0.05
    yield f"Unchanged systems whose questions are all right with one chance: share of {sets * nights:,} nights with"
    yield f"p at most {level} on each side (first look, five reference runs)."
    yield "| questions | rate | worse | better | at most | |"
    yield "|---|---|---|---|---|---|"
    for n, rate in ((500, 0.03), (1000, 0.01), (500, 0.3), (500, 0.97), (1000, 0.99)):
        rng = np.random.default_rng(seed + n + round(1000 * rate))
        found = np.zeros(2)
        for _ in range(sets):
            reference = (rng.random((BASELINE_RUNS, n)) < rate) * 1.0
            for _ in range(nights):
                test = label_test(pair_runs(reference, (rng.random((1, n)) < rate) * 1.0))
                found += [test.low <= level, test.high <= level]
        shares = found / (sets * nights)
        ends = word(float(shares.max()), 0, level, 2 * (level * (1 - level) / sets / nights) ** 0.5)
        yield row(n, rate, *(f"{share:.3f}" for share in shares), level, ends)


def found_share(rng: np.random.Generator, n: int, phi: float, drop: float, reference: int, repetitions: int) -> float:
    """Return how often a drop of EM is confirmed on its first night, as one of 12 metrics of one of 12 pairs."""
    pool, found = synthetic_pool(rng), 0
    for _ in range(repetitions):
        before = new_system(rng, n, phi, pool)
        after = changed(rng, before, pool, fall=round(drop * n))
        pair = pair_of(rng, before, reference, Budget(0.5, 12))
        words = decide_night(pair, runs(rng, after, 1), asking(rng, after))
        found += any(one.endswith("down") and name == "EM" for name, one in words.items())
    return found / repetitions


# (questions, drop): what the former procedure, sign flips against the mean of five runs, found at φ 2 %.
FORMER = {(50, 0.10): 0.0, (100, 0.06): 0.0, (100, 0.10): 0.43, (200, 0.05): 0.27, (500, 0.02): 0.12}
# Questions that it needed for 80 %, and that are due now.
NEEDED = {0.05: (300, 180), 0.03: (620, 372)}


def power(seed: int, scale: float) -> Iterator[str]:
    """(e) What one night finds with its reruns."""
    repetitions = round(50 * scale)
    yield f"A drop of exact match confirmed on its first night, φ 2 %, 12 metrics, 12 pairs, {repetitions} repetitions"
    yield "(error at most ±.14). Former: sign flips against the mean of five runs, 0.01 twice."
    yield "| questions | drop | B 5 | B 20 | former | |"
    yield "|---|---|---|---|---|---|"
    for (n, drop), former in FORMER.items():
        rng = np.random.default_rng(seed + n + round(100 * drop))
        shares = [found_share(rng, n, 0.02, drop, reference, repetitions) for reference in (5, 20)]
        due = 0.85 if n == 50 else former
        ends = word(shares[1], due, 1, 2 * (0.85 * 0.15 / repetitions) ** 0.5)
        yield row(n, f"{100 * drop:g} points", *(f"{share:.2f}" for share in shares), f"{former:.2f}", ends)
    yield ""
    yield "Questions for 80 %, φ 2 %:"
    yield "| drop | B 5 | B 20 | former | at most | |"
    yield "|---|---|---|---|---|---|"
    for drop, (former, due) in NEEDED.items():
        needed = []
        for reference in (5, 20):
            low, high = 20, former
            while high - low > former // 20:
                middle = (low + high) // 2
                rng = np.random.default_rng(seed + middle + reference)
                is_enough = found_share(rng, middle, 0.02, drop, reference, repetitions) >= 0.8
                low, high = (low, middle) if is_enough else (middle, high)
            needed.append(high)
        yield row(f"{100 * drop:g} points", *needed, former, due, word(needed[1], 0, due, former // 20))


def churn(seed: int, scale: float) -> Iterator[str]:
    """(g) Answers that change half each way."""
    repetitions = round(40 * scale)
    yield f"12 % of the answers change for good, half each way, φ 2 %, {repetitions} repetitions, five reference runs."
    yield "| questions | regressed or improved | changed | at most | |"
    yield "|---|---|---|---|---|"
    for n in (200, 500, 2000):
        rng = np.random.default_rng(seed + n)
        pool, wrong, both = synthetic_pool(rng), 0, 0
        for _ in range(repetitions):
            before = new_system(rng, n, 0.02, pool)
            after = changed(rng, before, pool, fall=round(0.06 * n), rise=round(0.06 * n))
            pair = pair_of(rng, before, BASELINE_RUNS, Budget(0.5, 12))
            words = decide_night(pair, runs(rng, after, 1), asking(rng, after)).values()
            wrong += any(not one.startswith("changed") for one in words)
            both += any(one.startswith("changed") for one in words)
        error = 2 * (0.05 * 0.95 / repetitions) ** 0.5
        share = wrong / repetitions
        yield row(n, f"{share:.2f}", f"{both / repetitions:.2f}", 0.02, word(share, 0, 0.02, error))


def drift(seed: int, scale: float) -> Iterator[str]:
    """(h) A decline of a tenth of a point a night, with a reference that takes in quiet nights."""
    repetitions, nights = round(10 * scale), 100
    yield f"A decline of 0.1 points a night, φ 2 %, {repetitions} repetitions: the night that confirms it, and how far"
    yield "it had fallen. Quiet nights join the reference until there are 20."
    yield "| questions | median night | points fallen | not found in 100 nights | |"
    yield "|---|---|---|---|---|"
    for n in (500, 2000):
        rng = np.random.default_rng(seed + n)
        when = []
        for _ in range(repetitions):
            chance = wavering(rng, n, 0.02)
            reference = binary_runs(rng, chance, BASELINE_RUNS)
            falling = rng.permutation(np.flatnonzero(chance == 1))
            for night in range(1, nights + 1):
                now = chance.copy()
                now[falling[: round(0.001 * n * night)]] = 0
                tonight = binary_runs(rng, now, 1)
                pair = Pair(reference, None, Budget(0.5, 12))
                if decide_night(pair, tonight, partial(binary_runs, rng, now), ("EM",)):
                    break
                if len(reference) < REFERENCE_RUNS:
                    reference = np.concatenate([reference, tonight])
            else:
                night = nights + 1
            when.append(night)
        middle, missed = float(np.median(when)), sum(night > nights for night in when)
        yield f"| {n} | {middle:.0f} | {0.1 * middle:.1f} | {missed} of {repetitions} | {word(missed, 0, 0)} |"


REAL_METRICS = ("hit@1", "exact_match", "f1")
REAL_NIGHTS = {  # run: what was changed, its rerun, and the metrics that are due
    15: ("nothing", 16, ()), 16: ("nothing", 15, ()), 17: ("half of the index gone", 18, ("hit@1",)),
    20: ("top_k 3 to 1", 20, ()), 21: ("examples removed from the prompt", 22, ("f1",)),
}  # fmt: skip


def read_real(path: Path = REAL) -> dict[int, np.ndarray]:
    """Return run -> (metrics, questions) of the real nights, NaN where a question failed."""
    rows = list(csv.DictReader(path.open()))
    ids = sorted({row["query_id"] for row in rows}, key=int)
    found = {int(row["run"]): np.full((len(REAL_METRICS), len(ids)), np.nan) for row in rows}
    for row in rows:
        if row["status"] == "ok":
            found[int(row["run"])][:, ids.index(row["query_id"])] = [float(row[name] or "nan") for name in REAL_METRICS]
    return found


def decide_real(nights: dict[int, np.ndarray], night: int, rerun: int) -> tuple[dict[str, float], set[str]]:
    """Return the p of each metric on the first look, and the metrics that the night and its rerun confirm."""
    reference = np.stack([nights[run] for run in range(4, 14)])
    budget = Budget(0.5, 12)

    def look(current: Sequence[int]) -> dict[str, object]:
        metrics = [
            ComparedMetric(name, none_of([nights[run][i] for run in current]), none_of(reference[:, i]))
            for i, name in enumerate(REAL_METRICS)
        ]
        rules = SETTINGS.night_rules(len(current), budget)
        return {name: one.evidence for name, one in compare(metrics, rules=rules).items()}

    first, both = look([night]), look([night, rerun])
    confirmed = {
        name
        for name, one in first.items()
        if is_flagged(one) and rerun_outcome(one, both[name]) == "confirmed"
    }  # fmt: skip
    return {name: one.p_value for name, one in first.items()}, confirmed


def none_of(runs: Sequence[np.ndarray]) -> list[list[float | None]]:
    return [[None if np.isnan(score) else float(score) for score in run] for run in runs]


def real(seed: int, scale: float) -> Iterator[str]:
    """(l) Eighteen nights of a small language model behind a dense retriever."""
    if not REAL.exists():
        yield "Left out: the real nights are not here."
        return
    nights = read_real()
    yield "128 questions, ten quiet runs as reference, the next night of the state as rerun; failures count as such."
    yield "| night | changed | p: " + ", ".join(REAL_METRICS) + " | confirmed | due | |"
    yield "|---|---|---|---|---|---|"
    for night, (what, rerun, due) in REAL_NIGHTS.items():
        values, confirmed = decide_real(nights, night, rerun)
        shown = ", ".join(f"{p:.2g}" for p in values.values())
        ends = "pass" if set(due) <= confirmed and (due or not confirmed) else "FAIL"
        yield row(night, what, shown, ", ".join(sorted(confirmed)) or "nothing", ", ".join(due) or "nothing", ends)


def speed(seed: int, scale: float) -> Iterator[str]:
    """Time of one decision."""
    rng = np.random.default_rng(seed)
    system = new_system(rng, 2000, 0.05, synthetic_pool(rng))
    pair = pair_of(rng, system, REFERENCE_RUNS, Budget(0.5, PAIRS))
    metrics = metrics_of(pair, runs(rng, system, 2), NAMES)
    clock, processor = time.perf_counter(), time.process_time()
    compare(metrics, rules=SETTINGS.night_rules(2, pair.budget))
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    yield f"A night with its rerun, 2,000 questions x 12 metrics x {REFERENCE_RUNS} reference runs, φ 5 %: "
    yield f"{clock:.1f} s by the clock, {processor:.1f} s of one core (aim: below 1 s)."


TABLES = {
    one.__name__: one for one in (alarms, shared, whole_runs, dips, power, churn, drift, real, speed)
}  # fmt: skip


def put_into_page(name: str, block: str) -> None:
    start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    block = re.sub(r"(?m)^([^|\n].*)\n\|", r"\1\n\n|", block)  # a table begins after an empty line
    before, _, rest = PAGE.read_text().partition(start)
    PAGE.write_text(f"{before}{start}{block}{end}{rest.partition(end)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seed", type=int, default=60000)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    arguments = parser.parse_args()
    for name in arguments.tables:
        start, lines = time.perf_counter(), []
        title = (TABLES[name].__doc__ or "").partition(")")[2].strip() or TABLES[name].__doc__
        print(f"\n## {title}")
        for line in TABLES[name](arguments.seed, arguments.scale):
            print(line, flush=True)
            lines.append(line)
        lines.append(f"\nSeed {arguments.seed}, {time.perf_counter() - start:.0f} s.")
        print(lines[-1])
        if arguments.write:
            put_into_page(name, "\n".join(lines))


if __name__ == "__main__":
    main()
