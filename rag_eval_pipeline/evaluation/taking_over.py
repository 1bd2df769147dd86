"""Which evaluation is continued, and what of earlier ones is kept: answers depend on dataset, corpus and system alone.

An unfinished evaluation is resumed, whatever its answers are to be scored with. The answers of a published one are
scored again when metrics or judge have changed; those of a deterministic system are copied into each new evaluation.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses, write_responses
from rag_eval_pipeline.evaluation.runs import (
    SCORE_FILES,
    Evaluation,
    create_evaluation,
    make_newest,
    newest_evaluation,
)
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import Fingerprints, Status
from rag_eval_pipeline.storage.atomic import atomic_write
from rag_eval_pipeline.storage.journal import JournalWriter, read_entries
from rag_eval_pipeline.systems.answer import RagAnswer
from rag_eval_pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

# `missing`: what the stored answers lack, and every question once these are published with today's metrics and judge.
# `failed`: those without an answer once more; the others are kept.
# `all`: every question, unless an unfinished evaluation is resumed; for nights and reruns.
Which = Literal["missing", "failed", "all"]
Start = Literal["resume", "rescore", "retry", "new"]


def start_of(previous: Evaluation | None, pair: Pair, which: Which) -> Start:
    """How the pair's next evaluation begins: with the newest one or a copy of its answers, or from nothing."""
    if previous is None or not same_answers(previous.record.fingerprints, pair.fingerprints):
        return "new"
    # New answers never go into an evaluation that only scores old ones again.
    if previous.record.state != "published" and (which == "missing" or not previous.record.rescored_from):
        return "resume"
    if which == "failed":
        return "retry"
    if which == "missing" and not scored_alike(previous.record.fingerprints, pair.fingerprints):
        return "rescore"
    return "new"


def same_answers(old: Fingerprints, new: Fingerprints) -> bool:
    """Whether what was answered under the one may stand for the other; how it is scored may differ."""
    return (old.dataset, old.corpus, old.system) == (new.dataset, new.corpus, new.system)


def scored_alike(old: Fingerprints, new: Fingerprints) -> bool:
    """Whether equal answers get equal scores under both."""
    return (old.metrics, old.judge) == (new.metrics, new.judge)


def open_for(workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
    """A new evaluation of the pair, its newest, with what can be known before anything is asked."""
    evaluation = _create(workspace, pair, now)
    make_newest(workspace, evaluation)
    return evaluation


def _create(workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
    return create_evaluation(
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
    if previous is None or not pair.system_file.is_deterministic:
        return
    if previous.record.state != "open" and same_answers(previous.record.fingerprints, pair.fingerprints):
        try:
            _copy_good_answers(previous, evaluation)
        except InputError as error:
            logger.warning("Nothing is reused: %s", error)


def resumed(evaluation: Evaluation, pair: Pair) -> Evaluation:
    """An unpublished evaluation under today's settings; scores that were made by others are removed."""
    record = evaluation.record
    if not scored_alike(record.fingerprints, pair.fingerprints):
        for kind in SCORE_FILES:
            evaluation.scores(kind).unlink(missing_ok=True)
    prints = pair.fingerprints.model_copy(update={"server": record.fingerprints.server})
    state = "answered" if record.state == "scored" else record.state
    evaluation.save(settings=pair.settings, fingerprints=prints, state=state)
    return evaluation


def copied_for_retry(workspace: Workspace, pair: Pair, previous: Evaluation, now: datetime) -> Evaluation:
    """A new evaluation with the good answers of a published one; the failed questions are left to be asked.

    Raises:
        InputError: `nothing_failed`, `bad_responses`.
    """
    if all(answer.status == "ok" for answer in iter_responses(previous.responses)):
        raise nothing_failed(previous, pair)
    evaluation = _create(workspace, pair, now)
    _copy_good_answers(previous, evaluation)
    # Only now: a process that is killed while it copies must not leave a newest evaluation that lacks answers.
    make_newest(workspace, evaluation)
    return evaluation


def nothing_failed(previous: Evaluation | None, pair: Pair) -> InputError:
    """The error when only failed questions are wanted and no evaluation has any."""
    where = pair.paths.spec if previous is None else previous.folder
    return InputError(
        "nothing_failed", where,
        f"an evaluation of {pair.paths.name} x {pair.system} with this dataset, corpus and system that ended with a "
        "question without an answer",
        hint="Evaluate the pair without --failed-only.",
    )  # fmt: skip


def copied_for_scoring(workspace: Workspace, pair: Pair, old: Evaluation) -> Evaluation:
    """An evaluation with all answers of a published one, dated as it was, to be scored with today's metrics and judge.

    It becomes the pair's newest unless the pair has been evaluated since.

    Args:
        workspace: Where.
        pair: As it is today; the system may have changed since the answers were given.
        old: Whose answers.

    Raises:
        InputError: `bad_responses`.
    """
    record = old.record
    kept: dict[str, Any] = {
        name: getattr(record, name)
        for name in (
            "benchmark", "system", "system_version", "dataset_id", "dataset_version", "configuration", "limit",
            "deterministic", "warnings",
        )
    }  # fmt: skip
    prints = {"metrics": pair.fingerprints.metrics, "judge": pair.fingerprints.judge}
    evaluation = create_evaluation(
        workspace,
        record.opened_at,
        fingerprints=record.fingerprints.model_copy(update=prints),
        settings=pair.settings,
        rescored_from=record.rescored_from or record.evaluation_id,
        **kept,
    )
    with JournalWriter(evaluation.journal) as journal:  # so that a later --failed-only finds them
        journal.extend(_marked(iter_responses(old.responses), old))
    write_responses(evaluation.responses, _marked(iter_responses(old.responses), old))
    if old.resources.exists():
        atomic_write(evaluation.resources, old.resources.read_bytes())
    answered_at = record.answered_at or datetime.now(UTC)
    evaluation.save(state="answered", answered_at=answered_at, asking_seconds=record.asking_seconds)
    newest = newest_evaluation(workspace, record.benchmark, record.system)
    if newest is None or newest.record.opened_at <= record.opened_at:
        make_newest(workspace, evaluation)
    return evaluation


def to_score(workspace: Workspace, pair: Pair) -> Evaluation:
    """The evaluation whose answers are scored: the pair's newest, or a copy of it once it is published otherwise.

    Raises:
        InputError: `not_answered` when there is none, `changed_pair` when its answers are of another dataset, corpus or
            system.
    """
    newest = newest_evaluation(workspace, pair.paths.name, pair.system)
    hint = f"Materialize responses of {pair.paths.name} x {pair.system}."
    if newest is None:
        expected = f"an evaluation of {pair.paths.name} x {pair.system}"
        raise InputError("not_answered", workspace.runs, expected, hint=hint)
    prints = newest.record.fingerprints
    if not same_answers(prints, pair.fingerprints):
        expected = "answers of today's system to today's questions and documents"
        raise InputError("changed_pair", newest.folder, expected, hint=hint)
    if scored_alike(prints, pair.fingerprints):
        return newest
    if newest.record.state == "published":
        return copied_for_scoring(workspace, pair, newest)
    return resumed(newest, pair)


def _copy_good_answers(previous: Evaluation, evaluation: Evaluation) -> None:
    """Journals the good answers of another evaluation, marked as measured there.

    Raises:
        InputError: `bad_responses`.
    """
    old = previous.record
    answers = [answer for answer in iter_responses(previous.responses) if answer.status == "ok"]
    prints = evaluation.record.fingerprints.model_copy(update={"server": old.fingerprints.server})
    evaluation.save(configuration=old.configuration, fingerprints=prints, warnings=old.warnings)
    with JournalWriter(evaluation.journal) as journal:
        journal.extend(_marked(answers, previous))


def _marked(answers: Iterable[RagAnswer], measured: Evaluation) -> Iterator[RagAnswer]:
    """Answers that name the evaluation which measured them."""
    name = measured.record.evaluation_id
    return (msgspec.structs.replace(answer, reused_from=answer.reused_from or name) for answer in answers)


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
