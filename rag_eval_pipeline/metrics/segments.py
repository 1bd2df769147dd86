"""Changes of some questions: those of one type, section, language or document, also where the whole shows nothing.

Each segment is tested as the whole is, by the exact test of run labels, with documents within the segment as units.
Holm's correction over all segments and metrics is a closed test, valid however many questions segments share.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.intervals import Interval, Values
from rag_eval_pipeline.metrics.run_labels import PairedRuns, change_interval, label_test
from rag_eval_pipeline.metrics.verdict_rules import (
    CONFIDENCE_LEVEL,
    FAILURE_RATE,
    FIRST_LOOK,
    ONE_SIDED,
    ROUNDING,
    Rules,
)
from rag_eval_pipeline.metrics.verdicts import (
    Compared,
    Evidence,
    Segment,
    estimate_intervals,
    holm,
    standardised_difference,
)

ColumnValue = tuple[str, str]  # a column of the questions, and one of its values
Segments = Mapping[ColumnValue, NDArray[np.bool_]]  # the questions of each

VALUES_MIN, VALUES_MAX, QUESTIONS_MIN = 2, 20, 10  # values of a column, and questions of a value
# Of the segment: one point, as of the whole, would be less than one question of most segments. Of 57 questions 5 points
# are three.
MIN_EFFECT = 0.05
DISTINCT = 3.0  # standard errors by which a segment changed further than the other questions


@dataclass(frozen=True)
class _Part:
    metric: str
    value: ColumnValue
    own: PairedRuns
    others: PairedRuns
    is_certain: bool

    @cached_property
    def estimate(self) -> float:
        return float(_changes(self.own).mean())

    @cached_property
    def distance(self) -> float:
        """How much further the segment changed than the other questions, in standard errors."""
        own, others = _changes(self.own), _changes(self.others)
        error = float(np.concatenate([own, others]).std()) * (1 / own.size + 1 / others.size) ** 0.5
        return float(np.sign(own.mean()) * (own.mean() - others.mean())) / error if error else 0.0

    @cached_property
    def p_value(self) -> float:
        """One-sided p of the change; 1 if it is not to be reported whatever its p, which is never too small."""
        if abs(self.estimate) < MIN_EFFECT - ROUNDING or self.distance < DISTINCT or not self.own.is_beyond:
            return 1.0
        rose, counts = self.estimate > 0, (int(self.own.fallen.sum()), int(self.own.risen.sum()))
        if counts[rose] < ONE_SIDED * sum(counts):
            return 1.0
        return 0.0 if self.is_certain else label_test(self.own)[rose]


def _changes(paired: PairedRuns) -> Values:
    before, now = paired.means
    return now - before


def tested_values(members: Mapping[ColumnValue, Sequence[int]]) -> dict[ColumnValue, Sequence[int]]:
    """Return the values of enough questions, of columns with a few such values."""
    kept = {value: own for value, own in members.items() if len(own) >= QUESTIONS_MIN}
    columns = Counter(column for column, _ in kept)
    return {value: kept[value] for value in sorted(kept) if VALUES_MIN <= columns[value[0]] <= VALUES_MAX}


def find_segments(members: Mapping[ColumnValue, Sequence[int]], n_questions: int) -> Segments:
    """Return the segments that are tested; of those with the same questions the first.

    Args:
        members: The places of the questions with each value; a question may have several of one column.
    """
    found: dict[bytes, tuple[ColumnValue, NDArray[np.bool_]]] = {}
    for value, places in tested_values(members).items():
        mask = np.full(n_questions, False)
        mask[places] = True
        found.setdefault(mask.tobytes(), (value, mask))
    return dict(found.values())


def segment_changes(
    metrics: Mapping[str, PairedRuns], segments: Segments, rules: Rules, *, certain: Collection[str] = ()
) -> list[Compared]:
    """Return the segments that fell or rose, and further than the other questions; the most distinct first.

    Those with a p of at most 0.01 are returned, which asks for a rerun; `rules` have the level of a decision.

    Args:
        certain: Metrics of a deterministic system, whose every difference is real.
    """
    level = max(rules.level, FIRST_LOOK)
    parts = [part for name, whole in metrics.items() for part in _parts(name, whole, segments, level, certain)]
    sides = [holm([part.p_value if (part.estimate > 0) == rose else 1.0 for part in parts]) for rose in (False, True)]
    found = [(part, p) for part, *both in zip(parts, *sides, strict=True) if (p := min(both)) <= level]
    named: dict[str, NDArray[np.bool_]] = {}
    changes = []
    for part, p in sorted(found, key=lambda one: (-one[0].distance, one[0].own.units.size, one[0].value)):
        whole, inside = metrics[part.metric], segments[part.value]
        left = ~named.get(part.metric, np.full(inside.size, False))
        # Of segments that share questions, the second must show the change also without those of the first.
        rest = next(_parts(part.metric, whole.of(left), {part.value: inside[left]}, level, certain), None)
        if rest is not None and rest.p_value <= level and (rest.estimate > 0) == (part.estimate > 0):
            named[part.metric] = inside | ~left
            before, now = (np.where(inside, runs, np.nan) for runs in (whole.reference, whole.current))
            changes.append(Compared(_evidence(part, p, len(parts), rules), PairedRuns(before, now, whole.units)))
    return changes


def _parts(
    metric: str, whole: PairedRuns, segments: Segments, level: float, certain: Collection[str]
) -> Iterator[_Part]:
    """Yield the segments that could show a change at the level, whichever runs are tonight's."""
    pairs = whole.is_pair
    runs = np.concatenate([whole.reference, whole.current])
    varies = np.full(pairs.size, False)
    varies[pairs] = np.nanmax(runs[:, pairs], axis=0) > np.nanmin(runs[:, pairs], axis=0)
    choices = float(comb(len(runs), len(whole.current)))
    for value, mask in segments.items():
        inside, n_varying = pairs & mask, np.unique(whole.units[mask & varies]).size
        if QUESTIONS_MIN <= inside.sum() < pairs.sum() and choices**-n_varying <= level:
            yield _Part(metric, value, whole.of(inside), whole.of(pairs & ~mask), metric in certain)


def _evidence(part: _Part, p_corrected: float, n_tests: int, rules: Rules) -> Evidence:
    own, estimate = part.own, part.estimate
    before, now = own.means
    n, n_units = own.units.size, np.unique(own.units).size
    values = dict.fromkeys(("adjusted_interval", "confidence_interval"), Interval(estimate, estimate))
    if not part.is_certain:
        left = rules.level * part.p_value / p_corrected
        values = estimate_intervals(own, estimate, left, is_rejected=p_corrected <= rules.level)
    return Evidence(
        metric=part.metric,
        segment=Segment(
            column=part.value[0], value=part.value[1], n_others=part.others.units.size,
            others_estimate=float(_changes(part.others).mean()),
            others_interval=change_interval(part.others, CONFIDENCE_LEVEL),
        ),
        higher_is_better=part.metric != FAILURE_RATE, baseline_mean=float(before.mean()),
        current_mean=float(now.mean()), estimate=estimate, **values, effect_size=standardised_difference(now - before),
        p_value=None if part.is_certain else part.p_value, p_corrected=None if part.is_certain else p_corrected,
        level=rules.level, level_text=rules.level_text, n=n, n_units=n_units, is_clustered=n_units < n,
        fell=int(own.fallen.sum()), rose=int(own.risen.sum()), runs=len(own.current),
        reference_runs=len(own.reference), is_certain=part.is_certain, n_metrics=n_tests,
    )  # fmt: skip
