"""The nights of each pair since its baseline was pinned: what each showed, and whether a rerun showed it again.

An evaluation that follows a flagged one by two hours or more, with the same system and data, is its rerun, whoever
asked for it; any other is a night of its own. `data/evaluation/nights/<benchmark>/<system>/<baseline>.json` keeps the
nights when their evaluations are removed; a new baseline starts a new file.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import Baseline, nights_file, read_baseline
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.metrics.verdicts import (
    PROCEDURE,
    Evidence,
    State,
    alerts,
    confirm_flags,
    first_confirmation,
    is_flagged,
)
from rag_eval_pipeline.monitoring.baselines import flip_share_of
from rag_eval_pipeline.monitoring.comparison import (
    RunEvidence,
    ScoredRun,
    VerdictSettings,
    calibrated_measures,
    dataset_clusters,
    gather_evidence,
    read_verdict_settings,
    run_of_evaluation,
)
from rag_eval_pipeline.monitoring.verdict_records import Verdict
from rag_eval_pipeline.workspace import Workspace


class Night(Model):
    """One evaluation against the baseline, and its rerun if there was one."""

    evaluation_id: str
    opened_at: pydantic.AwareDatetime
    ended_at: pydantic.AwareDatetime  # when its last answer arrived
    fingerprints: Fingerprints  # a rerun has the same
    reason: str | None = None  # why it was not compared
    rerun: str | None = None  # the evaluation that ran it again
    procedure: int = 1  # the rules by which it was compared; raised when they change
    metrics: dict[str, Verdict] = pydantic.Field(default_factory=dict)  # metric -> verdict

    @property
    def awaits_rerun(self) -> bool:
        """Whether a change was flagged that no rerun has confirmed or refuted yet."""
        return self.rerun is None and any(metric.confirmation == "pending" for metric in self.metrics.values())


class Nights(FileModel):
    """The nights of one pair since its baseline was pinned, oldest first."""

    file_type: ClassVar[str] = "file of nights"

    schema_version: SchemaVersion = SCHEMA_VERSION
    benchmark: str
    system: str
    baseline: tuple[str, ...]  # the pinned evaluations
    flip_share: float | None = None  # share of questions whose exact match differs between two of them
    nights: tuple[Night, ...] = ()  # one a night; reruns are part of their night

    @property
    def seen(self) -> frozenset[str]:
        """The evaluations in this file."""
        return frozenset(name for night in self.nights for name in (night.evaluation_id, night.rerun) if name)


@dataclass(frozen=True, slots=True)
class BaselineRuns:
    """What a pair's nights are compared with, and how.

    Args:
        judged: Measures of the judge that take part.
        clusters: Question -> document, if documents are tested.
    """

    runs: Sequence[ScoredRun]
    settings: VerdictSettings
    judged: Collection[str] = ()
    clusters: Mapping[str, str] | None = field(default=None, repr=False)

    def gather_evidence(self, run: ScoredRun) -> RunEvidence:
        """Test a run against the baseline."""
        return gather_evidence(
            run,
            self.runs,
            key=f"baseline/{run.benchmark}/baseline/{run.system}",
            rules=self.settings.rules(run.min_coverage),
            judged=self.judged,
            clusters=self.clusters,
        )


def read_baseline_runs(
    workspace: Workspace, evaluation: Evaluation, baseline: Sequence[str], settings: VerdictSettings
) -> BaselineRuns:
    """Read the runs that an evaluation is compared with, by their ids."""
    record = evaluation.record
    return BaselineRuns(
        runs=[run_of_evaluation(load_evaluation(workspace, name)) for name in baseline],
        settings=settings,
        judged=calibrated_measures(workspace, record.benchmark, record.fingerprints.judge),
        clusters=dataset_clusters(workspace, record.dataset_id, record.dataset_version, settings),
    )


def add_run(history: Sequence[Night], run: ScoredRun, baseline: BaselineRuns) -> tuple[Night, ...]:
    """Return the nights with one more evaluation: as the rerun of the last one or as a night of its own."""
    if history and is_rerun(history[-1], run.fingerprints, run.opened_at, baseline.settings):
        return (*history[:-1], _with_rerun(history[-1], run, baseline))
    return (*history, new_night(history, run, baseline))


def new_night(
    history: Sequence[Night], run: ScoredRun, baseline: BaselineRuns, found: RunEvidence | None = None
) -> Night:
    """Compare an evaluation with the baseline.

    Args:
        history: The nights before. A change that they have confirmed and alerted about needs no further rerun.
        found: The evidence, if it is known already.
    """
    rules = baseline.settings.rules(run.min_coverage)
    found = found or baseline.gather_evidence(run)
    is_deterministic = run.is_deterministic and all(other.is_deterministic for other in baseline.runs)
    waits_for = first_confirmation(len(baseline.runs), is_deterministic=is_deterministic)
    metrics = {}
    for name, evidence in found.evidence.items():
        confirmation = waits_for
        if waits_for == "pending" and is_flagged(evidence, rules) and _is_known(history, name, evidence):
            confirmation = "confirmed"
        metrics[name] = Verdict.of(evidence, confirmation=confirmation, rules=rules, questions=found.moved[name])
    return Night(
        procedure=PROCEDURE,
        evaluation_id=run.evaluation_id,
        opened_at=run.opened_at,
        ended_at=run.ended_at,
        fingerprints=run.fingerprints,
        reason=found.reason,
        metrics=metrics,
    )


def _is_known(history: Sequence[Night], name: str, evidence: Evidence) -> bool:
    """Whether the same change was confirmed on an earlier night and would not alert again."""
    states = _states(history, name)
    direction: State = "improved" if ((evidence.estimate or 0) > 0) == evidence.higher_is_better else "regressed"
    return direction in states and not alerts([*states, direction])[-1]


def _with_rerun(night: Night, run: ScoredRun, baseline: BaselineRuns) -> Night:
    rules = baseline.settings.rules(run.min_coverage)
    confirmations = confirm_flags(night.metrics, baseline.gather_evidence(run).evidence, rules=rules)
    metrics = {
        # A change that the present rules would not flag is not confirmed.
        name: Verdict.of(
            found, confirmation=confirmations.get(name, "not_confirmed"), rules=rules, questions=found.questions
        )
        if found.confirmation == "pending"
        else found
        for name, found in night.metrics.items()
    }
    return night.model_copy(update={"rerun": run.evaluation_id, "metrics": metrics})


def is_rerun(night: Night, fingerprints: Fingerprints, opened_at: datetime, settings: VerdictSettings) -> bool:
    """Whether the evaluation after a night is its rerun: flagged, the same system and data, hours later."""
    later = timedelta(hours=settings.rerun_after_hours)
    return night.awaits_rerun and fingerprints == night.fingerprints and opened_at - night.ended_at >= later


def alerts_due(history: Sequence[Night]) -> dict[str, list[str]]:
    """Return the metrics that each night alerts about, by evaluation id; nights without alerts are left out."""
    names = dict.fromkeys(name for night in history for name in night.metrics)
    found: dict[str, list[str]] = {}
    for name in names:
        for night, is_alert in zip(history, alerts(_states(history, name)), strict=True):
            if is_alert:
                found.setdefault(night.evaluation_id, []).append(name)
    return found


def _states(history: Sequence[Night], name: str) -> list[State]:
    return [night.metrics[name].state if name in night.metrics else "unknown" for night in history]


def update_nights(
    workspace: Workspace, evaluations: Sequence[Evaluation], baseline: Baseline, settings: VerdictSettings
) -> Nights:
    """Return the nights of a pair on file and those published since, without writing.

    An evaluation that cannot be read is a night with that reason.

    Args:
        evaluations: The pair's published evaluations, oldest first; at least one.
    """
    record = evaluations[-1].record
    path = nights_file(workspace, record.benchmark, record.system, baseline)
    known = Nights.read(path) if path.exists() else None
    new = _evaluations_since(evaluations, baseline)
    if known is not None:
        new = [one for one in new if one.record.evaluation_id not in known.seen]
        if not new:
            return known
    runs = read_baseline_runs(workspace, evaluations[-1], baseline.evaluations, settings)
    nights = known.nights if known is not None else ()
    for evaluation in new:
        try:
            nights = add_run(nights, run_of_evaluation(evaluation), runs)
        except InputError as error:
            one = evaluation.record
            unreadable = Night(
                procedure=PROCEDURE,
                evaluation_id=one.evaluation_id,
                opened_at=one.opened_at,
                ended_at=one.answered_at or one.opened_at,
                fingerprints=one.fingerprints,
                reason=str(error),
            )
            nights = (*nights, unreadable)
    return Nights(
        benchmark=record.benchmark,
        system=record.system,
        baseline=baseline.evaluations,
        flip_share=flip_share_of(runs.runs),
        nights=nights,
    )


def write_nights(workspace: Workspace, baseline: Baseline, nights: Nights) -> None:
    """Write a pair's nights if they have changed."""
    path = nights_file(workspace, nights.benchmark, nights.system, baseline)
    if not path.exists() or Nights.read(path) != nights:
        nights.write(path)


def _evaluations_since(evaluations: Sequence[Evaluation], baseline: Baseline) -> list[Evaluation]:
    """Return the evaluations, nights and reruns, that began after the baseline was pinned or after its last run."""
    if baseline.pinned_at is not None:
        later = [one for one in evaluations if one.record.opened_at > baseline.pinned_at]
    else:
        order = [one.record.evaluation_id for one in evaluations]
        last = max((order.index(name) for name in baseline.evaluations if name in order), default=-1)
        later = list(evaluations[last + 1 :])
    return [one for one in later if one.record.evaluation_id not in baseline.evaluations]


def due_reruns(workspace: Workspace, pairs: Iterable[tuple[str, str]], *, now: datetime) -> list[tuple[str, str, str]]:
    """Return the pairs whose last night waits for a rerun that may begin now, each with the evaluation's id.

    A pair that has been evaluated since is left alone: that evaluation is the rerun, or a night of its own.

    Args:
        pairs: Benchmarks and systems that may be evaluated automatically.
    """
    later = timedelta(hours=read_verdict_settings(workspace).rerun_after_hours)
    due = []
    for benchmark, system in pairs:
        _, known = _nights_on_file(workspace, benchmark, system)
        if known is None or not known.nights:
            continue
        last = known.nights[-1]
        if last.awaits_rerun and now - last.ended_at >= later:
            newest = newest_evaluation(workspace, benchmark, system)
            if newest is not None and newest.record.evaluation_id == last.evaluation_id:
                due.append((benchmark, system, last.evaluation_id))
    return due


def read_nights(workspace: Workspace, benchmark: str, system: str) -> Nights | None:
    """Return the nights of a pair that were compared with its baseline; None if there are none, or damaged ones."""
    return _nights_on_file(workspace, benchmark, system)[1]


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
        found |= {night.rerun: night.evaluation_id for night in known.nights if night.rerun}
        since = _evaluations_since(evaluations, baseline)
        new = [one.record for one in since if one.record.evaluation_id not in known.seen]
        if new and known.nights and is_rerun(known.nights[-1], new[0].fingerprints, new[0].opened_at, settings):
            found[new[0].evaluation_id] = known.nights[-1].evaluation_id
    return found


def _nights_on_file(workspace: Workspace, benchmark: str, system: str) -> tuple[Baseline | None, Nights | None]:
    try:
        baseline = read_baseline(workspace, benchmark, system)
        if baseline is None or not (path := nights_file(workspace, benchmark, system, baseline)).exists():
            return baseline, None
        return baseline, Nights.read(path)
    except InputError:
        return None, None  # the comparison reports what is wrong with the file
