"""Old answers scored anew with today's measures and judge; nobody is asked again.

A new measure or judge makes old evaluations incomparable with new ones (`different_metrics`, `different_judge`). Their
answers are copied into evaluations of their own, dated as they were, and scored as answers are scored today; five of
them make a new baseline. The pair's newest evaluation stays the newest. Results that were damaged come back the same
way, from the answers, under an id of their own.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import Pair, holding
from rag_eval_pipeline.evaluation.passes import score_pair
from rag_eval_pipeline.evaluation.publishing import publish, results_path
from rag_eval_pipeline.evaluation.responses_file import iter_responses, write_responses
from rag_eval_pipeline.evaluation.runs import (
    SCORE_FILES,
    Evaluation,
    load_evaluation,
    newest_evaluation,
    open_evaluation,
    pair_pointer,
)
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.results_files import read_results_header
from rag_eval_pipeline.reporting.published import published_evaluations
from rag_eval_pipeline.storage.atomic import atomic_write, atomic_write_json
from rag_eval_pipeline.systems.answer import RagAnswer
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
        published = published_evaluations(workspace, benchmark, system)
        chosen = [one for one in published if _is_of_today(one, pair) and not _is_scored_as_today(one, pair)]
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
    newest = newest_evaluation(workspace, pair.paths.name, pair.system)
    with holding(workspace, pair):
        evaluation = _copy(workspace, pair, old)
    for kind in SCORE_FILES:
        score_pair(workspace, pair, kind)
    with holding(workspace, pair):
        evaluation = load_evaluation(workspace, evaluation.record.evaluation_id)
        results = publish(workspace, evaluation, pair, now=_published_at(workspace, old))
        if newest is not None and newest.record.opened_at > old.record.opened_at:
            pointer = pair_pointer(workspace, pair.paths.name, pair.system)
            atomic_write_json(pointer, {"evaluation_id": newest.record.evaluation_id})
    return results


def _published_at(workspace: Workspace, old: Evaluation) -> datetime:
    """When the old results were published; of results that are damaged or lost, when the last answer arrived."""
    try:
        return read_results_header(results_path(workspace, old.record.evaluation_id)).timestamp
    except InputError:
        return old.record.answered_at or old.record.opened_at


def _copy(workspace: Workspace, pair: Pair, old: Evaluation) -> Evaluation:
    """An evaluation with the answers of another, failures among them, ready to be scored."""
    record = old.record
    today = pair.fingerprints
    prints = record.fingerprints.model_copy(update={"metrics": today.metrics, "judge": today.judge})
    evaluation = open_evaluation(
        workspace,
        record.opened_at,
        benchmark=record.benchmark,
        system=record.system,
        system_version=record.system_version,
        dataset_id=record.dataset_id,
        dataset_version=record.dataset_version,
        fingerprints=prints,
        settings=pair.settings,
        configuration=record.configuration,
        limit=record.limit,
        deterministic=record.deterministic,
    )
    write_responses(evaluation.responses, (_marked(answer, old) for answer in iter_responses(old.responses)))
    if old.resources.exists():
        atomic_write(evaluation.resources, old.resources.read_bytes())
    answered_at = record.answered_at or datetime.now(UTC)
    evaluation.save(state="answered", answered_at=answered_at, asking_seconds=record.asking_seconds)
    return evaluation


def _marked(answer: RagAnswer, old: Evaluation) -> RagAnswer:
    return msgspec.structs.replace(answer, reused_from=answer.reused_from or old.record.evaluation_id)


def _is_of_today(one: Evaluation, pair: Pair) -> bool:
    prints, today = one.record.fingerprints, pair.fingerprints
    return (prints.dataset, prints.corpus, prints.system) == (today.dataset, today.corpus, today.system)


def _is_scored_as_today(one: Evaluation, pair: Pair) -> bool:
    prints, today = one.record.fingerprints, pair.fingerprints
    return (prints.metrics, prints.judge) == (today.metrics, today.judge)


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
            "other_dataset", one.folder, "answers of today's system to today's questions and documents",
            hint="Evaluate the pair instead.",
        )  # fmt: skip
