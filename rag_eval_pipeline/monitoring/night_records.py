"""The records of nights, as `data/evaluation/nights/<benchmark>/<system>/<baseline>.json` keeps them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pydantic

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import Baseline, nights_file, read_baseline
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.judges.judge_changes import JudgeCheck
from rag_eval_pipeline.metrics.metric_info import OF_SEGMENT
from rag_eval_pipeline.metrics.verdict_rules import CHANGES, State
from rag_eval_pipeline.monitoring.verdict_records import Verdict, flip_sentence
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.workspace import Workspace


class NightWatch(Model):
    """What a night adds to the evidence that metrics decline: see `metrics.declines`.

    `bets` has two factors for each metric, null if no score differs between runs: from the comparison with all nights
    since the baseline was pinned, and with the reference runs.
    """

    alert_at: float  # the evidence that alerts
    bets: dict[str, tuple[float | None, float | None]]


class Night(Model):
    """One evaluation against the baseline, and its rerun if there was one."""

    evaluation_id: str
    opened_at: pydantic.AwareDatetime
    ended_at: pydantic.AwareDatetime  # when the last answer of it or its newest rerun arrived
    fingerprints: Fingerprints  # a rerun has the same
    reason: str | None = None  # why it was not compared
    reruns: tuple[str, ...] = ()  # the evaluations that ran it again, oldest first
    procedure: int = 1  # the rules by which it was compared; raised when they change
    reference: tuple[str, ...] = ()  # the evaluations that it was compared with, oldest first
    n_pairs: int = pydantic.Field(1, ge=1)  # among which the yearly budget of false alarms was shared
    # metric -> verdict; also of segments whose change was flagged, as `exact_match of section tariffs`
    metrics: dict[str, Verdict] = pydantic.Field(default_factory=dict)
    judge: JudgeCheck | None = None  # of a model judge that is calibrated
    watch: NightWatch | None = None  # absent if nothing was compared, or fewer than five runs are pinned

    @pydantic.model_validator(mode="before")
    @classmethod
    def _read_former(cls, value: Any) -> Any:
        """Read the one rerun that nights of procedure 3 and before have."""
        if isinstance(value, dict) and "rerun" in value:
            rerun = value["rerun"]
            return {k: v for k, v in value.items() if k != "rerun"} | {"reruns": [rerun] if rerun else []}
        return value

    @property
    def rerun(self) -> str | None:
        """The newest evaluation that ran it again."""
        return self.reruns[-1] if self.reruns else None

    @property
    def runs(self) -> tuple[str, ...]:
        """The night's evaluation and its reruns."""
        return (self.evaluation_id, *self.reruns)

    @property
    def awaits_rerun(self) -> bool:
        """Whether a change was flagged that no rerun has confirmed or refuted yet."""
        return any(metric.confirmation == "pending" for metric in self.metrics.values())

    def state(self, name: str) -> State:
        """Return what the alert rule counts of a metric; a segment without a verdict showed no change."""
        if name in self.metrics:
            return self.metrics[name].state
        return "unflagged" if self.metrics and OF_SEGMENT in name else "unknown"

    @property
    def joins_reference(self) -> bool:
        """Whether later nights are compared with it as well: no change was confirmed, nor waits for a rerun."""
        if self.judge is not None and self.judge.is_unsettled:
            return False
        is_changed = any(metric.state in CHANGES for metric in self.metrics.values())
        return self.reason is None and not self.awaits_rerun and not is_changed


class Nights(FileModel):
    """The nights of one pair since its baseline was pinned, oldest first."""

    file_type: ClassVar[str] = "file of nights"

    schema_version: SchemaVersion = SCHEMA_VERSION
    benchmark: str
    system: str
    baseline: tuple[str, ...]  # the pinned evaluations
    flip_share: float | None = None  # share of questions whose exact match differs between two of them
    finds: str | None = None  # a sentence on the drops that the next nights find
    nights: tuple[Night, ...] = ()  # one a night; reruns are part of their night

    @property
    def note(self) -> str:
        """Sentences on how steady the unchanged system is and what is found."""
        return " ".join(filter(None, (flip_sentence(self.flip_share), self.finds)))

    @property
    def seen(self) -> frozenset[str]:
        """The evaluations in this file."""
        return frozenset(name for night in self.nights for name in night.runs)

    @property
    def reruns(self) -> dict[str, str]:
        """Each rerun with its night's evaluation."""
        return {name: night.evaluation_id for night in self.nights for name in night.reruns}


def is_rerun(night: Night, fingerprints: Fingerprints, opened_at: datetime, settings: VerdictSettings) -> bool:
    """Whether the evaluation after a night is its rerun: flagged, the same system and data, hours later."""
    later = timedelta(hours=settings.rerun_after_hours)
    return night.awaits_rerun and fingerprints == night.fingerprints and opened_at - night.ended_at >= later


def _evaluations_since(evaluations: Sequence[Evaluation], baseline: Baseline) -> list[Evaluation]:
    """Return the evaluations, nights and reruns, that began after the baseline was pinned or after its last run."""
    # A baseline that was pinned by a clock that was ahead would leave out all nights until then.
    if baseline.pinned_at is not None and baseline.pinned_at <= clock.now():
        later = [one for one in evaluations if one.record.opened_at > baseline.pinned_at]
    else:
        order = [one.record.evaluation_id for one in evaluations]
        last = max((order.index(name) for name in baseline.evaluations if name in order), default=-1)
        later = list(evaluations[last + 1 :])
    return [one for one in later if one.record.evaluation_id not in baseline.evaluations]


def read_nights(workspace: Workspace, benchmark: str, system: str) -> Nights | None:
    """Return the nights of a pair that were compared with its baseline; None if there are none, or damaged ones."""
    return _nights_on_file(workspace, benchmark, system)[1]


def nights_since(workspace: Workspace, benchmark: str, system: str, baseline: Baseline) -> Nights | None:
    """Return the nights of a pair that were compared with a baseline; None if there are none.

    Raises:
        InputError: `bad_format`.
    """
    path = nights_file(workspace, benchmark, system, baseline)
    return Nights.read(path) if path.exists() else None


def find_reruns(workspace: Workspace, published: Mapping[tuple[str, str], Sequence[Evaluation]]) -> dict[str, str]:
    """Return the evaluation id of each rerun with that of its night, also of reruns that are not compared yet.

    Files that cannot be read are skipped; the comparison reports them.

    Args:
        published: The published evaluations of each pair, oldest first.
    """
    settings = read_verdict_settings(workspace)
    found: dict[str, str] = {}
    for (benchmark, system), evaluations in published.items():
        baseline, known = _nights_on_file(workspace, benchmark, system)
        if baseline is None or known is None:
            continue
        found |= known.reruns
        since = _evaluations_since(evaluations, baseline)
        new = [one.record for one in since if one.record.evaluation_id not in known.seen]
        if new and known.nights and is_rerun(known.nights[-1], new[0].fingerprints, new[0].opened_at, settings):
            found[new[0].evaluation_id] = known.nights[-1].evaluation_id
    return found


def _nights_on_file(workspace: Workspace, benchmark: str, system: str) -> tuple[Baseline | None, Nights | None]:
    try:
        baseline = read_baseline(workspace, benchmark, system)
        return baseline, None if baseline is None else nights_since(workspace, benchmark, system, baseline)
    except InputError:
        return None, None  # the comparison reports what is wrong with the file
