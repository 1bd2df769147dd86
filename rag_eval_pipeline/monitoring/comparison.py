"""Compare evaluations question by question: better, worse, or too close to tell.

Comparisons follow `data/config/verdicts.config.yaml`. A judge's metrics take part only if it is calibrated on the
benchmark.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.compared_runs import (
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
from rag_eval_pipeline.evaluation.publishing import results_path
from rag_eval_pipeline.evaluation.quality_thresholds import VERDICTS_FILE, QualityThresholds
from rag_eval_pipeline.formats.model import Model, read_model
from rag_eval_pipeline.formats.results import open_results
from rag_eval_pipeline.metrics.verdicts import (
    FIRST_LOOK,
    RULES,
    Budget,
    Compared,
    Confirmation,
    Evidence,
    Rules,
)
from rag_eval_pipeline.monitoring.verdict_records import Decline, MovedQuestion, Verdict
from rag_eval_pipeline.workspace import Workspace

CHANGED_SHOWN = 10  # questions for each metric; all are in the evaluations' files

SINGLE_RUNS = "single runs: noise between runs is not averaged out, as a pinned baseline of five runs does"
NO_DATASET = "The dataset is not here: each question counts by itself, also where questions share a document."
NOT_CALIBRATED = "not calibrated: nobody has compared this judge with people on this benchmark"


class VerdictSettings(Model):
    """`data/config/verdicts.config.yaml`; the documented error rates were simulated with these defaults."""

    false_alarms_a_year: float = pydantic.Field(
        Budget().false_alarms_a_year,
        gt=0,
        le=100,
        description="At most so many false alarms a year by the nights of all pairs together, changes for the "
        "worse and for the better.",
    )
    alpha: float = pydantic.Field(
        2 * RULES.level,
        gt=0,
        lt=1,
        description="Level of the two-sided test of two evaluations (`compare`, A/B tests), after Holm's correction "
        "over the metrics.",
    )
    min_effect: float = pydantic.Field(
        RULES.min_effect, ge=0, le=1, description="Smaller changes, as a share of a metric's range, are never reported."
    )
    equivalence_margin: float = pydantic.Field(
        RULES.equivalence_margin, gt=0, le=1, description="A change is small if its whole interval is within this."
    )
    min_questions: int = pydantic.Field(
        RULES.min_questions, ge=2, description="Fewer questions get no verdict, however many documents they share."
    )
    rerun_after_hours: float = pydantic.Field(
        2.0,
        ge=0,
        description="Minimum hours between a flagged night and its rerun, so that one bad hour "
        "of a server does not confirm itself.",
    )
    blocking: bool = pydantic.Field(False, description="A confirmed regression fails the run; otherwise it warns.")
    quality_thresholds: QualityThresholds = pydantic.Field(QualityThresholds(), description="Limits on the metrics.")

    def rules(self) -> Rules:
        """Return the rules of a comparison of two evaluations."""
        return Rules(level=self.alpha / 2, final_level=self.alpha / 2, **self._limits())

    def night_rules(self, runs: int, budget: Budget) -> Rules:
        """Return the rules of a night with its reruns: a first look alone, a decision by the budget with them."""
        level, text = (FIRST_LOOK, "for a rerun") if runs == 1 else (budget.level(runs), budget.text)
        return Rules(level=level, level_text=text, final_level=budget.level(2), final_runs=2, **self._limits())

    def _limits(self) -> dict[str, Any]:
        return self.model_dump(include={"min_effect", "equivalence_margin", "min_questions"})


def read_verdict_settings(workspace: Workspace) -> VerdictSettings:
    """Read the settings; the defaults if there is no file."""
    return read_model(VerdictSettings, workspace.config / VERDICTS_FILE)


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

    def verdict(self, name: str, confirmation: Confirmation, rules: Rules) -> Verdict:
        """Decide a metric; a flagged change is confirmed that far."""
        evidence = self.compared[name].evidence
        return Verdict.of(evidence, confirmation=confirmation, rules=rules, questions=self.moved(name))

    def verdicts(self, confirmation: Confirmation, rules: Rules) -> dict[str, Verdict]:
        """Decide each metric."""
        return {name: self.verdict(name, confirmation, rules) for name in self.compared}


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


class Comparison(Model):
    """Two sides on one benchmark and a verdict for each metric: a row of `regressions.json`."""

    kind: Literal["baseline", "systems", "evaluations", "weekly", "ab_test"]
    benchmark: str = pydantic.Field(min_length=1)
    old: str = pydantic.Field(min_length=1)  # the side that is compared with: `baseline`, a system or an evaluation
    new: str = pydantic.Field(min_length=1)  # the side in question
    evaluation_id: str | None = None  # the newer evaluation; of a night the first one
    rerun: str | None = None  # the evaluation that ran it again
    reason: str | None = None  # why there are no verdicts: `no_baseline`, `is_baseline`, `different_dataset`, ...
    note: str | None = None  # a sentence about the comparison, such as how steady the unchanged system is
    newest: tuple[str, ...] = ()  # the newest evaluations of the systems when they were compared, that of `old` first
    verdicts: dict[str, Verdict] = pydantic.Field(default_factory=dict)  # metric -> verdict
    declines: tuple[Decline, ...] = ()  # the evidence that metrics decline over nights, the strongest first

    @property
    def moved(self) -> dict[str, tuple[MovedQuestion, ...]]:
        """Metric -> the questions that changed most."""
        return {name: found.questions for name, found in self.verdicts.items() if found.questions}

    @property
    def regressed(self) -> list[str]:
        """The metrics that got worse, confirmed or not."""
        return [name for name, found in self.verdicts.items() if found.kind == "regressed"]


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
    return Comparison(
        kind=kind,
        benchmark=run.benchmark,
        old=old,
        new=new,
        evaluation_id=run.evaluation_id,
        reason=found.reason,
        verdicts=found.verdicts(confirmation, rules),
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


_RESCORE = "Score the answers of both again: rag-eval rescore"
_SAME_AGAIN = "Evaluate both systems on the same state of the benchmark."
_REMEDIES = {"different_metrics": _RESCORE, "different_judge": _RESCORE, "nothing_scored": None}


def not_comparable(
    place: str, reason: str, before: ComparedRun, now: ComparedRun, hint: str | None = None
) -> InputError:
    """Return the error `not_comparable`, with the datasets of both sides if they differ, and what to do."""
    datasets = f": {before.dataset} before, {now.dataset} now" if before.dataset != now.dataset else ""
    remedy = hint or _REMEDIES.get(reason, _SAME_AGAIN)
    return InputError(
        "not_comparable", place, "evaluations of the same questions", found=f"{reason}{datasets}", hint=remedy
    )


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
    if not (workspace.runs / name / "evaluation.json").exists() and results_path(workspace, name).exists():
        return _side_of_results(results_path(workspace, name))
    return compared_run(load_evaluation(workspace, name))


def _side_of_results(path: Path) -> ComparedRun:
    results = open_results(path).head
    return ComparedRun(run_of_results(path), results.dataset_id, results.dataset_version)
