"""One look at an evaluation: the evidence of each metric against other runs, and the questions that moved most."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pydantic

from rag_eval_pipeline.evaluation.question_documents import question_clusters
from rag_eval_pipeline.evaluation.scores_file import PAGE
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.evidence import FAILURE_RATE, ComparedMetric, Evidence, Rules, compare
from rag_eval_pipeline.metrics.significance import comparison_seed, paired_differences
from rag_eval_pipeline.reporting.scored_runs import COMPARED, Column, ScoredRun
from rag_eval_pipeline.reporting.trust import TASKS
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings
from rag_eval_pipeline.workspace import Workspace

SHARED_PRINTS = ("dataset", "corpus", "metrics", "judge")  # the system and its server are what is compared
MOVED_SHOWN = 10  # questions a metric; more are in the files of the evaluations


class Moved(Model):
    """A question whose score is not what it was."""

    query_id: str = pydantic.Field(description="Which.")
    before: float = pydantic.Field(description="Mean over the runs that are compared with.")
    after: float = pydantic.Field(description="Now.")


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of each metric, or why nothing is.

    Args:
        evidence: Metric -> what is known; empty with a `reason`.
        moved: Metric -> the questions that moved most in the direction of its mean; none where the mean did not move.
        reason: `different_dataset`, `different_questions`, `nothing_scored`, ...
    """

    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    moved: Mapping[str, tuple[Moved, ...]] = field(default_factory=dict)
    reason: str | None = None


def look(
    tonight: ScoredRun,
    others: Sequence[ScoredRun],
    *,
    key: str,
    rules: Rules,
    judged: Collection[str] = (),
    clusters: Mapping[str, str] | None = None,
) -> Look:
    """The evidence for each metric of an evaluation against other runs of the same questions.

    Args:
        tonight: The evaluation in question.
        others: One or more; their mean is compared with.
        key: What is compared, for the seed: equal keys and runs, equal p.
        rules: Alpha, minimum effect and number of flips.
        judged: Measures of the judge that take part; the others gate nothing.
        clusters: Question -> its document; see `Rules.units`. None tests questions.
    """
    if reason := difference_of(tonight, others):
        return Look(reason=reason)
    names = _names(tonight, judged)
    if not names:
        return Look(reason="nothing_scored")
    metrics = [_metric(name, [tonight, *others]) for name in (*names, FAILURE_RATE)]
    seed = comparison_seed(key, [run.evaluation_id for run in (*others, tonight)])
    units = None if clusters is None else [clusters.get(name, name) for name in tonight.query_ids]
    # Nothing moves when a deterministic system is asked again.
    is_deterministic = all(run.is_deterministic for run in (tonight, *others))
    evidence = compare(metrics, seed=seed, clusters=units, is_deterministic=is_deterministic, rules=rules)
    moved = {metric.name: _moved(metric, evidence[metric.name], tonight.query_ids) for metric in metrics}
    return Look(evidence, moved)


def difference_of(tonight: ScoredRun, others: Sequence[ScoredRun]) -> str | None:
    """Why runs cannot be compared; None when they can."""
    for other in others:
        for part in SHARED_PRINTS:
            if getattr(other.fingerprints, part) != getattr(tonight.fingerprints, part):
                return f"different_{part}"
    return "different_questions" if any(run.query_ids != tonight.query_ids for run in others) else None


def dataset_clusters(
    workspace: Workspace, dataset_id: str, version: str, settings: VerdictSettings
) -> dict[str, str] | None:
    """Question -> the documents that it is about, as one name; None where the settings count questions.

    Raises:
        InputError: The dataset cannot be read.
    """
    if settings.units == "questions":
        return None
    return question_clusters(EvaluationDataset.read(workspace.eval_json(dataset_id, version)).queries)


def _names(run: ScoredRun, judged: Collection[str]) -> list[str]:
    """What is compared of a run, under the names that its columns have."""
    names = []
    for file, measures in COMPARED.items():
        level = PAGE if file == "retrieval_scores" and run.is_by_page else ""
        names += [level + measure for measure in measures if measure not in TASKS or measure in judged]
    return [name for name in names if name in run.columns]


def _metric(name: str, runs: Sequence[ScoredRun]) -> ComparedMetric:
    columns = [run.columns.get(name) or _absent(run) for run in runs]
    asked = zip(*(column.asked for column in columns), strict=True)
    return ComparedMetric(
        name=name,
        tonight=columns[0].scores,
        baselines=[column.scores for column in columns[1:]],
        higher_is_better=name != FAILURE_RATE,
        applies=[any(question) for question in asked],
    )


def _absent(run: ScoredRun) -> Column:
    """A measure that a run has for no question: what it failed on counts as asked."""
    failed = run.columns[FAILURE_RATE].scores
    return Column((None,) * len(failed), tuple(bool(one) for one in failed))


def _moved(metric: ComparedMetric, evidence: Evidence, query_ids: Sequence[str]) -> tuple[Moved, ...]:
    if not evidence.estimate:
        return ()
    differences = np.nan_to_num(paired_differences(metric.tonight, metric.baselines))
    towards = differences * np.sign(evidence.estimate)
    order = [int(place) for place in np.argsort(-towards, kind="stable")[:MOVED_SHOWN] if towards[place] > 0]
    return tuple(
        Moved(query_id=query_ids[place], before=after - float(differences[place]), after=after)
        for place in order
        for after in [metric.tonight[place]]
        if after is not None
    )
