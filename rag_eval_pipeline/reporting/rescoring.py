"""Old answers scored anew with today's measures and judge; nobody is asked again.

A new measure or judge makes old evaluations incomparable with new ones (`different_metrics`, `different_judge`). Their
answers are copied into evaluations of their own, dated as they were, and scored as answers are scored today; five of
them make a new baseline. The pair's newest evaluation stays the newest. Results that were damaged come back the same
way, from the answers, under an id of their own.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.results import publish
from rag_eval_pipeline.evaluation.runs import Evaluation, copy_for_scoring, load_evaluation, locked_pair, same_scoring
from rag_eval_pipeline.evaluation.scoring import SCORERS
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.reporting.baselines import published_evaluations
from rag_eval_pipeline.workspace import Workspace


def rescore(workspace: Workspace, pair: Pair, evaluation_ids: Sequence[str] = ()) -> Iterator[EvaluationResults]:
    """Scores published evaluations of a pair anew, one after the other, oldest first.

    Args:
        workspace: Where.
        pair: As it is today.
        evaluation_ids: Which; all whose measures or judge are not today's unless given.

    Raises:
        InputError: `other_pair`, `not_published`, `other_dataset` when the answers are to other questions or documents,
            `nothing_to_rescore`.
    """
    benchmark, system = pair.paths.name, pair.system
    if evaluation_ids:
        chosen = [load_evaluation(workspace, name) for name in evaluation_ids]
    else:
        chosen = _scored_otherwise(published_evaluations(workspace, benchmark, system), pair)
    for one in chosen:
        _check(one, pair)
    if not chosen:
        raise InputError(
            "nothing_to_rescore", workspace.runs,
            f"an evaluation of {benchmark} x {system} with other measures or another judge than today's",
        )  # fmt: skip
    chosen.sort(key=lambda one: (one.record.opened_at, one.record.evaluation_id))
    return (_rescore(workspace, pair, one) for one in chosen)


def _rescore(workspace: Workspace, pair: Pair, old: Evaluation) -> EvaluationResults:
    with locked_pair(workspace, pair):
        evaluation = copy_for_scoring(workspace, pair, old)
        for scorer in SCORERS.values():
            scorer(workspace, evaluation, pair)
        return publish(workspace, evaluation, pair, now=datetime.now(UTC))


def _scored_otherwise(published: Sequence[Evaluation], pair: Pair) -> list[Evaluation]:
    """One evaluation for each set of answers that no evaluation has scored with today's metrics and judge."""
    by_answers: dict[str, list[Evaluation]] = {}
    for one in published:
        if _is_of_today(one, pair):
            by_answers.setdefault(one.record.rescored_from or one.record.evaluation_id, []).append(one)
    return [
        group[0]
        for group in by_answers.values()
        if not any(same_scoring(one.record.fingerprints, pair.fingerprints) for one in group)
    ]


def _is_of_today(one: Evaluation, pair: Pair) -> bool:
    """Whether the answers are to today's questions and documents; the system may have changed since."""
    prints, today = one.record.fingerprints, pair.fingerprints
    return (prints.dataset, prints.corpus) == (today.dataset, today.corpus) and (
        one.record.limit == pair.system_file.limit
    )


def _check(one: Evaluation, pair: Pair) -> None:
    record = one.record
    if (record.benchmark, record.system) != (pair.paths.name, pair.system):
        found = f"{record.benchmark} x {record.system}"
        expected = f"an evaluation of {pair.paths.name} x {pair.system}"
        raise InputError("other_pair", one.folder, expected, found=found)
    if record.state != "published":
        raise InputError("not_published", one.folder, "a published evaluation", found=record.state)
    if not _is_of_today(one, pair):
        raise InputError(
            "other_dataset", one.folder, "answers to today's questions and documents",
            hint="Evaluate the pair instead.",
        )  # fmt: skip
