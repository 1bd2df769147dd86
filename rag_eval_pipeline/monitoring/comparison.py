"""Compare evaluations question by question: better, worse, or too close to tell.

Comparisons follow `data/config/verdicts.config.yaml`. A judge's metrics take part only if it is calibrated on the
benchmark.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.means import question_clusters
from rag_eval_pipeline.evaluation.publishing import results_path
from rag_eval_pipeline.evaluation.quality_thresholds import VERDICTS_FILE, QualityThresholds
from rag_eval_pipeline.evaluation.score_tables import PAGE, read_scores
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.formats.model import Model, read_model
from rag_eval_pipeline.formats.results import Fingerprints, open_results
from rag_eval_pipeline.judges.recheck import Judging, read_judging
from rag_eval_pipeline.judges.trust_card import Task, is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.intervals import Units, number_units
from rag_eval_pipeline.metrics.run_labels import PairedRuns
from rag_eval_pipeline.metrics.verdicts import (
    FAILURE_RATE,
    FIRST_LOOK,
    RULES,
    Budget,
    Compared,
    ComparedMetric,
    Confirmation,
    Evidence,
    Rules,
    compare,
    paired_scores,
)
from rag_eval_pipeline.monitoring.verdict_records import Decline, MovedQuestion, Verdict
from rag_eval_pipeline.workspace import Workspace

SHARED_FINGERPRINTS = ("dataset", "corpus", "metrics", "judge")  # systems and their servers are what is compared
CHANGED_SHOWN = 10  # questions for each metric; all are in the evaluations' files

SINGLE_RUNS = "single runs: noise between runs is not averaged out, as a pinned baseline of five runs does"
NO_DATASET = "The dataset is not here: each question counts by itself, also where questions share a document."
NOT_CALIBRATED = "not calibrated: nobody has compared this judge with people on this benchmark"
# Metrics that need a judge, and the labels that vouch for it.
TASKS: dict[str, Task] = {"judged_correct": "correctness", "faithfulness": "support"}


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


# Score file -> the measures that are compared; few, because each one makes the corrected p of the others larger.
COMPARED: dict[str, tuple[str, ...]] = {
    "retrieval_scores": ("hit@1", "hit@5", "ndcg@10", "mrr"),
    "citation_scores": ("tolerance_jaccard",),
    "answer_scores": ("exact_match", "f1"),
    "judge_scores": ("judged_correct", "faithfulness"),
}
RESULTS_NAMES = {"tolerance_jaccard": "citation_span_accuracy"}  # in `individual_metrics` of results files


@dataclass(frozen=True, slots=True)
class Column:
    """One measure's score of each question, and whether it applies to the question, as far as this run knows."""

    scores: tuple[float | None, ...]
    asked: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """An evaluation with its scores.

    Args:
        is_deterministic: The system gives the same answers again.
        ended_at: When the last answer arrived.
        query_ids: In the dataset's order.
        columns: Measures with any score, and always the failure rate.
        recheck: The judge's verdicts on labelled answers at that time.
    """

    evaluation_id: str
    benchmark: str
    system: str
    fingerprints: Fingerprints
    is_deterministic: bool
    is_by_page: bool
    opened_at: datetime
    ended_at: datetime
    query_ids: tuple[str, ...]
    columns: Mapping[str, Column]
    recheck: Judging | None = None


def run_of_evaluation(evaluation: Evaluation) -> ScoredRun:
    """Read the scores in an evaluation's folder."""
    record = evaluation.record
    columns: dict[str, Column] = {}
    same: dict[float, float] = {}  # equal scores of very many questions share one object
    for file, measures in COMPARED.items():
        table = read_scores(evaluation.scores(file))
        for name in with_levels(file, measures):
            values, has = table.values(name)
            if has.any():
                given = (same.setdefault(score, score) for score in values.tolist())
                columns[name] = Column(
                    tuple(next(given) if one else None for one in has.tolist()),
                    tuple((has | table.has("failed")).tolist()),
                )
        if file == "answer_scores":
            answers = table
    return ScoredRun(
        evaluation_id=record.evaluation_id,
        benchmark=record.benchmark,
        system=record.system,
        fingerprints=record.fingerprints,
        is_deterministic=record.deterministic,
        is_by_page=record.retrieval_level == "page",
        opened_at=record.opened_at,
        ended_at=record.answered_at or record.opened_at,
        query_ids=tuple(map(sys.intern, answers.query_ids)),  # the same in all runs
        columns=columns | {FAILURE_RATE: _failures(answers.has("failed").tolist())},
        recheck=read_judging(evaluation.recheck),
    )


def run_of_results(path: Path) -> ScoredRun:
    """Read the scores in a results file."""
    results, rows = open_results(path)
    names = [name for file, measures in COMPARED.items() for name in with_levels(file, measures)]
    scores: dict[str, list[float | None]] = {name: [] for name in names}
    query_ids, failed = [], []
    for row in rows:
        query_ids.append(row.query_id)
        failed.append(row.status != "ok")
        for name, column in scores.items():
            column.append(row.individual_metrics.get(RESULTS_NAMES.get(name, name)))
    columns = {
        name: Column(tuple(column), tuple(score is not None for score in column))
        for name, column in scores.items()
        if any(score is not None for score in column)
    }
    return ScoredRun(
        evaluation_id=results.evaluation_id,
        benchmark=results.benchmark,
        system=results.system,
        fingerprints=results.fingerprints,
        is_deterministic=False,
        is_by_page=results.retrieval_level == "page",
        opened_at=results.timestamp,
        ended_at=results.timestamp,
        query_ids=tuple(query_ids),
        columns=columns | {FAILURE_RATE: _failures(failed)},
    )


def with_levels(file: str, measures: Iterable[str]) -> list[str]:
    """Return the names of a score file's measures; those of retrieval by document, then by page."""
    levels = ("", PAGE) if file == "retrieval_scores" else ("",)
    return [level + measure for level in levels for measure in measures]


def _failures(failed: Iterable[bool]) -> Column:
    scores = tuple(map(float, failed))
    return Column(scores, (True,) * len(scores))


def calibrated_measures(workspace: Workspace, benchmark: str, fingerprint: str | None) -> frozenset[str]:
    """Return the judge's measures that take part in comparisons: those calibrated with people's labels."""
    cards = read_trust_cards(workspace.trust_cards)
    return frozenset(
        measure
        for measure, task in TASKS.items()
        if is_calibrated(cards, benchmark=benchmark, fingerprint=fingerprint, task=task)
    )


def dataset_clusters(workspace: Workspace, dataset_id: str, version: str) -> dict[str, str]:
    """Return question -> its documents as one name."""
    return question_clusters(open_dataset(workspace.eval_json(dataset_id, version)).queries)


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
    """Test each metric of a night, or of a single run, against reference runs over the same questions.

    Args:
        current: The night and its reruns, or one run.
        reference: At least one.
        judged: Measures of the judge that take part.
        clusters: Question -> its document; None if each question stands for itself.
        is_night: Of the same system, so that a deterministic one is not tested.
    """
    runs = [*current, *reference]
    for run in current:
        if reason := why_not_comparable(run, reference):
            return RunEvidence(reason=reason)
    names = _compared_names(current[0], reference, judged)
    if not any(name in run.columns for name in names for run in current):
        return RunEvidence(reason="nothing_scored")
    metrics = [_compared_metric(name, runs, len(current)) for name in (*names, FAILURE_RATE)]
    units = _units(clusters, current[0].query_ids)
    is_deterministic = is_night and all(run.is_deterministic for run in runs)
    found = compare(metrics, units=units, is_deterministic=is_deterministic, rules=rules)
    return RunEvidence(found, current[0].query_ids)


def paired_metric(
    name: str, current: Sequence[ScoredRun], reference: Sequence[ScoredRun], clusters: Mapping[str, str] | None
) -> PairedRuns:
    """Return the scores of one measure that are compared, with documents as units."""
    metric = _compared_metric(name, [*current, *reference], len(current))
    return paired_scores(metric, _units(clusters, current[0].query_ids))


def _units(clusters: Mapping[str, str] | None, query_ids: Sequence[str]) -> Units | None:
    if clusters is None:
        return None
    return number_units([clusters.get(name, name) for name in query_ids], len(query_ids))


def why_not_comparable(run: ScoredRun, others: Sequence[ScoredRun]) -> str | None:
    """Return why runs cannot be compared; None if they can."""
    for other in others:
        for part in SHARED_FINGERPRINTS:
            if getattr(other.fingerprints, part) != getattr(run.fingerprints, part):
                return f"different_{part}"
    return "different_questions" if any(other.query_ids != run.query_ids for other in others) else None


def are_alike(prints: Mapping[str, str | None], others: Mapping[str, str | None]) -> bool:
    """Return whether the means of two results can be compared: they share all of `SHARED_FINGERPRINTS`."""
    return all(prints.get(part) == others.get(part) for part in SHARED_FINGERPRINTS)


def _compared_names(run: ScoredRun, others: Sequence[ScoredRun], judged: Collection[str]) -> list[str]:
    """Return the measures that the run has, and those that all others have: a loss of scores is not left out."""
    names = []
    for file, measures in COMPARED.items():
        level = PAGE if file == "retrieval_scores" and run.is_by_page else ""
        names += [level + measure for measure in measures if measure not in TASKS or measure in judged]
    return [name for name in names if name in run.columns or all(name in other.columns for other in others)]


def _compared_metric(name: str, runs: Sequence[ScoredRun], n_current: int) -> ComparedMetric:
    columns = []
    for run in runs:
        failed = run.columns[FAILURE_RATE].scores  # of a measure that a run lacks, failed questions count as asked
        absent = Column((None,) * len(failed), tuple(map(bool, failed)))
        columns.append(run.columns.get(name, absent))
    asked = zip(*(column.asked for column in columns), strict=True)
    return ComparedMetric(
        name=name,
        current=[column.scores for column in columns[:n_current]],
        reference=[column.scores for column in columns[n_current:]],
        higher_is_better=name != FAILURE_RATE,
        applies=[any(question) for question in asked],
    )


def mean_run(runs: Sequence[ScoredRun]) -> ScoredRun:
    """Return runs of one system as one; a question without a score in one of them has none, nor has a measure."""
    if len(runs) == 1:
        return runs[0]
    columns = {}
    for name in runs[-1].columns:
        if all(name in run.columns for run in runs):
            scores = np.array([run.columns[name].scores for run in runs], dtype=np.float64)
            means = scores[0] + (scores - scores[0]).mean(axis=0)  # runs that agree have exactly their score as mean
            asked = np.any([run.columns[name].asked for run in runs], axis=0)
            columns[name] = Column(tuple(None if np.isnan(x) else x for x in means.tolist()), tuple(asked.tolist()))
    return replace(runs[-1], columns=columns)


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


ComparisonKind = Literal["systems", "evaluations", "baseline", "ab_test"]


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
