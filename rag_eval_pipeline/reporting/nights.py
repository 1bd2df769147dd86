"""Nights against a pinned baseline: what each showed, whether a rerun showed it again, and what people are told.

An evaluation that follows a flagged one by two hours or more, with the same system and data, is its rerun, whoever
asked for it; any other is a night of its own. Nothing is kept but what the evaluations say, in the order they came in.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Self

import pydantic

from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.metrics.alert_states import State, alerts, night_state
from rag_eval_pipeline.metrics.baselines import first_confirmation
from rag_eval_pipeline.metrics.evidence import PROCEDURE, Evidence
from rag_eval_pipeline.metrics.flags import Confirmation, confirm_flags, is_flagged
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import Verdict, VerdictKind, verdict
from rag_eval_pipeline.reporting.looks import Look, Moved, look
from rag_eval_pipeline.reporting.scored_runs import ScoredRun
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings


class MetricNight(Model):
    """One metric's night: the verdict, and the evidence that it rests on; effects in the metric's own unit."""

    kind: VerdictKind = pydantic.Field(description="The word.")
    sentence: str = pydantic.Field(description="What a reader is told.")
    confirmation: Confirmation | None = pydantic.Field(None, description="Of a flagged change: what a rerun said.")
    state: State = pydantic.Field(description="As the rule of alerts counts it.")
    higher_is_better: bool = pydantic.Field(description="False for failure rates and the like.")
    value_range: float = pydantic.Field(description="Largest minus smallest possible score.")
    baseline_mean: float | None = pydantic.Field(None, description="Over the pinned runs and the pairs.")
    current_mean: float | None = pydantic.Field(None, description="Tonight, over the pairs.")
    estimate: float | None = pydantic.Field(None, description="Tonight minus baseline.")
    adjusted_interval: tuple[float, float] | None = pydantic.Field(
        None, description="What the test does not reject at the level that Holm's correction leaves to the metric."
    )
    confidence_interval: tuple[float, float] | None = pydantic.Field(
        None, description='95 %, with pseudo-units: what "equivalent" rests on.'
    )
    p_value: float | None = pydantic.Field(None, description="One-sided, in the direction of the estimate.")
    p_corrected: float | None = pydantic.Field(None, description="After Holm over the metrics.")
    effect_size: float | None = pydantic.Field(None, description="Cohen's dz.")
    n_pairs: int = pydantic.Field(description="Questions scored tonight and in every pinned run.")
    n_units: int = pydantic.Field(description="Independent units among them.")
    is_clustered: bool = pydantic.Field(False, description="The units are documents.")
    needed_units: int = pydantic.Field(0, description="How many units must change one way to be flagged; 0: unknown.")
    is_exact: bool = pydantic.Field(False, description="All sign assignments were counted.")
    is_short_of_runs: bool = pydantic.Field(False, description="Documents, because fewer than three runs are pinned.")
    design_effect: float | None = pydantic.Field(None, description="Of the noise that documents share; 1 or more.")
    n_metrics: int = pydantic.Field(1, description="How many metrics p was corrected for.")
    coverage: float | None = pydantic.Field(None, description="Share of the questions asked that are pairs.")
    smallest_drop: float | None = pydantic.Field(None, description="The smallest change this set can show, as a share.")
    moved: tuple[Moved, ...] = pydantic.Field((), description="Questions that moved most; only of flagged changes.")

    @classmethod
    def of(cls, found: Verdict, moved: tuple[Moved, ...]) -> Self:
        """A verdict as it is kept."""
        evidence = found.evidence
        return cls(
            kind=found.kind,
            sentence=found.sentence,
            confirmation=found.confirmation,
            state=night_state(found),
            moved=moved if found.confirmation is not None else (),
            **{name: None if (limits := getattr(evidence, name)) is None else tuple(limits) for name in _INTERVALS},
            **{name: getattr(evidence, name) for name in _NUMBERS},
        )

    def verdict(self, name: str) -> Verdict:
        """The verdict again."""
        evidence = Evidence(
            metric=name,
            adjusted_interval=None if self.adjusted_interval is None else Interval(*self.adjusted_interval),
            confidence_interval=None if self.confidence_interval is None else Interval(*self.confidence_interval),
            **{number: getattr(self, number) for number in _NUMBERS},
        )
        return Verdict(self.kind, self.sentence, self.confirmation, evidence)


_INTERVALS = ("adjusted_interval", "confidence_interval")
_NUMBERS = tuple(name for name in Evidence.__slots__ if name not in ("metric", *_INTERVALS))


class Night(Model):
    """One evaluation against the baseline, and its rerun if there was one."""

    evaluation_id: str = pydantic.Field(description="Of the night.")
    opened_at: pydantic.AwareDatetime = pydantic.Field(description="When it began.")
    ended_at: pydantic.AwareDatetime = pydantic.Field(description="When its last answer arrived.")
    fingerprints: Fingerprints = pydantic.Field(description="A rerun has the same.")
    reason: str | None = pydantic.Field(None, description="Why it was not compared.")
    rerun: str | None = pydantic.Field(None, description="The evaluation that looked again.")
    procedure: int = pydantic.Field(1, description="The rules by which it was compared; raised when they change.")
    metrics: dict[str, MetricNight] = pydantic.Field(default_factory=dict, description="Metric -> verdict.")

    @property
    def awaits_rerun(self) -> bool:
        """A change was flagged, and nobody has looked again."""
        return self.rerun is None and any(metric.confirmation == "pending" for metric in self.metrics.values())


class Nights(FileModel):
    """The nights of one pair since its baseline was pinned, oldest first."""

    form: ClassVar[Form] = Form("file of nights")

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Of this file's form.")
    benchmark: str = pydantic.Field(description="Of the pair.")
    system: str = pydantic.Field(description="Of the pair.")
    baseline: tuple[str, ...] = pydantic.Field(description="The pinned evaluations.")
    flip_share: float | None = pydantic.Field(
        None, description="Share of questions whose exact match differs between two of them."
    )
    nights: tuple[Night, ...] = pydantic.Field((), description="One a night; reruns stand in theirs.")

    @property
    def seen(self) -> frozenset[str]:
        """The evaluations that stand here."""
        return frozenset(name for night in self.nights for name in (night.evaluation_id, night.rerun) if name)


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What a pair's nights are compared with, and how.

    Args:
        baseline: The pinned runs.
        settings: The numbers of the procedure.
        judged: Measures of the judge that take part.
        clusters: Question -> document, where documents are tested.
    """

    baseline: Sequence[ScoredRun]
    settings: VerdictSettings
    judged: Collection[str] = ()
    clusters: Mapping[str, str] | None = field(default=None, repr=False)

    def look(self, run: ScoredRun) -> Look:
        """The evidence of one run."""
        return look(
            run,
            self.baseline,
            key=f"baseline/{run.benchmark}/baseline/{run.system}",
            rules=self.settings.rules(run.min_coverage),
            judged=self.judged,
            clusters=self.clusters,
        )


def with_run(history: Sequence[Night], run: ScoredRun, yardstick: Yardstick) -> tuple[Night, ...]:
    """The nights with one more evaluation: as the rerun of the last, or as a night of its own."""
    if history and is_rerun(history[-1], run.fingerprints, run.opened_at, yardstick.settings):
        return (*history[:-1], _confirmed(history[-1], run, yardstick))
    return (*history, new_night(history, run, yardstick))


def new_night(history: Sequence[Night], run: ScoredRun, yardstick: Yardstick, found: Look | None = None) -> Night:
    """An evaluation's night.

    Args:
        history: The nights before. A change that they have confirmed and told is not run again for being there still.
        run: The evaluation.
        yardstick: The baseline.
        found: The evidence, where it is known already.
    """
    rules = yardstick.settings.rules(run.min_coverage)
    found = found or yardstick.look(run)
    is_deterministic = run.is_deterministic and all(other.is_deterministic for other in yardstick.baseline)
    waits_for = first_confirmation(len(yardstick.baseline), is_deterministic=is_deterministic)
    metrics = {}
    for name, evidence in found.evidence.items():
        confirmation = waits_for
        if waits_for == "pending" and is_flagged(evidence, rules) and _is_told(history, name, evidence):
            confirmation = "confirmed"
        metrics[name] = MetricNight.of(verdict(evidence, confirmation=confirmation, rules=rules), found.moved[name])
    return Night(
        procedure=PROCEDURE,
        evaluation_id=run.evaluation_id,
        opened_at=run.opened_at,
        ended_at=run.ended_at,
        fingerprints=run.fingerprints,
        reason=found.reason,
        metrics=metrics,
    )


def told(history: Sequence[Night]) -> dict[str, list[str]]:
    """Which metrics each night tells people of: evaluation id -> metrics; nights that tell nothing are left out."""
    names = dict.fromkeys(name for night in history for name in night.metrics)
    found: dict[str, list[str]] = {}
    for name in names:
        for night, is_told in zip(history, alerts(_states(history, name)), strict=True):
            if is_told:
                found.setdefault(night.evaluation_id, []).append(name)
    return found


def _states(history: Sequence[Night], name: str) -> list[State]:
    return [night.metrics[name].state if name in night.metrics else "unknown" for night in history]


def _is_told(history: Sequence[Night], name: str, evidence: Evidence) -> bool:
    """Whether the same change was confirmed on an earlier night and would be no news tonight."""
    states = _states(history, name)
    direction: State = "improved" if ((evidence.estimate or 0) > 0) == evidence.higher_is_better else "regressed"
    return direction in states and not alerts([*states, direction])[-1]


def is_rerun(night: Night, fingerprints: Fingerprints, opened_at: datetime, settings: VerdictSettings) -> bool:
    """Whether the evaluation after a night looked at it again: flagged, the same system and data, hours later."""
    later = timedelta(hours=settings.rerun_after_hours)
    return night.awaits_rerun and fingerprints == night.fingerprints and opened_at - night.ended_at >= later


def _confirmed(night: Night, run: ScoredRun, yardstick: Yardstick) -> Night:
    rules = yardstick.settings.rules(run.min_coverage)
    first = {name: metric.verdict(name).evidence for name, metric in night.metrics.items()}
    said = confirm_flags(first, yardstick.look(run).evidence, rules=rules)
    metrics = {
        # A change that would not be flagged by the rules as they are now is in nobody's mouth: it is not confirmed.
        name: MetricNight.of(
            verdict(first[name], confirmation=said.get(name, "not_confirmed"), rules=rules), metric.moved
        )
        if metric.confirmation == "pending"
        else metric
        for name, metric in night.metrics.items()
    }
    return night.model_copy(update={"rerun": run.evaluation_id, "metrics": metrics})
