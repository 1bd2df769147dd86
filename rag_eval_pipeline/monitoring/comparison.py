"""Compare evaluations question by question: better, worse, or too close to tell.

Comparisons follow `data/config/verdicts.config.yaml`. A judge's metrics take part only if it is calibrated on the
benchmark.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.compared_runs import (
    TASKS,
    ScoredRun,
    calibrated_measures,
    compare_scores,
    dataset_clusters,
    mean_run,
    run_of_evaluation,
    run_of_results,
    why_not_comparable,
)
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.formats.results import open_results
from rag_eval_pipeline.judges.trust_card import is_other_model
from rag_eval_pipeline.metrics.verdict_rules import Confirmation, Rules
from rag_eval_pipeline.metrics.verdicts import Compared, Evidence
from rag_eval_pipeline.monitoring.verdict_records import Comparison, MovedQuestion, Verdict
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.workspace import Workspace

SCORED_OTHERWISE = ("different_metrics", "different_judge")  # reasons that scoring the same answers again removes
CHANGED_SHOWN = 10  # questions for each metric; all are in the evaluations' files

NO_DATASET = "The dataset is not here: each question counts by itself, also where questions share a document."


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The evidence on each metric of a night or a run, or the reason why there is none (`different_dataset`, ...).

    `moved` has the questions of each metric that changed most in the direction of its mean.
    """

    compared: Mapping[str, Compared] = field(default_factory=dict)
    query_ids: Sequence[str] = ()
    reason: str | None = None

    @property
    def evidence(self) -> dict[str, Evidence]:
        """Metric -> evidence."""
        return {name: found.evidence for name, found in self.compared.items()}

    def moved(self, name: str) -> tuple[MovedQuestion, ...]:
        """Return the questions of a metric that changed most in the direction of its mean."""
        estimate = self.compared[name].evidence.estimate
        if not estimate:
            return ()
        paired = self.compared[name].paired
        places, (before, after) = np.flatnonzero(paired.is_pair), paired.means
        towards = (after - before) * np.sign(estimate)
        order = [int(n) for n in np.argsort(-towards, kind="stable")[:CHANGED_SHOWN] if towards[n] > 0]
        return tuple(
            MovedQuestion(query_id=self.query_ids[places[n]], before=float(before[n]), after=float(after[n]))
            for n in order
        )

    def verdict(self, name: str, confirmation: Confirmation, rules: Rules, *, is_one_system: bool = True) -> Verdict:
        """Decide a metric; a flagged change is confirmed that far."""
        evidence = self.compared[name].evidence
        return Verdict.of(
            evidence, confirmation=confirmation, rules=rules, questions=self.moved(name), is_one_system=is_one_system
        )

    def verdicts(self, confirmation: Confirmation, rules: Rules, *, is_one_system: bool = True) -> dict[str, Verdict]:
        """Decide each metric."""
        return {name: self.verdict(name, confirmation, rules, is_one_system=is_one_system) for name in self.compared}


def gather_evidence(
    current: Sequence[ScoredRun],
    reference: Sequence[ScoredRun],
    *,
    rules: Rules,
    judged: Collection[str] = (),
    clusters: Mapping[str, str] | None = None,
    is_night: bool = False,
) -> RunEvidence:
    """Test each metric as `compare_scores` does."""
    found, reason = compare_scores(current, reference, rules=rules, judged=judged, clusters=clusters, is_night=is_night)
    return RunEvidence(found, current[0].query_ids, reason)


ComparisonKind = Literal["systems", "evaluations", "ab_test"]


def compare_runs(
    kind: ComparisonKind,
    run: ScoredRun,
    others: Sequence[ScoredRun],
    *,
    old: str,
    new: str,
    settings: VerdictSettings = VerdictSettings(),  # noqa: B008  # frozen
    judged: frozenset[str] = frozenset(),
    clusters: Mapping[str, str] | None = None,
    confirmation: Confirmation = "no_rerun",
) -> Comparison:
    """Decide each metric of a run against another run, or the mean of several, without a rerun.

    The question is whether it holds for other questions of the kind, so that documents are the units; those of
    deterministic systems are the questions.

    Args:
        kind: `systems`, `evaluations` or `ab_test`.
        others: At least one.
        judged: Measures of the judge that take part.
        clusters: Question -> its document.
        confirmation: Of changes, unless all runs are deterministic.
    """
    rules = settings.rules()
    # A deterministic system would answer the same again: a rerun would confirm every change.
    if all(one.is_deterministic for one in (run, *others)):
        confirmation, clusters = "not_needed", None
    reason = next(filter(None, (why_not_comparable(run, [other]) for other in others)), None)
    found = (
        RunEvidence(reason=reason)
        if reason
        else gather_evidence([run], [mean_run(others)], rules=rules, judged=judged, clusters=clusters)
    )
    verdicts = found.verdicts(confirmation, rules, is_one_system=kind == "evaluations")
    before = {name for one in others for name in one.judge_models}
    if is_other_model(now := run.judge_models, before):
        doubt = f"the judge's server answered as {', '.join(sorted(before))} before, and now as {', '.join(now)}"
        verdicts = {name: one.withheld(doubt) if name in TASKS else one for name, one in verdicts.items()}
    return Comparison(
        kind=kind,
        benchmark=run.benchmark,
        old=old,
        new=new,
        evaluation_id=run.evaluation_id,
        reason=found.reason,
        verdicts=verdicts,
    )


class ComparedRun(NamedTuple):
    """A side of a comparison with the dataset that it was evaluated on."""

    run: ScoredRun
    dataset_id: str
    version: str

    @property
    def dataset(self) -> str:
        """`handbook 1.0.0 (1f3c09aa)`: id, version and the digest of the content."""
        return f"{self.dataset_id} {self.version} ({self.run.fingerprints.dataset[:8]})"


def compared_run(evaluation: Evaluation) -> ComparedRun:
    """Read an evaluation as a side of a comparison."""
    record = evaluation.record
    return ComparedRun(run_of_evaluation(evaluation), record.dataset_id, record.dataset_version)


def not_comparable(
    place: str, reason: str, before: ComparedRun, now: ComparedRun, hint: str | None = None
) -> InputError:
    """Return the error `not_comparable`, with the datasets of both sides if they differ, and what to do."""
    datasets = f": {before.dataset} before, {now.dataset} now" if before.dataset != now.dataset else ""
    remedy = hint or _remedy(reason, before.run, now.run)
    expected = "evaluations scored alike" if reason in SCORED_OTHERWISE else "evaluations of the same questions"
    return InputError("not_comparable", place, expected, found=f"{reason}{datasets}", hint=remedy)


def pin_again(reason: str, benchmark: str, system: str, pinned: Sequence[str]) -> str:
    """Return what to do if a system is not comparable with its baseline; it is asked only if it must be."""
    if reason not in SCORED_OTHERWISE:
        return f"Pin evaluations of the present state: rag-eval pin {benchmark} {system} --ask"
    return (
        f"Score the pinned answers again, rag-eval rescore {benchmark} {system} {' '.join(pinned)}, and pin the "
        f"evaluations that it prints: rag-eval pin {benchmark} {system} EVALUATION..."
    )


def _remedy(reason: str, before: ScoredRun, now: ScoredRun) -> str | None:
    if before.benchmark != now.benchmark:
        return "Name two evaluations of one benchmark."
    if reason == "nothing_scored":
        return None
    if reason in SCORED_OTHERWISE:
        commands = dict.fromkeys(f"rag-eval rescore {one.benchmark} {one.system}" for one in (before, now))
        return f"Score the answers of both again: {' and '.join(commands)}"
    older = min(before, now, key=lambda one: one.opened_at)
    return f"Ask the older one's questions again: rag-eval evaluate {older.benchmark} --system {older.system}"


def compare_named(workspace: Workspace | None, old: str, new: str) -> Comparison:
    """Compare two evaluations that are named by their ids or by the paths of results files.

    Args:
        workspace: Where ids are looked up; None if only files can be compared.

    Raises:
        InputError: `not_comparable` with the reason; `missing_file`, or an error in the files.
    """
    before, side = _side(workspace, old), _side(workspace, new)
    settings, judged, clusters = VerdictSettings(), frozenset[str](), None
    if workspace is not None:
        settings = read_verdict_settings(workspace)
        judged = calibrated_measures(workspace, side.run.benchmark, side.run.fingerprints.judge)
        if workspace.eval_json(side.dataset_id, side.version).exists():
            clusters = dataset_clusters(workspace, side.dataset_id, side.version)
    found = compare_runs(
        "evaluations", side.run, [before.run], old=old, new=new, settings=settings, judged=judged, clusters=clusters
    )
    if found.reason:
        raise not_comparable(f"{old} and {new}", found.reason, before, side)
    return found.model_copy(update={"note": NO_DATASET}) if clusters is None else found


def _side(workspace: Workspace | None, name: str) -> ComparedRun:
    """Read an evaluation by its id or file; if its folder is gone, its published results."""
    if Path(name).is_file():
        return _side_of_results(Path(name))
    if workspace is None or "/" in name:
        raise InputError("missing_file", name, "an evaluation id, or a results file", hint="Name one: --workspace DIR")
    if not (workspace.runs / name / "evaluation.json").exists() and workspace.results_file(name).exists():
        return _side_of_results(workspace.results_file(name))
    return compared_run(load_evaluation(workspace, name))


def _side_of_results(path: Path) -> ComparedRun:
    results = open_results(path).head
    return ComparedRun(run_of_results(path), results.dataset_id, results.dataset_version)
