"""How the next evaluation of a pair starts: resumed, with answers of earlier ones, or with none.

Answers depend on dataset, corpus and system only: when metrics or judge have changed, they are scored again.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.conversations import later_turns
from rag_eval_pipeline.evaluation.evaluation_folders import (
    SCORE_FILES,
    Evaluation,
    create_evaluation,
    make_newest,
    newest_evaluation,
    required_evaluation,
)
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import Fingerprints, Status
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.journal import JournalWriter, read_entries
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace

# Which questions to ask: those without a stored answer (all of them once the evaluation is published with today's
# metrics and judge), those without a good answer, or every question, unless an unfinished evaluation is resumed.
Which = Literal["missing", "failed", "all"]
Start = Literal["resume", "rescore", "retry", "new"]


logger = logging.getLogger(__name__)


def same_answers(old: Fingerprints, new: Fingerprints) -> bool:
    """Return whether answers given under one are valid under the other."""
    parts = ("dataset", "corpus", "system", "history")
    return all(getattr(old, part) == getattr(new, part) for part in parts)


def same_scoring(old: Fingerprints, new: Fingerprints) -> bool:
    """Return whether equal answers get equal scores under both."""
    return (old.metrics, old.judge) == (new.metrics, new.judge)


def choose_start(previous: Evaluation | None, pair: Pair, which: Which, now: datetime) -> Start:
    """Return whether the next evaluation continues the newest one, copies its answers, or begins from nothing."""
    if previous is None or not same_answers(previous.record.fingerprints, pair.fingerprints):
        return "new"
    # The system was repaired since: answers from before and after would be one evaluation, under the earlier date.
    if previous.record.is_void_of_earlier_night(now) and which != "failed":
        return "new"
    # New answers never go into an evaluation that only scores old ones again.
    if previous.record.state != "published" and (which == "missing" or not previous.record.rescored_from):
        return "resume"
    if which == "failed":
        return "retry"
    if which == "missing" and not same_scoring(previous.record.fingerprints, pair.fingerprints):
        return "rescore"
    return "new"


def open_evaluation(workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
    """Create an evaluation of the pair and make it the newest."""
    evaluation = new_evaluation(workspace, pair, now)
    make_newest(workspace, evaluation)
    return evaluation


def begin_evaluation(
    workspace: Workspace, pair: Pair, previous: Evaluation | None, now: datetime, which: Which
) -> Evaluation:
    """Open or resume the evaluation in which the pair is asked, with the answers that need not be asked for.

    Raises:
        InputError: `nothing_failed`.
    """
    start = choose_start(previous, pair, which, now)
    if which == "failed" and start == "new":
        raise _nothing_failed(previous, pair)
    if previous is not None and start == "resume":
        return resume_evaluation(previous, pair)
    if previous is not None and start == "retry":
        return _copy_for_retry(workspace, pair, previous, now)
    if previous is not None and start == "rescore":
        try:
            return copy_for_scoring(workspace, pair, previous)
        except InputError as error:
            logger.warning("%s is asked again, as its answers cannot be read: %s", pair.system, error)
    evaluation = open_evaluation(workspace, pair, now)
    if previous is not None and _can_reuse_answers(previous, pair):
        try:
            _copy_good_answers(previous, evaluation)
        except InputError as error:
            logger.warning("No answers are reused: %s", error)
    return evaluation


def resume_evaluation(evaluation: Evaluation, pair: Pair) -> Evaluation:
    """Bring an unpublished evaluation under today's settings; scores made under other ones are removed."""
    record = evaluation.record
    if not same_scoring(record.fingerprints, pair.fingerprints):
        for kind in SCORE_FILES:
            evaluation.scores(kind).unlink(missing_ok=True)
    fingerprints = pair.fingerprints.model_copy(update={"server": record.fingerprints.server})
    state = "answered" if record.state == "scored" else record.state
    evaluation.save(settings=pair.settings, fingerprints=fingerprints, state=state)
    return evaluation


def copy_for_scoring(workspace: Workspace, pair: Pair, old: Evaluation) -> Evaluation:
    """Copy all answers of a published evaluation, with its date, to be scored with today's metrics and judge.

    The copy becomes the pair's newest evaluation unless the pair has been evaluated since. Raises `bad_responses`.
    """
    record = old.record
    kept = (
        "benchmark", "system", "system_version", "dataset_id", "dataset_version", "configuration", "known",
        "limit", "deterministic", "warnings",
    )  # fmt: skip
    scoring = {"metrics": pair.fingerprints.metrics, "judge": pair.fingerprints.judge}
    evaluation = create_evaluation(
        workspace,
        record.opened_at,
        **{name: getattr(record, name) for name in kept},
        fingerprints=record.fingerprints.model_copy(update=scoring),
        settings=pair.settings,
        rescored_from=record.rescored_from or record.evaluation_id,
    )
    with JournalWriter(evaluation.journal) as journal:  # so that a later --failed-only finds them
        journal.extend(_mark_reused(old.answers, old))
    evaluation.write_answers(_mark_reused(old.answers, old))
    if old.resources.exists():
        atomic_write(evaluation.resources, old.resources.read_bytes())
    answered_at = record.answered_at or clock.now()
    evaluation.save(state="answered", answered_at=answered_at, asking_seconds=record.asking_seconds)
    newest = newest_evaluation(workspace, record.benchmark, record.system)
    if newest is None or newest.record.opened_at <= record.opened_at:
        make_newest(workspace, evaluation)
    return evaluation


def evaluation_to_score(workspace: Workspace, pair: Pair) -> Evaluation:
    """Return the pair's newest evaluation, or a copy of it if it was published with other metrics or another judge.

    Raises:
        InputError: `not_answered` without one, `changed_pair` for answers of another dataset, corpus or system.
    """
    newest = required_evaluation(workspace, pair)
    fingerprints = newest.record.fingerprints
    if not same_answers(fingerprints, pair.fingerprints):
        raise InputError(
            "changed_pair", newest.folder, "answers of today's system to today's questions and documents",
            hint=f"Materialize responses of {pair.paths.name} x {pair.system}.",
        )  # fmt: skip
    if same_scoring(fingerprints, pair.fingerprints):
        return newest
    if newest.record.state == "published":
        return copy_for_scoring(workspace, pair, newest)
    return resume_evaluation(newest, pair)


class _AnswerStatus(msgspec.Struct):
    query_id: str
    status: Status


def answer_statuses(evaluation: Evaluation) -> dict[str, Status]:
    """Return the status of each question's last answer in the journal."""
    decoder = msgspec.json.Decoder(_AnswerStatus)
    answers = (decoder.decode(entry.body) for entry in read_entries(evaluation.journal))
    return {answer.query_id: answer.status for answer in answers}


def unanswered_queries(pair: Pair, statuses: dict[str, Status], which: Which) -> Sequence[EvaluationQuery]:
    """Return the questions without any answer; with `failed`, those without a good one.

    Where a turn of a conversation is asked with the system's own answers, so are all turns after it.
    """
    queries = pair.queries
    ids = [query.query_id for query in queries]
    if which == "failed":
        missing = {query_id for query_id in ids if statuses.get(query_id) != "ok"}
    else:
        missing = {query_id for query_id in ids if query_id not in statuses}
    if pair.settings.history == "own":
        missing = later_turns(queries, missing)
    places = [place for place, query_id in enumerate(ids) if query_id in missing]
    return queries.take(places) if isinstance(queries, RowFile) else [queries[place] for place in places]


def questions_to_ask(workspace: Workspace, pair: Pair, *, which: Which = "missing") -> Sequence[EvaluationQuery]:
    """Return the questions that `ask` would ask now; nothing is opened or changed."""
    previous = newest_evaluation(workspace, pair.paths.name, pair.system)
    start = choose_start(previous, pair, which, clock.now())
    if start == "rescore":
        return ()
    if previous is None or (start == "new" and not _can_reuse_answers(previous, pair)):
        return pair.queries
    which = "failed" if start == "new" or previous.record.is_void else which
    return unanswered_queries(pair, answer_statuses(previous), which)


def new_evaluation(workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
    """Create an evaluation of the pair; it is not yet the newest."""
    return create_evaluation(
        workspace,
        now,
        benchmark=pair.paths.name,
        system=pair.system,
        system_version=pair.system_file.version,
        dataset_id=pair.dataset.head.dataset_id,
        dataset_version=pair.dataset.head.version,
        fingerprints=pair.fingerprints,
        settings=pair.settings,
        configuration={"kind": pair.system_file.kind, **pair.system_file.settings.model_dump()},
        limit=pair.system_file.limit,
        deterministic=pair.system_file.is_deterministic,
    )


def _can_reuse_answers(previous: Evaluation, pair: Pair) -> bool:
    return (
        pair.system_file.is_deterministic
        and previous.record.state != "open"
        and same_answers(previous.record.fingerprints, pair.fingerprints)
    )


def _copy_for_retry(workspace: Workspace, pair: Pair, previous: Evaluation, now: datetime) -> Evaluation:
    """Create an evaluation with the good answers of a published one; the failed questions are left to be asked."""
    if sum(answer.status != "ok" for answer in previous.answers) == 0:
        raise _nothing_failed(previous, pair)
    evaluation = new_evaluation(workspace, pair, now)
    _copy_good_answers(previous, evaluation)
    # Only now: a process that is killed while it copies must not leave a newest evaluation that lacks answers.
    make_newest(workspace, evaluation)
    return evaluation


def _nothing_failed(previous: Evaluation | None, pair: Pair) -> InputError:
    where = pair.paths.spec if previous is None else previous.folder
    return InputError(
        "nothing_failed", where,
        f"an evaluation of {pair.paths.name} x {pair.system} with this dataset, corpus and system that ended with a "
        "question without an answer",
        hint="Evaluate the pair without --failed-only.",
    )  # fmt: skip


def _copy_good_answers(previous: Evaluation, evaluation: Evaluation) -> None:
    old = previous.record
    answers = [answer for answer in previous.answers if answer.status == "ok"]
    fingerprints = evaluation.record.fingerprints.model_copy(update={"server": old.fingerprints.server})
    kept = {"configuration": old.configuration, "known": old.known, "warnings": old.warnings}
    evaluation.save(fingerprints=fingerprints, **kept)
    with JournalWriter(evaluation.journal) as journal:
        journal.extend(_mark_reused(answers, previous))


def _mark_reused(answers: Iterable[RagAnswer], measured: Evaluation) -> Iterator[RagAnswer]:
    name = measured.record.evaluation_id
    return (msgspec.structs.replace(answer, reused_from=answer.reused_from or name) for answer in answers)
