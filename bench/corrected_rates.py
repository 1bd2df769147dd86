"""Coverage of corrected rates: how often the 95 % interval has the true rate, on simulated judges and labels.

    python bench/corrected_rates.py [--repetitions 1000] [--seed 30000]

Cells: true rate .5 to .95, sensitivity .75 to .95, specificity .6 to .95, 30 to 300 labels, 100 or 500 answers.
`random` and `offered`: the labels are of these answers, drawn at random, or the second half of them as the question
pages offer them. `other`, `risen`, `fallen`: they are of other answers, whose true rate is the same or ten points below
or above.
Every interval is made by the product's function; Lang and Reiczigel's, of the labels drawn at random, is what is often
done instead. `differ` counts warnings of two systems on which the judge errs alike, and on which it does not
(specificity less by .35).
"""

import argparse
import itertools
import math
import time
from collections import defaultdict

import numpy as np

from rag_eval_pipeline.judges.agreement import Confusion
from rag_eval_pipeline.judges.corrected_rates import (
    LabelledAnswers,
    corrected_rate,
    different_errors,
    labelling_order,
)

RATES, SENSITIVITIES, SPECIFICITIES = (0.5, 0.7, 0.85, 0.95), (0.75, 0.85, 0.95), (0.6, 0.8, 0.95)
LABELS, ANSWERS = (30, 60, 100, 300), (100, 500)
SHIFT = {"other": 0.0, "risen": -0.1, "fallen": 0.1}  # of the labelled answers' true rate
MOST, Z = 0.98, 1.959963984540054


def answers(rng: np.random.Generator, rate: float, errors: tuple[float, float], n: int) -> np.ndarray:
    """Draw (n, 2): whether people and the judge would pass each answer."""
    right = rng.random(n) < rate
    return np.column_stack((right, np.where(right, rng.random(n) < errors[0], rng.random(n) > errors[1])))


def labelled(drawn: np.ndarray, n: int, *, offered: bool = False) -> LabelledAnswers:
    """Label n answers, the first ones or half of them as they are offered."""
    first = n // 2 if offered else n
    table, places = Confusion.tally(map(tuple, drawn[:first].tolist())), np.arange(min(n, first))
    if offered:
        left = {str(place): bool(drawn[place, 1]) for place in range(first, len(drawn))}
        while len(places) < n and left:
            chosen = labelling_order(left, table)[: min(25, n - len(places))]
            for name in chosen:
                del left[name]
            places = np.append(places, [int(name) for name in chosen])
            table = Confusion.tally(map(tuple, drawn[places].tolist()))
    return LabelledAnswers(table, len(drawn), int(drawn[:, 1].sum()))


def lang_reiczigel(rate: float, n: int, labels: LabelledAnswers) -> tuple[float, float]:
    """Lang and Reiczigel 2014, equations 6, 7, 16 and 17."""
    tp, fn, fp, tn = labels.table
    se, sp = (tp + 1) / (tp + fn + 2), (tn + 1) / (fp + tn + 2)
    q, youden = (rate * n + Z * Z / 2) / (n + Z * Z), se + sp - 1
    if youden <= 0:
        return 0.0, 1.0
    t, v1, v0 = (q + sp - 1) / youden, se * (1 - se) / (tp + fn + 2), sp * (1 - sp) / (fp + tn + 2)
    centre = t + 2 * Z * Z * (t * v1 - (1 - t) * v0)
    half = Z * math.sqrt(q * (1 - q) / (n + Z * Z) + t * t * v1 + (1 - t) ** 2 * v0) / youden
    return centre - half, centre + half


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repetitions", type=int, default=1000)
    options.add_argument("--seed", type=int, default=30_000)
    asked = options.parse_args()
    started, rng = time.monotonic(), np.random.default_rng(asked.seed)
    hits: defaultdict[tuple[str, int], list[float]] = defaultdict(list)  # kind and labels -> coverage of each cell
    widths: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    cells = list(itertools.product(RATES, SENSITIVITIES, SPECIFICITIES, LABELS, ANSWERS))
    for rate, se, sp, n_labels, n in cells:
        found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(asked.repetitions):
            drawn = answers(rng, rate, (se, sp), n)
            share, own = float(drawn[:, 1].mean()), labelled(drawn, n_labels)
            made = {"random": (own, True), **{
                kind: (labelled(answers(rng, min(MOST, rate + by), (se, sp), max(n, n_labels)), n_labels), False)
                for kind, by in SHIFT.items()
            }}  # fmt: skip
            if number % 2 == 0:  # it takes as long as all others
                made["offered"] = labelled(drawn, n_labels, offered=True), True
            for kind, (labels, is_part) in made.items():
                if (one := corrected_rate(share, n, labels, is_part=is_part)) is not None:
                    found[kind].append(one.interval)
            found["Lang-Reiczigel"].append(lang_reiczigel(share, n, own))
        for kind, ends in found.items():
            low, high = np.clip(np.array(ends).T, 0, 1)
            hits[kind, n_labels].append(float(np.mean((low <= rate) & (rate <= high))))
            widths[kind, n_labels].append(float(np.mean(high - low)))
    print("| labels | of | cells from .93 to .97 | below .93 | lowest | median | highest | mean width |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, n_labels), cover in sorted(hits.items()):
        c = np.array(cover)
        shares = f"{np.mean((c >= 0.93) & (c <= 0.97)):.0%} | {np.mean(c < 0.93):.0%}"
        covered = f"{c.min():.3f} | {np.median(c):.3f} | {c.max():.3f}"
        print(f"| {n_labels} | {kind} | {shares} | {covered} | {np.mean(widths[kind, n_labels]):.2f} |")
    for lost in (0.0, 0.35):
        pairs = (
            {name: labelled(answers(rng, 0.8, (0.9, 0.95 - by), 300), 100) for name, by in (("a", 0.0), ("b", lost))}
            for _ in range(asked.repetitions)
        )
        warned = [different_errors(pair) is not None for pair in pairs]
        print(f"differ: specificity of b less by {lost}: {np.mean(warned):.3f} warned")
    print(f"{len(cells)} cells, {asked.repetitions} repetitions, seed {asked.seed}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
