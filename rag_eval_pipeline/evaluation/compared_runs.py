"""The scores of evaluations that are compared with each other, question by question, and the test of their metrics."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from rag_eval_pipeline.evaluation.evaluation_folders import JUDGE_MODEL, Evaluation
from rag_eval_pipeline.evaluation.score_tables import PAGE, read_scores
from rag_eval_pipeline.formats.dataset import open_dataset, question_clusters
from rag_eval_pipeline.formats.results import Fingerprints, open_results
from rag_eval_pipeline.judges.recheck import Judging, read_judging
from rag_eval_pipeline.judges.trust_card import Task, is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.claims import FACT_MEASURES
from rag_eval_pipeline.metrics.intervals import Units, number_units
from rag_eval_pipeline.metrics.run_labels import PairedRuns
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE, Rules
from rag_eval_pipeline.metrics.verdicts import Compared, ComparedMetric, compare, paired_scores
from rag_eval_pipeline.workspace import Workspace

SHARED_FINGERPRINTS = (
    "dataset",
    "corpus",
    "history",
    "metrics",
    "judge",
)  # systems and their servers are what is compared
# Metrics that need a judge, and the labels that vouch for it.
TASKS: dict[str, Task] = {
    "judged_correct": "correctness", "faithfulness": "support", "strict_vital_score": "correctness",
}  # fmt: skip
_BY_RULES = "lexical/"  # fingerprint of the judge that finds numbers and names as exact match finds words
# Score file -> the measures that are compared; few, because each one makes the corrected p of the others larger.
COMPARED: dict[str, tuple[str, ...]] = {
    "retrieval_scores": ("hit@1", "hit@5", "ndcg@10", "mrr"),
    "citation_scores": ("tolerance_jaccard",),
    "answer_scores": ("exact_match", "f1"),
    "judge_scores": ("judged_correct", "faithfulness", "strict_vital_score"),
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
        judge_models: As the judge's server reported them.
        critical: Metrics that get a verdict; none stands for all.
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
    judge_models: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()


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
        judge_models=record.known.get(JUDGE_MODEL, ()),
        critical=record.settings.critical_metrics,
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
        judge_models=() if results.judge is None else results.judge.models,
    )


def with_levels(file: str, measures: Iterable[str]) -> list[str]:
    """Return the names of a score file's measures; those of retrieval by document, then by page."""
    levels = ("", PAGE) if file == "retrieval_scores" else ("",)
    return [level + measure for level in levels for measure in measures]


def _failures(failed: Iterable[bool]) -> Column:
    scores = tuple(map(float, failed))
    return Column(scores, (True,) * len(scores))


def task_of(measure: str, fingerprint: str | None) -> Task | None:
    """Return what a judge with this fingerprint must be calibrated for, so that a measure counts; None for nothing."""
    is_by_rules = measure in FACT_MEASURES and (fingerprint or "").startswith(_BY_RULES)
    return None if is_by_rules else TASKS.get(measure)


def calibrated_measures(workspace: Workspace, benchmark: str, fingerprint: str | None) -> frozenset[str]:
    """Return the judge's measures that take part in comparisons: calibrated with people's labels, or in no need."""
    cards = read_trust_cards(workspace.trust_cards)
    return frozenset(
        measure
        for measure in TASKS
        if (task := task_of(measure, fingerprint)) is None
        or is_calibrated(cards, benchmark=benchmark, fingerprint=fingerprint, task=task)
    )


def dataset_clusters(workspace: Workspace, dataset_id: str, version: str) -> dict[str, str]:
    """Return question -> its documents as one name."""
    return question_clusters(open_dataset(workspace.eval_json(dataset_id, version)).queries)


def compare_scores(
    current: Sequence[ScoredRun],
    reference: Sequence[ScoredRun],
    *,
    rules: Rules,
    judged: Collection[str] = (),
    clusters: Mapping[str, str] | None = None,
    is_night: bool = False,
) -> tuple[dict[str, Compared], str | None]:
    """Test each metric of a night, or of a single run, against reference runs over the same questions.

    Args:
        current: The night and its reruns, or one run.
        reference: At least one.
        judged: Measures of the judge that take part.
        clusters: Question -> its document; None if each question stands for itself.
        is_night: Of the same system, so that a deterministic one is not tested.

    Returns:
        The evidence by metric, and why there is none (`different_dataset`, ...).
    """
    runs = [*current, *reference]
    for run in current:
        if reason := why_not_comparable(run, reference):
            return {}, reason
    names = _compared_names(current[0], reference, judged)
    if not any(name in run.columns for name in names for run in current):
        return {}, "nothing_scored"
    metrics = [_compared_metric(name, runs, len(current)) for name in (*names, FAILURE_RATE)]
    units = _units(clusters, current[0].query_ids)
    is_deterministic = is_night and all(run.is_deterministic for run in runs)
    return compare(metrics, units=units, is_deterministic=is_deterministic, rules=rules), None


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


DIFFERENT = frozenset(f"different_{part}" for part in (*SHARED_FINGERPRINTS, "questions"))


def different_part(prints: Fingerprints, others: Fingerprints) -> str | None:
    """Return the first of `SHARED_FINGERPRINTS` in which two evaluations differ; None if they can be compared."""
    return next((part for part in SHARED_FINGERPRINTS if getattr(prints, part) != getattr(others, part)), None)


def why_not_comparable(run: ScoredRun, others: Sequence[ScoredRun]) -> str | None:
    """Return why runs cannot be compared; None if they can."""
    for other in others:
        if (part := different_part(run.fingerprints, other.fingerprints)) is not None:
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
        is_advisory=name != FAILURE_RATE
        and bool(critical := runs[0].critical)
        and name.removeprefix(PAGE) not in critical,
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
