"""Changes of some questions: those of one type, section, language or document, also where the whole shows nothing.

Each segment is tested as the whole is, by the exact test of run labels, with documents within the segment as units.
Holm's correction over all segments and metrics is a closed test, valid however many questions segments share.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.intervals import Interval, Values
from rag_eval_pipeline.metrics.run_labels import PairedRuns, change_interval, label_test
from rag_eval_pipeline.metrics.significance import holm

Segment = tuple[str, str]  # a column of the questions, and one of its values
Segments = Mapping[Segment, NDArray[np.bool_]]  # the questions of each

VALUES_MIN, VALUES_MAX, QUESTIONS_MIN = 2, 20, 10  # values of a column, and questions of a value
# Of the segment: one point, as of the whole, would be less than one question of most segments. Of 57 questions 5 points
# are three.
MIN_EFFECT = 0.05
DISTINCT = 3.0  # standard errors by which a segment changed further than the other questions
ONE_WAY = 2 / 3  # share of the questions changed for good that changed in the direction of the mean
SEGMENTS_SHARE = 0.5  # of a pair's false alarms; verdicts on the whole have the other half


class SegmentChange(Model):
    """A segment that fell or rose, and what the other questions did meanwhile."""

    metric: str
    column: str
    value: str
    baseline_mean: float
    current_mean: float
    estimate: float  # the change, as a share of the metric's range
    n: int  # questions scored on both sides
    fell: int  # of these below every reference run; `rose` above
    rose: int
    p_corrected: float  # one-sided, after Holm's correction
    level: float  # the largest such p of a reported change
    others_estimate: float
    others_interval: Interval  # at 95 %
    n_others: int


@dataclass(frozen=True)
class _Part:
    metric: str
    segment: Segment
    own: PairedRuns
    others: PairedRuns

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
        if abs(self.estimate) < MIN_EFFECT - 1e-9 or self.distance < DISTINCT or not self.own.is_beyond:
            return 1.0
        rose, counts = self.estimate > 0, (int(self.own.fallen.sum()), int(self.own.risen.sum()))
        return 1.0 if counts[rose] < ONE_WAY * sum(counts) else label_test(self.own)[rose]


def _changes(paired: PairedRuns) -> Values:
    before, now = paired.means
    return now - before


def find_segments(members: Mapping[Segment, Collection[int]], n_questions: int) -> Segments:
    """Return the segments that are tested; of those with the same questions the first.

    Args:
        members: The places of the questions with each value; a question may have several of one column.
    """
    columns: dict[str, list[Segment]] = defaultdict(list)
    for segment, places in members.items():
        if len(places) >= QUESTIONS_MIN:
            columns[segment[0]].append(segment)
    found: dict[bytes, tuple[Segment, NDArray[np.bool_]]] = {}
    for segment in (one for own in columns.values() if VALUES_MIN <= len(own) <= VALUES_MAX for one in sorted(own)):
        mask = np.full(n_questions, False)
        mask[list(members[segment])] = True
        found.setdefault(mask.tobytes(), (segment, mask))
    return dict(found.values())


def segment_changes(
    metrics: Mapping[str, PairedRuns], segments: Segments, level: float, *, segments_share: float = SEGMENTS_SHARE
) -> list[SegmentChange]:
    """Return the segments that fell or rose, and further than the other questions; the most distinct first.

    Args:
        level: One-sided, of the pair at this number of runs.
        segments_share: How much of it the segments have.
    """
    level *= segments_share
    parts = [part for name, whole in metrics.items() for part in _parts(name, whole, segments, level)]
    sides = [holm([part.p_value if (part.estimate > 0) == rose else 1.0 for part in parts]) for rose in (False, True)]
    found = [(part, p) for part, *both in zip(parts, *sides, strict=True) if (p := min(both)) <= level]
    changes = []
    named: dict[str, NDArray[np.bool_]] = {}
    for part, p in sorted(found, key=lambda one: (-one[0].distance, one[0].own.units.size, one[0].segment)):
        whole, inside = metrics[part.metric], segments[part.segment]
        left = ~named.get(part.metric, np.full(inside.size, False))
        # Of segments that share questions, the second must show the change also without those of the first.
        rest = next(_parts(part.metric, whole.of(left), {part.segment: inside[left]}, level), None)
        if rest is not None and rest.p_value <= level and (rest.estimate > 0) == (part.estimate > 0):
            named[part.metric] = inside | ~left
            changes.append(_segment_change(part, p, level))
    return changes


def _parts(metric: str, whole: PairedRuns, segments: Segments, level: float) -> Iterator[_Part]:
    """Yield the segments that could show a change at the level, whichever runs are tonight's."""
    pairs = whole.is_pair
    runs = np.concatenate([whole.reference, whole.current])
    varies = np.full(pairs.size, False)
    varies[pairs] = np.nanmax(runs[:, pairs], axis=0) > np.nanmin(runs[:, pairs], axis=0)
    choices = float(comb(len(runs), len(whole.current)))
    for segment, mask in segments.items():
        inside, n_varying = pairs & mask, np.unique(whole.units[mask & varies]).size
        if QUESTIONS_MIN <= inside.sum() < pairs.sum() and choices**-n_varying <= level:
            yield _Part(metric, segment, whole.of(inside), whole.of(pairs & ~mask))


def _segment_change(part: _Part, p_corrected: float, level: float) -> SegmentChange:
    before, now = (float(means.mean()) for means in part.own.means)
    return SegmentChange(
        metric=part.metric, column=part.segment[0], value=part.segment[1], baseline_mean=before, current_mean=now,
        estimate=part.estimate, n=part.own.units.size, fell=int(part.own.fallen.sum()),
        rose=int(part.own.risen.sum()), p_corrected=p_corrected, level=level,
        others_estimate=float(_changes(part.others).mean()),
        others_interval=change_interval(part.others, 0.025, with_doubt=True), n_others=part.others.units.size,
    )  # fmt: skip
