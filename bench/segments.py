"""Segments on simulated nights: drops of one section that the whole does not show, and false alarms of quiet nights.

    python bench/segments.py [--repetitions 60] [--quiet 600] [--seed 61000]

400 questions have twelve metrics (`simulated_nights.py`), eight sections, three types and two languages. A drop makes
stable, right answers of one section wrong for good. A night is found as the product finds it: flagged at 0.01 by its
first run, then decided with its rerun at half of a year's 0.5 false alarms, with 10 pairs: half of it for the segments,
half for the whole. Quiet nights are decided at 0.05 a side, so that there is something to count. Each line ends in
`pass` or `FAIL`; the default takes some five minutes of one core.
"""

import argparse

import numpy as np
from simulated_nights import ANSWER, NAMES, answers, new_system, runs, synthetic_pool

from rag_eval_pipeline.metrics.run_labels import PairedRuns, label_test, pair_runs
from rag_eval_pipeline.metrics.segments import find_segments, segment_changes
from rag_eval_pipeline.metrics.verdict_rules import Budget, Rules
from rag_eval_pipeline.metrics.verdicts import holm, is_sure

N, SECTION = 400, 3
VALUES = {"section": np.arange(N) % 8, "type": np.arange(N) // 8 % 3, "language": np.arange(N) // 24 % 2}
SEGMENTS = find_segments(
    {(name, str(one)): np.flatnonzero(of == one) for name, of in VALUES.items() for one in np.unique(of)}, N
)
FIRST, DECISION, QUIET = 0.01, Budget(0.5, 10, 0.5).level(2), 0.05  # one-sided levels


def paired(reference: np.ndarray, current: np.ndarray) -> dict[str, PairedRuns]:
    return {name: pair_runs(reference[:, i], current[:, i]) for i, name in enumerate(NAMES)}


def segments(metrics: dict[str, PairedRuns], level: float) -> set[str]:
    """The segments that changed for sure."""
    found = segment_changes(metrics, SEGMENTS, Rules(level=level))
    return {one.evidence.segment.name for one in found if is_sure(one.evidence)}


def whole_fell(metrics: dict[str, PairedRuns], level: float) -> bool:
    p_values = holm([label_test(one).low for one in metrics.values()])
    return any(p <= level and one.is_beyond for p, one in zip(p_values, metrics.values(), strict=True))


def power(rng: np.random.Generator, phi: float, n_reference: int, drop: int, repetitions: int) -> tuple[float, float]:
    """Return how often the section is found, and how often the whole."""
    section = whole = 0
    for _ in range(repetitions):
        system = new_system(rng, N, phi, pool := synthetic_pool(rng))
        reference = runs(rng, system, n_reference)
        is_stable = (system.answer_flips == 0) & (system.usual[0] == 1) & (VALUES["section"] == SECTION)
        moved = rng.permutation(np.flatnonzero(is_stable))[:drop]
        system.usual[ANSWER, moved] = answers(rng, np.full(moved.size, False), pool)
        tonight = runs(rng, system, 2)
        first, both = paired(reference, tonight[:1]), paired(reference, tonight)
        section += bool(segments(first, FIRST)) and f"section {SECTION}" in segments(both, DECISION)
        whole += whole_fell(first, FIRST) and whole_fell(both, DECISION)
    return section / repetitions, whole / repetitions


def main() -> None:
    """Print a line for each world."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--quiet", type=int, default=600)
    parser.add_argument("--seed", type=int, default=61000)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    for phi, n_reference, drop in ((0.02, 5, 8), (0.02, 20, 6), (0.05, 20, 8)):
        section, whole = power(rng, phi, n_reference, drop, args.repetitions)
        word = "pass" if section >= 0.8 and whole < 0.3 else "FAIL"
        print(f"phi {phi:.0%}, {n_reference} runs, -{drop} of 50: section {section:.2f}, whole {whole:.2f}  {word}")
    for phi in (0.02, 0.05, 0.10):
        found = 0
        for _ in range(args.quiet):
            nights = runs(rng, new_system(rng, N, phi, synthetic_pool(rng)), 7)
            found += bool(segments(paired(nights[:5], nights[5:]), QUIET))
        word = "pass" if found <= (due := 2 * QUIET * args.quiet) else "FAIL"
        print(f"phi {phi:.0%}: {found} of {args.quiet} quiet nights, at most {due:.0f} are due  {word}")


if __name__ == "__main__":
    main()
