"""Which evaluation is gone on with, and what of earlier ones is taken over into it.

An unfinished evaluation with equal fingerprints is resumed; the answers of a deterministic system are copied; failed
questions are asked again in the newest evaluation, or in a copy of it once it is published.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import Evaluation, open_evaluation
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import Fingerprints, Status
from rag_eval_pipeline.storage.journal import JournalWriter, read_entries
from rag_eval_pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

Which = Literal["missing", "failed"]  # `failed`: those without an answer once more; the others are kept


def resumable(previous: Evaluation | None, pair: Pair) -> Evaluation | None:
    """The newest evaluation, if it is not published and everything it depends on is as it was."""
    if previous is None or previous.record.state == "published":
        return None
    return previous if previous.is_of(pair.fingerprints) else None


def open_for(workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
    """A new evaluation of the pair, with what can be known before anything is asked."""
    return open_evaluation(
        workspace,
        now,
        benchmark=pair.paths.name,
        system=pair.system,
        system_version=pair.system_file.version,
        dataset_id=pair.dataset.dataset_id,
        dataset_version=pair.dataset.version,
        fingerprints=pair.fingerprints,
        settings=pair.settings,
        configuration={"kind": pair.system_file.kind, **pair.system_file.settings.model_dump()},
        limit=pair.system_file.limit,
        deterministic=pair.system_file.is_deterministic,
    )


def take_over(evaluation: Evaluation, pair: Pair, previous: Evaluation | None) -> None:
    """Copies a deterministic system's answers from the evaluation that measured them."""
    if previous is None or previous.folder == evaluation.folder or not pair.system_file.is_deterministic:
        return
    if previous.record.state != "open" and same_answers(previous.record.fingerprints, pair.fingerprints):
        try:
            _copy_answers(previous, evaluation)
        except InputError as error:
            logger.warning("Nothing is reused: %s", error)


def same_answers(old: Fingerprints, new: Fingerprints) -> bool:
    """Whether what was answered under the one may stand for the other; how it is scored may differ."""
    return (old.dataset, old.corpus, old.system) == (new.dataset, new.corpus, new.system)


def failed_ones_of(previous: Evaluation | None, workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
    """The evaluation in which the failed questions are asked again: the newest, or a copy of it once published."""
    if previous is None or not same_answers(previous.record.fingerprints, pair.fingerprints):
        raise InputError(
            "nothing_failed", workspace.runs,
            f"an evaluation of {pair.paths.name} x {pair.system} with this dataset, corpus and system",
            hint="Evaluate the pair without --failed-only.",
        )  # fmt: skip
    if unfinished := resumable(previous, pair):
        return unfinished
    if previous.record.state == "open" or all(answer.status == "ok" for answer in iter_responses(previous.responses)):
        raise InputError(
            "nothing_failed", previous.folder, "an evaluation that ended with a question without an answer",
            hint="Evaluate the pair without --failed-only.",
        )  # fmt: skip
    evaluation = open_for(workspace, pair, now)
    _copy_answers(previous, evaluation)
    return evaluation


def _copy_answers(previous: Evaluation, evaluation: Evaluation) -> None:
    """Journals the good answers of another evaluation, marked as measured there.

    Raises:
        InputError: `bad_responses`.
    """
    old = previous.record
    answers = [answer for answer in iter_responses(previous.responses) if answer.status == "ok"]
    prints = evaluation.record.fingerprints.model_copy(update={"server": old.fingerprints.server})
    evaluation.save(configuration=old.configuration, fingerprints=prints, warnings=old.warnings)
    with JournalWriter(evaluation.journal) as journal:
        for answer in answers:
            journal.append(msgspec.structs.replace(answer, reused_from=answer.reused_from or old.evaluation_id))


class _Head(msgspec.Struct):
    query_id: str
    status: Status


def answered_in(evaluation: Evaluation) -> dict[str, Status]:
    """The status of each question's last answer."""
    decoder = msgspec.json.Decoder(_Head)
    heads = (decoder.decode(entry.body) for entry in read_entries(evaluation.journal))
    return {head.query_id: head.status for head in heads}


def missing_of(
    queries: Sequence[EvaluationQuery], answered: dict[str, Status], which: Which
) -> Sequence[EvaluationQuery]:
    """The questions still to be asked: without any answer, or with `failed` those without a good one."""
    if which == "failed":
        return [query for query in queries if answered.get(query.query_id) != "ok"]
    return [query for query in queries if query.query_id not in answered]
