"""How large a drop a benchmark can detect, and how many questions a smaller one takes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rag_eval_pipeline.conversion.stamp import read_stamp
from rag_eval_pipeline.evaluation.means import question_clusters
from rag_eval_pipeline.formats.dataset import EvaluationQuery, open_dataset
from rag_eval_pipeline.metrics.intervals import effective_clusters
from rag_eval_pipeline.metrics.significance import (
    Detection,
    detectable_drop,
    needed_units,
    smallest_detectable_drop,
)
from rag_eval_pipeline.metrics.verdicts import BASELINE_RUNS, Budget
from rag_eval_pipeline.metrics.verdicts import needed_units as units_needed
from rag_eval_pipeline.monitoring.comparison import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.workspace import Workspace

FLIP_SHARES = (0.0, 0.02, 0.05, 0.10)  # of the answers that differ between two runs; above, no rates are known
USUAL = 0.05
WANTED = 0.05  # the drop that people ask for first
# Metrics that are compared where no judge is calibrated: hit@1, hit@5, nDCG, MRR, citations, EM, F1, failure rate.
METRICS = 8
QUESTIONS_MAX = 100_000


class PowerRow(NamedTuple):
    """The drops that a benchmark detects when a share of answers differs between two runs.

    `needed` is how many questions, or documents where these are tested, a drop of 5 points takes; None: too many.
    """

    flip_share: float
    drops: Detection
    needed: int | None


class Power(NamedTuple):
    """The table of a benchmark; `n_groups` are by document, as many as questions where none is shared."""

    n_questions: int
    n_groups: int
    unit: str
    rows: Sequence[PowerRow]

    def record(self) -> dict[str, Any]:
        """Return the table as JSON."""
        rows = [{"flip_share": row.flip_share, **row.drops._asdict(), "needed": row.needed} for row in self.rows]
        counts = {"questions": self.n_questions, "documents": self.n_groups, "unit": self.unit}
        return {**counts, "metrics": METRICS, "runs": BASELINE_RUNS, "wanted": WANTED, "rows": rows}

    def sentence(self, settings: VerdictSettings) -> str:
        """Return a line on what is detected, and how many questions or documents a drop of 5 points takes."""
        if not self.n_questions:
            return "Without questions nothing is detected."
        best, usual = self.rows[0], next((row for row in self.rows if row.flip_share == USUAL), self.rows[0])
        wanted, needed = f"{100 * WANTED:g} points", _count(best.needed, self.unit)
        noise = f"when {100 * USUAL:g} % of the answers differ between two runs"
        if self.unit == "documents":
            needed, noise = f"{needed} of this size", ""
        if self.n_questions < settings.min_questions:
            few = f"{self.n_questions} question{'s are' if self.n_questions > 1 else ' is'} too few for a verdict"
            more = f", {_count(usual.needed)} {noise}" if noise else ""
            return f"{few} ({settings.min_questions} are needed); a drop of {wanted} takes {needed}{more}."
        shown = f"{self._counted()} detect drops of"
        more = f"; {_points(usual.drops.usually)} and {_count(usual.needed)} {noise}" if noise else ""
        return f"{shown} {_points(best.drops.at_best)} at best, and {wanted} take {needed}{more}."

    def warning(self, benchmark: str, settings: VerdictSettings, *, is_deterministic: bool | None = None) -> str | None:
        """Return that too few documents share the questions for any change to be shown, and what to do; else None.

        `is_deterministic` is of the system, None if it is not known yet.
        """
        level = Budget(settings.false_alarms_a_year).level(2)
        needed = units_needed(METRICS, level=level, reference=BASELINE_RUNS, runs=2)
        if is_deterministic or self.n_groups >= needed:
            return None
        unless = " (unless the system is deterministic)" if is_deterministic is None else ""
        few = f"{self.n_questions} questions in {self.n_groups} groups by document, and {needed} groups are needed"
        return f"{benchmark}: no change can be confirmed by {BASELINE_RUNS} pinned runs{unless}: {few}. Add documents."

    def _counted(self) -> str:
        is_shared = self.n_groups < self.n_questions
        return f"{self.n_questions} questions" + (f" in {self.n_groups} groups by document" if is_shared else "")

    def lines(self) -> Iterator[str]:
        """Yield the table as lines for a terminal."""
        unit = "whole documents" if self.unit == "documents" else "questions"
        yield f"{self._counted()}; {unit} are tested, with {METRICS} metrics and {BASELINE_RUNS} pinned runs."
        yield f"{'answers that differ':>20}{'detected at best':>18}{'on 4 nights of 5':>18}{'5 points take':>18}"
        for row in self.rows:
            shares = f"{100 * row.flip_share:g} %", _points(row.drops.at_best), _points(row.drops.usually)
            yield f"{shares[0]:>20}{shares[1]:>18}{shares[2]:>18}{_count(row.needed, self.unit):>18}"


def power_of(workspace: Workspace, benchmark: str) -> Power:
    """Return what a converted benchmark can detect."""
    stamp = read_stamp(workspace.existing_benchmark(benchmark))
    dataset = open_dataset(workspace.eval_json(stamp.dataset_id, stamp.dataset_version))
    return power_of_questions(dataset.queries, read_verdict_settings(workspace))


def power_of_questions(queries: Sequence[EvaluationQuery], settings: VerdictSettings) -> Power:
    """Return what questions can detect."""
    return power(list(Counter(question_clusters(queries).values()).values()), settings)


def power(sizes: Sequence[int], settings: VerdictSettings) -> Power:
    """Return what groups of questions by document can detect; `sizes` are those of the groups."""
    n_questions, n_groups = sum(sizes), len(sizes)
    by_document = False
    alpha, least = settings.alpha, settings.min_effect
    documents = None if n_groups == n_questions else effective_clusters(np.array(sizes, dtype=np.float64))

    def row(share: float) -> PowerRow:
        if by_document:
            best = smallest_detectable_drop(sizes, n_metrics=METRICS, alpha=alpha, min_effect=least) if sizes else None
            return PowerRow(share, Detection(best, None), round(needed_units(METRICS, alpha=settings.alpha) / WANTED))

        found = partial(
            detectable_drop, flip_share=share, n_metrics=METRICS, n_runs=BASELINE_RUNS, n_documents=documents,
            alpha=alpha, min_effect=least,
        )  # fmt: skip
        return PowerRow(share, found(n_questions), _needed(found))

    shares = FLIP_SHARES[:1] if by_document or not sizes else FLIP_SHARES
    rows = [row(share) for share in shares]
    return Power(n_questions, n_groups, "documents" if by_document else "questions", rows)


def _needed(found: Callable[[int], Detection]) -> int | None:
    """Return the fewest questions with which a drop of 5 points is detected on most nights."""

    def is_enough(questions: int) -> bool:
        usually = found(questions).usually
        return usually is not None and usually <= WANTED

    low, high = 0, 100
    while not is_enough(high):
        low, high = high, 2 * high
        if high > QUESTIONS_MAX:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _points(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} points"


def _count(needed: int | None, unit: str = "questions") -> str:
    return f"over {QUESTIONS_MAX:,}" if needed is None else f"{needed:,} {unit}"
