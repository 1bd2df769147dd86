"""Judge or system? Simulated changes of a judge and drops of a system, attributed by the product's own functions.

A judge says yes where an answer's quality, with noise at each judging, is above its threshold; people's labels differ
from that on a tenth of the answers. A bump moves the threshold so that 10 to 20 % of all verdicts change in one
direction; a drop makes so many answers of the system wrong. Each night has one rerun. It is the judge's if the judged
metric is withheld, the system's if its change is confirmed. `python bench/judge_changes.py`
"""

from collections import Counter
from datetime import UTC, datetime
from itertools import product

import numpy as np

from rag_eval_pipeline.judges.judge_changes import check_judge
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.labels import Item
from rag_eval_pipeline.judges.recheck import Judging, choose_answers
from rag_eval_pipeline.metrics.run_labels import label_test, pair_runs
from rag_eval_pipeline.metrics.verdict_rules import Budget

BUDGET = Budget(0.5, 10)
METRICS = 12
ROUNDS, SEED = 60, 1
QUESTIONS, LABELS = 200, 100
APART = 1.3  # standard deviations between quality of right and wrong answers and the threshold
NIGHT = datetime(2026, 11, 18, 2, tzinfo=UTC)


def quality(rng, right):
    return np.where(right, APART, -APART) + rng.normal(size=right.size)


def verdicts(rng, qualities, threshold, noise, runs):
    return 1.0 * (qualities + rng.normal(0, noise, (runs, qualities.size)) > threshold)


def judgings(digest, *drawn):
    return [Judging(digest, "".join(str(int(one)) for one in run)) for run in verdicts(*drawn)]


def one_night(rng, changes, noise, n_reference):
    size = rng.uniform(0.10, 0.20)
    labels = rng.random(LABELS) < 0.6
    labelled = quality(rng, labels)
    given = verdicts(rng, labelled, 0.0, noise, 1)[0] > 0
    names = [str(n) for n in range(LABELS)]
    named = [(Case(name, "?", ("x",), False, name), Item(name, "correctness", None, None)) for name in names]
    kept = choose_answers([(*one, bool(y), bool(v)) for one, y, v in zip(named, labels, given, strict=True)])
    labelled = labelled[[int(one.item.query_id) for one in kept.labels]]
    right = rng.random(QUESTIONS) < 0.8
    answers = quality(rng, right)
    now, threshold = answers, 0.0
    if changes == "judge":
        everything = quality(rng, rng.random(100_000) < 0.7)
        threshold = np.quantile(everything, np.mean(everything <= 0) + rng.choice([-1, 1]) * size)
    else:
        lost = rng.permutation(np.flatnonzero(right & (answers > 0)))[: round(size * QUESTIONS)]
        now = answers.copy()
        now[lost] = quality(rng, np.zeros(lost.size, dtype=bool))
    earlier = judgings(kept.digest, rng, labelled, 0.0, noise, n_reference)
    tonight = judgings(kept.digest, rng, labelled, threshold, noise, 2)
    check = check_judge(kept, tonight, earlier, None, level=BUDGET.a, opened_at=NIGHT)
    runs = [verdicts(rng, one, t, noise, k) for one, t, k in ((answers, 0.0, n_reference), (now, threshold, 2))]
    paired = pair_runs(*runs)
    before, after = (part.mean() for part in paired.means)
    p = label_test(paired)
    is_sure = METRICS * min(p.low, p.high) <= BUDGET.level(2) and paired.is_beyond
    if check.is_unsettled or (is_sure and check.explains("correctness", fell=bool(after < before))):
        return "judge"
    return "system" if is_sure else "neither"


def main():
    rng = np.random.default_rng(SEED)
    print("| changed | reference runs | noise | judge | system | neither |\n|---|---|---|---|---|---|")
    for changes, n_reference, noise in product(("judge", "system"), (5, 20), (0.05, 0.15, 0.3)):
        found = Counter(one_night(rng, changes, noise, n_reference) for _ in range(ROUNDS))
        counts = " | ".join(str(found[name]) for name in ("judge", "system", "neither"))
        print(f"| {changes} | {n_reference} | {noise:g} | {counts} |")


if __name__ == "__main__":
    main()
