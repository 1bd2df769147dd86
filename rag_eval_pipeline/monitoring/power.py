"""What drops can be found, in words and as a table: by assumption, or from the reference runs of a pair."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rag_eval_pipeline.conversion.stamp import read_stamp
from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.formats.dataset import EvaluationQuery, open_dataset, question_clusters
from rag_eval_pipeline.metrics.detection import (
    Limits,
    Reference,
    assumed_reference,
    night_power,
    reference_of,
    smallest_drop,
    week_power,
)
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.run_labels import PairedRuns
from rag_eval_pipeline.metrics.verdict_rules import BASELINE_RUNS, FAILURE_RATE, REFERENCE_RUNS, RUNS, Budget
from rag_eval_pipeline.metrics.verdicts import flip_share, needed_units
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.workspace import Workspace

FLIP_SHARES = (0.02, 0.05, 0.10)  # of the answers that differ between two runs, while there are no runs
USUAL = (0.05, REFERENCE_RUNS)  # the assumption that is put into one sentence
ASSUMED = tuple((share, runs) for share in FLIP_SHARES for runs in (BASELINE_RUNS, REFERENCE_RUNS))
Assumed = Sequence[tuple[float, int]]  # shares of answers that differ between two runs, and reference runs
FIRST_METRIC = "exact_match"  # of a pair, likewise
# Metrics that are compared where no judge is calibrated: hit@1, hit@5, nDCG, MRR, citations, EM, F1, failure rate.
METRICS = 8


class PowerRow(NamedTuple):
    """The smallest drops that are found four times of five, as shares of the range; None where none is."""

    metric: str | None  # None for an assumption
    flip_share: float  # of the questions, whose score differs between two runs
    runs: int  # of the reference
    night: float | None  # found in one night
    week: float | None  # found within seven nights
    with_more: float | None  # found in one night with more questions


class Power(NamedTuple):
    """The table of a benchmark or pair.

    Args:
        n_groups: Of questions that share a document or a conversation; as many as questions where none is shared.
        shared: What they share: `document`, `conversation`, `document or conversation`.
    """

    n_questions: int
    n_groups: int
    budget: Budget
    n_metrics: int
    rows: Sequence[PowerRow]
    shared: str = "document"

    def record(self) -> dict[str, Any]:
        """Return the table as JSON."""
        counts = {"questions": self.n_questions, "documents": self.n_groups, "more": _more(self.n_questions)}
        rows = [row._asdict() for row in self.rows]
        return {**counts, "metrics": self.n_metrics, "pairs": self.budget.n_pairs, "rows": rows}

    def sentence(self, settings: VerdictSettings) -> str:
        """Return a line on what is found: of a pair by the first metric, else by the usual assumption."""
        if not self.n_questions:
            return "No change can be detected without questions."
        if self.n_questions < settings.min_questions:
            few = f"{counted(self.n_questions, 'question is', 'questions are')} too few for a verdict"
            return f"{few} ({settings.min_questions} are needed)."
        usual = (one for one in self.rows if one.metric == FIRST_METRIC or (one.flip_share, one.runs) == USUAL)
        row = next(usual, self.rows[0])
        name = "" if row.metric is None else f" of {metric_label(row.metric)}"
        known = f"with {counted(row.runs, 'reference run')}"
        if row.metric is None:
            known += f" of which any two differ in {100 * row.flip_share:g} % of the answers"
        night = f"no drop{name}" if row.night is None else f"a drop{name} of {_points(row.night)}"
        either = "but" if row.night is None else "or"
        week = "" if row.week is None else f", {either} one of {_points(row.week)} within a week"
        more = (
            "" if not row.with_more else f" With {_more(self.n_questions)} more: {_points(row.with_more)} in one night."
        )
        return f"{self._counted()} detect {night} in one night{week}, in four cases of five, {known}.{more}"

    def warning(self, benchmark: str, *, is_deterministic: bool | None = None) -> str | None:
        """Return that too few documents share the questions for any change to be confirmed; else None.

        `is_deterministic` is of the system, None if it is not known yet.
        """
        needed = self._needed(BASELINE_RUNS, RUNS)
        if is_deterministic or self.n_groups >= needed:
            return None
        unless = " (unless the system is deterministic)" if is_deterministic is None else ""
        few = f"{self._counted()}, and {needed} groups are needed"
        add = f"Add {_plural(self.shared)}."
        return f"{benchmark}: no change can be confirmed by {BASELINE_RUNS} pinned runs{unless}: {few}. {add}"

    def _needed(self, reference: int, runs: int) -> int:
        return needed_units(self.n_metrics, level=self.budget.level(runs), reference=reference, runs=runs)

    def _counted(self) -> str:
        questions = counted(self.n_questions, "question")
        if self.n_groups == self.n_questions:
            return questions
        return f"{questions} in {counted(self.n_groups, 'group that shares', 'groups that share')} a {self.shared}"

    def lines(self) -> Iterator[str]:
        """Yield the table as lines for a terminal."""
        pairs = counted(self.budget.n_pairs, "pair")
        yield (
            f"{self._counted()}, {counted(self.n_metrics, 'metric')}, {pairs} a night; drops that "
            "are detected in four cases of five:"
        )
        more = f"with {_more(self.n_questions)} more"
        yield f"{'':20}{'differ':>8}{'runs':>6}{'one night':>13}{'a week':>13}{more:>15}"
        for row in self.rows:
            name = "by assumption" if row.metric is None else metric_label(row.metric)
            found = f"{_points(row.night):>13}{_points(row.week):>13}{_points(row.with_more):>15}"
            yield f"{name:20}{f'{100 * row.flip_share:.3g} %':>8}{row.runs:>6}{found}"
        unit = _plural(self.shared) if self.n_groups < self.n_questions else "questions"
        for runs in sorted({row.runs for row in self.rows}):
            yield f"With {counted(runs, 'reference run')} at least {self._needed(runs, 2)} {unit} must fall."


def power_of(workspace: Workspace, benchmark: str, assumed: Assumed = ASSUMED) -> Power:
    """Return what a converted benchmark can find by assumption."""
    stamp = read_stamp(workspace.existing_benchmark(benchmark))
    dataset = open_dataset(workspace.eval_json(stamp.dataset_id, stamp.dataset_version))
    return power_of_questions(dataset.queries, read_verdict_settings(workspace), assumed)


def power_of_questions(queries: Sequence[EvaluationQuery], settings: VerdictSettings, assumed: Assumed) -> Power:
    """Return what questions can find by assumption."""
    clusters = question_clusters(queries)
    return power(list(Counter(clusters.values()).values()), settings, assumed, shared=_shared(clusters))


def power(
    sizes: Sequence[int], settings: VerdictSettings, assumed: Assumed = ASSUMED, *, shared: str = "document"
) -> Power:
    """Return what groups of questions can find by assumption; `sizes` are those of the groups, in any order."""
    sizes = sorted(sizes, reverse=True)  # which questions fall first depends on their places
    budget = Budget(settings.false_alarms_a_year)
    limits = Limits.of(budget, METRICS, settings.min_effect)
    rows = [_row(None, share, assumed_reference(sizes, share, runs), limits) for share, runs in assumed if sizes]
    return Power(sum(sizes), len(sizes), budget, METRICS, rows, shared)


def power_of_runs(
    compared: Mapping[str, PairedRuns],
    settings: VerdictSettings,
    budget: Budget,
    *,
    n_metrics: int,
    clusters: Mapping[str, str] | None = None,
    is_deterministic: bool = False,
) -> Power:
    """Return what a pair can find by each metric, from its reference runs on either side of a comparison.

    Args:
        n_metrics: That its nights compare together.
        clusters: Question -> its conversation or documents.
    """
    limits = Limits.of(budget, n_metrics, settings.min_effect)
    rows, sizes = [], (0, 0)
    for name, paired in compared.items():
        n = int(paired.is_pair.sum())
        if not n:
            continue
        sizes = max(sizes, (n, np.unique(paired.units[paired.is_pair]).size))
        share = flip_share(paired.runs.tolist()) or 0.0
        if is_deterministic and not share:  # any difference is real
            rows.append(PowerRow(name, share, len(paired.reference), *[max(settings.min_effect, 1 / n)] * 3))
        else:
            reference = reference_of(1 - paired.runs if name == FAILURE_RATE else paired.runs, paired.units)
            rows.append(_row(name, share, reference, limits))
    return Power(*sizes, budget, n_metrics, rows, _shared(clusters or {}))


def _row(metric: str | None, share: float, reference: Reference, limits: Limits) -> PowerRow:
    larger = reference.with_more(_more(reference.n_questions))
    night, week = (smallest_drop(reference, partial(kind, reference, limits)) for kind in (night_power, week_power))
    with_more = smallest_drop(larger, partial(night_power, larger, limits))
    return PowerRow(metric, share, reference.n_runs, night, week, with_more)


def _shared(clusters: Mapping[str, str]) -> str:
    """Return what questions share, by the names of `question_clusters`."""
    shared = [name for name, count in Counter(clusters.values()).items() if count > 1]
    are_talks = {name.startswith("conversation ") for name in shared} or {False}
    return " or ".join(word for word, is_talk in (("document", False), ("conversation", True)) if is_talk in are_talks)


def _plural(shared: str) -> str:
    return " or ".join(f"{word}s" for word in shared.split(" or "))


def _more(questions: int) -> int:
    """Return half as many questions, in tens."""
    return max(10, round(questions / 20) * 10)


def _points(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} points"
