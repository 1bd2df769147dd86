"""The nights of each pair since its baseline was pinned: what each showed, and whether its reruns showed it again.

A night is compared with the pinned evaluations and the quiet nights after them, 20 at most. An evaluation that follows
a flagged one by two hours or more, with the same system and data, is its rerun, whoever asked for it; any other is a
night of its own. `data/evaluation/nights/<benchmark>/<system>/<baseline>.json` keeps the nights when their evaluations
are removed; a new baseline starts a new file.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import Baseline
from rag_eval_pipeline.evaluation.compared_runs import (
    TASKS,
    ScoredRun,
    calibrated_measures,
    dataset_clusters,
    paired_metric,
    run_of_evaluation,
    why_not_comparable,
)
from rag_eval_pipeline.evaluation.evaluation_folders import NIGHT, Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.judges.judge_changes import JudgeCheck, check_judge
from rag_eval_pipeline.judges.recheck import KeptAnswers, find_kept
from rag_eval_pipeline.metrics.declines import NEWEST_RUNS, bet
from rag_eval_pipeline.metrics.run_labels import FINE_QUESTIONS, label_test
from rag_eval_pipeline.metrics.segments import find_segments, segment_changes, tested_values
from rag_eval_pipeline.metrics.verdict_rules import BASELINE_RUNS, CHANGES, PROCEDURE, REFERENCE_RUNS, Budget, State
from rag_eval_pipeline.metrics.verdicts import alerts, decide, first_confirmation, rerun_outcome
from rag_eval_pipeline.monitoring.baselines import flip_share_of
from rag_eval_pipeline.monitoring.causes import question_groups
from rag_eval_pipeline.monitoring.comparison import RunEvidence, gather_evidence
from rag_eval_pipeline.monitoring.night_records import (
    Night,
    Nights,
    NightWatch,
    _evaluations_since,
    _nights_on_file,
    is_rerun,
)
from rag_eval_pipeline.monitoring.verdict_records import Verdict, leading
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.workspace import Workspace

VOID_WAIT, VOID_RERUNS = timedelta(hours=1), 3  # after an outage, and how often a night


@dataclass(frozen=True, slots=True)
class BaselineRuns:
    """What a pair's nights are compared with, and how.

    Args:
        runs: The pinned ones, oldest first.
        read: Returns an evaluation's scores by its id.
        judged: Measures of the judge that take part.
        clusters: Question -> its document.
        groups: Column and value -> the questions that have it, of the segments that are tested.
        budget: Of false alarms.
        kept: The labelled answers that the judge judges again; None for a judge that is not checked.
    """

    runs: Sequence[ScoredRun]
    settings: VerdictSettings
    read: Callable[[str], ScoredRun] = field(repr=False)
    judged: Collection[str] = ()
    clusters: Mapping[str, str] | None = field(default=None, repr=False)
    groups: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict, repr=False)
    budget: Budget = Budget()
    kept: KeptAnswers | None = field(default=None, repr=False)

    def reference(self, history: Sequence[Night]) -> list[ScoredRun]:
        """Return the runs that the next night is compared with: the pinned ones and quiet nights, 20 at most.

        Those of a deterministic system are the pinned ones. A night whose evaluation is gone is left out.
        """
        found = list(self.runs)[-REFERENCE_RUNS:]
        if found[0].is_deterministic:
            return found
        return [*found, *islice(self._quiet_runs(history), REFERENCE_RUNS - len(found))]

    def all_nights(self, history: Sequence[Night]) -> list[ScoredRun]:
        """Return the newest runs of quiet nights and the pinned ones, 60 at most; of very large benchmarks 20.

        A night whose evaluation is gone is left out. The test is valid with any of them.
        """
        limit = NEWEST_RUNS if len(self.runs[0].query_ids) <= FINE_QUESTIONS else REFERENCE_RUNS
        nights = list(islice(self._quiet_runs(history[::-1]), limit))[::-1]
        return [*self.runs, *nights][-limit:]

    def _quiet_runs(self, history: Iterable[Night]) -> Iterator[ScoredRun]:
        for night in history:
            if night.joins_reference:
                run = self._read_or_none(night.evaluation_id)
                if run is not None and why_not_comparable(run, self.runs[:1]) is None:
                    yield run

    def check_judge(
        self, current: Sequence[ScoredRun], reference: Sequence[ScoredRun], history: Sequence[Night]
    ) -> JudgeCheck | None:
        """Test whether the judge of a night and its reruns is that of the reference runs and the nights before."""
        newest, earlier = ([run.recheck for run in runs if run.recheck is not None] for runs in (current, reference))
        before = history[-1].judge if history else None
        level, opened_at = self.budget.a, current[0].opened_at
        return check_judge(self.kept, newest, earlier, before, level=level, opened_at=opened_at)

    def _read_or_none(self, evaluation_id: str) -> ScoredRun | None:
        try:
            return self.read(evaluation_id)
        except InputError:
            return None

    def gather_evidence(self, current: Sequence[ScoredRun], reference: Sequence[ScoredRun]) -> RunEvidence:
        """Test a night and its reruns against reference runs."""
        return gather_evidence(
            current,
            reference,
            rules=self.settings.night_rules(len(current), self.budget),
            judged=self.judged,
            clusters=self.clusters,
            is_night=True,
        )

    def test_night(self, current: Sequence[ScoredRun], reference: Sequence[ScoredRun]) -> RunEvidence:
        """Test a night and its reruns against reference runs, and the questions of each segment by themselves."""
        rules, found = self.settings.night_rules(len(current), self.budget), self.gather_evidence(current, reference)
        places = {name: place for place, name in enumerate(found.query_ids)}
        members = {value: [places[name] for name in own if name in places] for value, own in self.groups.items()}
        changes = segment_changes(
            {name: one.paired for name, one in found.compared.items() if not one.evidence.is_advisory},
            find_segments(members, len(places)),
            rules,
            certain=[name for name, evidence in found.evidence.items() if evidence.is_certain],
        )
        return replace(found, compared={**found.compared, **{one.evidence.key: one for one in changes}})


def read_baseline_runs(
    workspace: Workspace,
    evaluation: Evaluation,
    baseline: Sequence[str],
    settings: VerdictSettings,
    *,
    n_pairs: int = 1,
) -> BaselineRuns:
    """Read the runs that an evaluation is compared with, by their ids.

    Args:
        n_pairs: That are evaluated every night.
    """
    record = evaluation.record
    read = cache(lambda name: run_of_evaluation(load_evaluation(workspace, name)))
    clusters = dataset_clusters(workspace, record.dataset_id, record.dataset_version)
    names = list(clusters)  # in the dataset's order
    queries = open_dataset(workspace.eval_json(record.dataset_id, record.dataset_version)).queries
    tested = tested_values(question_groups(queries))
    groups = {value: [names[place] for place in places] for value, places in tested.items()}
    return BaselineRuns(
        runs=[read(name) for name in baseline],
        settings=settings,
        read=read,
        judged=calibrated_measures(workspace, record.benchmark, record.fingerprints.judge),
        clusters=clusters,
        groups=groups,
        budget=Budget(settings.false_alarms_a_year, n_pairs, 0.5 if groups else 1.0),
        kept=find_kept(workspace.trust_cards, benchmark=record.benchmark, fingerprint=record.fingerprints.judge),
    )


def add_run(history: Sequence[Night], run: ScoredRun, baseline: BaselineRuns) -> tuple[Night, ...]:
    """Return the nights with one more evaluation: as the rerun of the last one or as a night of its own."""
    if history and is_rerun(history[-1], run.fingerprints, run.opened_at, baseline.settings):
        return (*history[:-1], _with_rerun(history, run, baseline))
    return (*history, new_night(history, run, baseline))


def new_night(history: Sequence[Night], run: ScoredRun, baseline: BaselineRuns) -> Night:
    """Compare an evaluation with the reference runs.

    Args:
        history: The nights before. A change that they have confirmed and alerted about needs no further rerun.
    """
    reference = baseline.reference(history)
    judge = baseline.check_judge([run], reference, history)
    found = baseline.test_night([run], reference)
    rules = baseline.settings.night_rules(1, baseline.budget)
    metrics = {}
    for name, evidence in found.evidence.items():
        confirmation = waits_for = first_confirmation(len(baseline.runs), is_certain=evidence.is_certain)
        direction = decide(evidence, confirmation=waits_for, rules=rules).kind
        if waits_for == "pending" and direction in CHANGES and _is_known(history, name, direction):
            confirmation = "confirmed"
        metrics[name] = judged_verdict(found.verdict(name, confirmation, rules), judge)
    return Night(
        procedure=PROCEDURE,
        evaluation_id=run.evaluation_id,
        opened_at=run.opened_at,
        ended_at=run.ended_at,
        fingerprints=run.fingerprints,
        reason=found.reason,
        reference=tuple(one.evaluation_id for one in reference),
        n_pairs=baseline.budget.n_pairs,
        metrics=metrics,
        judge=judge,
        watch=_night_watch(history, run, baseline, found, len(reference), judge),
    )


def judged_verdict(found: Verdict, judge: JudgeCheck | None) -> Verdict:
    """Return a metric's verdict; withheld where the judge may be what changed, unless a rerun will decide that."""
    if judge is None or found.metric not in TASKS or found.estimate is None or found.kind == "withheld":
        return found
    if found.confirmation == "pending" and judge.state != "changed":
        return found
    is_moved = found.kind in CHANGES and judge.explains(TASKS[found.metric], fell=found.estimate < 0)
    return found.withheld(judge.doubt) if judge.is_unsettled or is_moved else found


def _night_watch(
    history: Sequence[Night],
    run: ScoredRun,
    baseline: BaselineRuns,
    found: RunEvidence,
    n_reference: int,
    judge: JudgeCheck | None,
) -> NightWatch | None:
    if not found.compared or run.is_deterministic or len(baseline.runs) < BASELINE_RUNS:
        return None
    nights = baseline.all_nights(history)
    bets = {}
    whole = {name: one for name, one in found.compared.items() if one.evidence.segment is None}
    for name, (evidence, paired) in whole.items():
        is_by_judge = judge is not None and name in TASKS and judge.explains(TASKS[name], fell=True)
        if evidence.n >= baseline.settings.min_questions and not is_by_judge:
            tests = label_test(paired_metric(name, [run], nights, baseline.clusters)), label_test(paired)
            is_better = evidence.higher_is_better
            frozen = bet(tests[1], higher_is_better=is_better, frozen_runs=n_reference)
            bets[name] = bet(tests[0], higher_is_better=is_better), frozen
    # A year's false alarms are shared by all pairs, their metrics and the two comparisons; `a` is per pair and side.
    return NightWatch(alert_at=len(whole) / baseline.budget.a, bets=bets)


def _is_known(history: Sequence[Night], name: str, direction: State) -> bool:
    """Whether the same change was confirmed on an earlier night and would not alert again."""
    states = _states(history, name)
    return direction in states and not alerts([*states, direction])[-1]


def _with_rerun(history: Sequence[Night], run: ScoredRun, baseline: BaselineRuns) -> Night:
    """Decide what the last night waits for by it and all its reruns together, against the night's own reference.

    So is a change that the night has from an earlier one, unless that would ask for another rerun.
    """
    night = history[-1]
    current = [*(baseline.read(name) for name in night.runs), run]
    reference = [baseline.read(name) for name in night.reference] or list(baseline.runs)
    found = baseline.test_night(current, reference)
    rules = baseline.settings.night_rules(len(current), baseline.budget)
    judge = baseline.check_judge(current, reference, history[:-1])
    metrics = dict(night.metrics)
    for name, first in night.metrics.items():
        if first.confirmation == "confirmed" and name in found.compared:
            if (outcome := rerun_outcome(first, found.evidence[name], rules)) != "pending":
                metrics[name] = found.verdict(name, outcome, rules)
        elif first.confirmation == "pending":
            if name in found.compared:
                outcome = rerun_outcome(first, found.evidence[name], rules)
                metrics[name] = found.verdict(name, outcome, rules)
            else:
                metrics[name] = Verdict.of(first, confirmation="not_confirmed", questions=first.questions)
    for name, evidence in found.evidence.items():  # segments that the night alone did not show
        is_new = evidence.segment is not None and name not in metrics
        if is_new and rerun_outcome(evidence, evidence, rules) == "confirmed":
            metrics[name] = found.verdict(name, "confirmed", rules)
    return night.model_copy(
        update={
            "reruns": (*night.reruns, run.evaluation_id),
            "ended_at": run.ended_at,
            "metrics": {name: judged_verdict(found, judge) for name, found in metrics.items()},
            "judge": judge,
        }
    )


def alerts_due(history: Sequence[Night]) -> dict[str, list[str]]:
    """Return the metrics that each night alerts about, by evaluation id; nights without alerts are left out."""
    names = dict.fromkeys(name for night in history for name in night.metrics)
    found: dict[str, list[str]] = {}
    for name in names:
        for night, is_alert in zip(history, alerts(_states(history, name)), strict=True):
            if is_alert:
                found.setdefault(night.evaluation_id, []).append(name)
    return {evaluation_id: leading(alerted) for evaluation_id, alerted in found.items()}


def _states(history: Sequence[Night], name: str) -> list[State]:
    return [night.state(name) for night in history]


def update_nights(
    workspace: Workspace,
    evaluations: Sequence[Evaluation],
    baseline: Baseline,
    known: Nights | None,
    settings: VerdictSettings,
    *,
    n_pairs: int = 1,
) -> Nights:
    """Return the nights of a pair that are known and those published since, without writing.

    An evaluation that cannot be read is a night with that reason.

    Args:
        evaluations: The pair's published evaluations, oldest first; at least one.
        known: Those on file; they are returned if none was published since.
        n_pairs: That are evaluated every night.
    """
    record = evaluations[-1].record
    new = _evaluations_since(evaluations, baseline)
    if known is not None:
        new = [one for one in new if one.record.evaluation_id not in known.seen]
        if not new:
            return known
    runs = read_baseline_runs(workspace, evaluations[-1], baseline.evaluations, settings, n_pairs=n_pairs)
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
        finds=_finds(runs, nights),
        nights=nights,
    )


def _finds(baseline: BaselineRuns, nights: Sequence[Night]) -> str | None:
    """Return what the next night finds by the first metric; None if a single run says nothing of the noise."""
    from rag_eval_pipeline.monitoring.power import FIRST_METRIC, power_of_runs

    runs = baseline.reference(nights)
    if len(runs) < 2 and not runs[0].is_deterministic:
        return None
    name = FIRST_METRIC if FIRST_METRIC in runs[-1].columns else next(iter(runs[-1].columns))
    known = power_of_runs(
        {name: paired_metric(name, runs[-1:], runs[:-1] or runs, baseline.clusters)},
        baseline.settings,
        baseline.budget,
        n_metrics=max([1, *(len(leading(night.metrics)) for night in nights[-1:])]),
        clusters=baseline.clusters,
        is_deterministic=runs[0].is_deterministic,
    )
    return known.sentence(baseline.settings) if known.rows else None


def due_reruns(workspace: Workspace, pairs: Iterable[tuple[str, str]], *, now: datetime) -> list[tuple[str, str, str]]:
    """Return the pairs whose last night waits for a rerun that may begin now, each with its newest evaluation's id.

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
            if newest is not None and newest.record.evaluation_id == last.runs[-1]:
                due.append((benchmark, system, last.runs[-1]))
    return due


def void_pairs(
    workspace: Workspace, pairs: Iterable[tuple[str, str]], *, now: datetime
) -> dict[tuple[str, str], tuple[datetime, str]]:
    """Return the pairs whose newest evaluation is void: when each may be asked again, and a key of that attempt.

    A pair that was asked again `VOID_RERUNS` times this night is left out. One whose last attempt ended after `now`,
    by a clock that has been set back since, is asked at once.
    """
    found = {}
    for pair in pairs:
        newest = newest_evaluation(workspace, *pair)
        if newest is not None and newest.record.is_void:
            ended = [one.ended_at for one in newest.record.void if now - one.ended_at < NIGHT]
            if 1 <= len(ended) <= VOID_RERUNS:
                key = f"{newest.record.evaluation_id}#{len(newest.record.void)}"
                found[pair] = (now if ended[-1] > now else ended[-1] + VOID_WAIT), key
    return found
