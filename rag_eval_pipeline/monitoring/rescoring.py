"""New scores for old answers: `rag-eval rescore`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import (
    Evaluation,
    id_order,
    load_evaluation,
    locked_pair,
    published_evaluations,
)
from rag_eval_pipeline.evaluation.evaluation_start import copy_for_scoring, same_scoring
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.pipeline import score_all
from rag_eval_pipeline.evaluation.publishing import publish
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.workspace import Workspace


def rescore(workspace: Workspace, pair: Pair, evaluation_ids: Sequence[str] = ()) -> Iterator[EvaluationResults]:
    """Score published evaluations of a pair again, oldest first.

    The answers are copied into new evaluations with the old date, so that those of nights before a new measure or judge
    can be a baseline, and damaged results are restored.

    Args:
        evaluation_ids: By default all whose measures or judge are not today's.

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
    chosen.sort(key=lambda one: (one.record.opened_at, id_order(one.record.evaluation_id)))
    return (_rescore(workspace, pair, one) for one in chosen)


def _rescore(workspace: Workspace, pair: Pair, old: Evaluation) -> EvaluationResults:
    file = pair.system_file.model_copy(update={"limit": old.record.limit})
    pair = replace(pair, system_file=file)  # as many questions as were asked then
    with locked_pair(workspace, pair):
        evaluation = copy_for_scoring(workspace, pair, old)
        scores = score_all(workspace, evaluation, pair)
        return publish(workspace, evaluation, pair, scores, now=clock.now()).results


def _scored_otherwise(published: Sequence[Evaluation], pair: Pair) -> list[Evaluation]:
    """Return one evaluation of each set of answers that was never scored with today's metrics and judge."""
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
    """Return whether the answers are to today's questions and documents; the system may have changed since."""
    prints, today = one.record.fingerprints, pair.fingerprints
    return (prints.dataset, prints.corpus) == (today.dataset, today.corpus)


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
            found=f"dataset {record.dataset_version}, today's is {pair.stamp.dataset_version}",
            hint=f"Ask today's: rag-eval evaluate {pair.paths.name} --system {pair.system}",
        )  # fmt: skip
