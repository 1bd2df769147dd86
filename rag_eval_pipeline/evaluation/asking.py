"""Asks a system every question of a dataset, each once, even if the process is interrupted.

Every terminal answer goes to the journal; a killed run resumes and asks only what is missing. Answers of an unchanged
deterministic system, and answers that are only scored anew, are copied and name the evaluation that measured them.
"""

import asyncio
import logging
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.budget import UsageLedger
from rag_eval_pipeline.evaluation.conversations import EARLIER_TURN_FAILED, turns_to_ask, unsent_history
from rag_eval_pipeline.evaluation.corpus_names import system_corpus
from rag_eval_pipeline.evaluation.evaluation_folders import (
    NIGHT,
    Evaluation,
    VoidAttempt,
    locked_pair,
    newest_evaluation,
)
from rag_eval_pipeline.evaluation.evaluation_settings import digest
from rag_eval_pipeline.evaluation.evaluation_start import (
    Which,
    answer_statuses,
    begin_evaluation,
    new_evaluation,
    open_evaluation,
    unanswered_queries,
)
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.system_state import KnownState, workspace_commit
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.storage.atomic_files import atomic_write_json, sha256_of
from rag_eval_pipeline.storage.journal import JournalIndex, JournalWriter, read_journal
from rag_eval_pipeline.storage.process import sample_resources
from rag_eval_pipeline.systems.base import Query, RagAnswer, System, SystemCorpus, failed_answer
from rag_eval_pipeline.systems.config import SystemFile, open_system
from rag_eval_pipeline.web.rate_limits import RETRIED_CODES
from rag_eval_pipeline.workspace import Workspace

PREVIEW_ROWS = 5
NOT_VOID = frozenset({"budget_spent", "locked"})  # codes of errors that say nothing of the system
OUTAGE_CODES = RETRIED_CODES | {"rate_limited", "timeout", "total_timeout"}  # and HTTP 5xx
OUTAGE_SHARE = 0.5  # of the questions; the night is void if more of them fail with these codes
IMPORT_AFTER_S = 1.0  # the first questions are on their way by then
NOT_LOST = (
    "The answers so far are kept, and the same command asks the rest. To ask every question whatever happens, set "
    "stop_after_failures: null."
)

Progress = Callable[[int, int], None]
IsEnough = Callable[[Sequence[RagAnswer]], bool]  # takes all answers so far
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AskingReport:
    """Counts of questions by what was done for each, whether enough were answered, and the first answers.

    Args:
        causes: Why questions failed, the most frequent error code first.
        in_flight: Questions asked at once, if any were asked.
    """

    evaluation_id: str
    questions: int
    asked: int
    reused: int
    resumed: int
    failed: int
    abstained: int
    is_covered: bool
    preview: list[dict[str, Any]]
    causes: tuple["FailureCause", ...] = ()
    in_flight: int | None = None

    @property
    def coverage(self) -> float:
        """Share of the questions with an answer that can be scored."""
        return (self.questions - self.failed) / self.questions

    @property
    def counts(self) -> dict[str, float]:
        """The numbers by name."""
        names = ("questions", "asked", "reused", "resumed", "failed", "abstained", "coverage")
        return {name: getattr(self, name) for name in names}


class FailureCause(NamedTuple):
    """Questions that failed with one error code, and their most frequent message."""

    code: str
    questions: int
    message: str


def ask(
    workspace: Workspace, pair: Pair, *, now: datetime, progress: Progress | None = None, which: Which = "missing"
) -> AskingReport:
    """Open or resume the pair's evaluation and bring it to the state `answered`.

    Raises:
        InputError: `nothing_failed`.
        ServiceError: `no_answers` if no question got an answer, `budget_spent` and `failing` (good answers are kept),
            `locked`, and the errors of a server that cannot be used.
    """
    with locked_pair(workspace, pair):
        return ask_questions(workspace, pair, now=now, progress=progress, which=which)[0]


def ask_questions(
    workspace: Workspace, pair: Pair, *, now: datetime, progress: Progress | None, which: Which
) -> tuple[AskingReport, Evaluation]:
    """Do the same under the caller's lock, and return the evaluation as well."""
    return asyncio.run(_ask(workspace, pair, now, progress, which))


def ask_in_batches(
    workspace: Workspace, pair: Pair, is_enough: IsEnough, *, now: datetime, progress: Progress | None = None
) -> Evaluation:
    """Ask a pair's chosen questions in a new evaluation until the answers are enough; the pair must be locked.

    As many are asked at once as the system is asked otherwise, and `is_enough` is called when all of them have their
    answer: an answer that comes fast decides nothing by that. The evaluation is open, and not the newest of its pair.

    Raises:
        InputError: `whole_conversations` if turns have the system's own answers before them.
        ServiceError: `no_answers` if there is no answer to any of them, and what `ask` raises.
    """
    if pair.settings.history == "own" and any(query.conversation is not None for query in pair.queries):
        raise InputError(
            "whole_conversations", f"{pair.paths.name} x {pair.system}", "gold history where single turns are asked",
            field="history", found="own", hint="Ask all questions: rag-eval gate --canary 0, or rag-eval evaluate.",
        )  # fmt: skip
    evaluation = new_evaluation(workspace, pair, now)
    try:
        asyncio.run(_ask_system(workspace, pair, evaluation, {}, pair.queries, now, progress, is_enough))
    except BaseException as error:
        shutil.rmtree(evaluation.folder, ignore_errors=True)
        if isinstance(error, ServiceError) and error.code in ("failing", "budget_spent"):
            error.hint = "Of a canary no answer is kept."
        raise
    return evaluation


async def _ask(
    workspace: Workspace, pair: Pair, now: datetime, progress: Progress | None, which: Which
) -> tuple[AskingReport, Evaluation]:
    previous = newest_evaluation(workspace, pair.paths.name, pair.system)
    evaluation = begin_evaluation(workspace, pair, previous, now, which)
    statuses = answer_statuses(evaluation)
    missing = unanswered_queries(pair, statuses, "failed" if evaluation.record.is_void else which)
    is_same = previous is not None and evaluation.folder == previous.folder
    resumed = len(pair.queries) - len(missing) if is_same else 0
    # A new evaluation reuses answers only if what the system states of itself (a recording's checksum) is as it was.
    is_reused = bool(statuses) and not resumed and evaluation.record.rescored_from is None
    # Importing what comes after the last answer takes as long as a short answer, and is done while they are awaited.
    loop = asyncio.get_running_loop()
    loop.call_later(IMPORT_AFTER_S, loop.run_in_executor, None, _import_scoring)
    try:
        if missing or (is_reused and evaluation.record.fingerprints.server is not None):
            asked = evaluation
            evaluation, missing = await _ask_system(workspace, pair, asked, statuses, missing, now, progress)
            resumed = resumed if evaluation is asked else 0
        report = _write_answers(evaluation, pair, asked=len(missing), resumed=resumed)
    except ServiceError as error:
        if error.code not in NOT_VOID:
            attempt = VoidAttempt(ended_at=clock.now(), reason=f"{error.message} [{error.code}]")
            evaluation.save(void=(*evaluation.record.void, attempt))
        raise
    answered_at = evaluation.record.answered_at if evaluation.record.rescored_from else None
    warnings = evaluation.record.warnings
    if evaluation.record.void:
        warnings += (f"{evaluation.record.void_text}, asked again at {now:%H:%M}: fine",)
    elif resumed and missing and now - (begun := evaluation.record.opened_at) >= NIGHT:
        warnings += (
            f"answers of two nights: {resumed} of {len(pair.queries)} from {begun:%Y-%m-%d} on, the others from "
            f"{now:%Y-%m-%d}, as the evaluation had been interrupted; what changed between is in the others only",
        )
    evaluation.save(
        state="answered", answered_at=answered_at or clock.now(), coverage=report.coverage, warnings=warnings
    )
    return report, evaluation


def _import_scoring() -> None:
    import pyarrow as pa

    from rag_eval_pipeline.evaluation import score_tables  # noqa: F401
    from rag_eval_pipeline.judges import lexical  # noqa: F401

    pa.scalar(0)  # Arrow imports pandas for its first value, where it may


async def _ask_system(
    workspace: Workspace,
    pair: Pair,
    evaluation: Evaluation,
    statuses: Mapping[str, str],
    missing: Sequence[EvaluationQuery],
    now: datetime,
    progress: Progress | None,
    is_enough: IsEnough | None = None,
) -> tuple[Evaluation, Sequence[EvaluationQuery]]:
    """Ask the missing questions; all of them in a new evaluation if the system's configuration is another one."""
    file = pair.system_file
    if not statuses:
        evaluation.save(opened_at=now)  # an earlier attempt got no answer
    known = KnownState(file, workspace.system_file(pair.system).parent, evaluation.record.known)
    corpus = replace(
        corpus_of(workspace, pair, started=evaluation.record.opened_at),
        observe=known.reply,
        observe_headers=known.headers,
    )
    async with open_system(file.kind, file.settings, corpus) as system:
        stated = _stated_configuration(system, file, corpus)
        server = None if stated is None else digest(stated)
        if statuses and evaluation.record.fingerprints.server != server:
            logger.info("%s has another configuration: its earlier answers are not used", pair.system)
            evaluation, missing = open_evaluation(workspace, pair, now), pair.queries
        fingerprints = evaluation.record.fingerprints.model_copy(update={"server": server})
        configuration: dict[str, Any] = {"kind": file.kind, **system.configuration()}
        if stated is not None:
            configuration["server"] = stated
        if clock.is_set():
            configuration["date_set_by"] = clock.NOW_VARIABLE
        # Before anything is asked: an interrupted evaluation's latencies depend on `in_flight` as well.
        in_flight = pair.settings.concurrency or file.in_flight
        evaluation.save(fingerprints=fingerprints, configuration=configuration, in_flight=in_flight)
        known.read_version()
        known.read_settings(file.settings)
        known.add("documents", str(len(corpus.files)))
        known.add("workspace commit", workspace_commit(workspace.root))
        await _ask_missing(workspace, evaluation, pair, system, missing, in_flight, known, progress, is_enough)
    return evaluation, missing


def _stated_configuration(system: System, file: SystemFile, corpus: SystemCorpus) -> Mapping[str, Any] | None:
    """Return what the system states of itself, with the checksum of the map by which its names are read."""
    stated, contexts = system.server_configuration(), getattr(file.settings, "contexts", None)
    if contexts is None or (path := contexts.path_of_names(corpus)) is None:
        return stated
    return {**(stated or {}), "names_sha256": sha256_of(path)}


async def _ask_missing(
    workspace: Workspace,
    evaluation: Evaluation,
    pair: Pair,
    system: System,
    missing: Sequence[EvaluationQuery],
    in_flight: int,
    known: KnownState,
    progress: Progress | None,
    is_enough: IsEnough | None,
) -> None:
    done = len(pair.queries) - len(missing)
    started = time.monotonic()
    is_own = pair.settings.history == "own"
    given = _answers_given(evaluation) if is_own else {}
    ledger = UsageLedger(
        workspace.spending, f"system-{pair.system}", evaluation.record.evaluation_id, pair.system_file.budget,
        clock=clock.now,
    )  # fmt: skip
    try:
        with JournalWriter(evaluation.journal) as journal, sample_resources() as samples, ledger:
            is_free = pair.system_file.traits.is_free
            limit = None if is_free else pair.settings.stop_after_failures
            breaker = Breaker(pair.system, journal.append, limit)

            answers: list[RagAnswer] = []

            def keep(answer: RagAnswer) -> None:
                nonlocal done
                if is_enough is not None:
                    answers.append(answer)
                if is_own:
                    given[answer.query_id] = answer.answer
                if answer.error_code != EARLIER_TURN_FAILED:  # there was no room reserved for it
                    ledger.book(answer.usage)
                breaker.add(answer)
                known.add("model", answer.model)
                done += 1
                if progress:
                    progress(done, len(pair.queries))

            size = len(missing) if is_enough is None else in_flight
            for start in range(0, len(missing), size or 1):
                batch = missing[start : start + size]
                await run_queries(
                    system,
                    turns_to_ask(pair.queries, batch, given, pair.settings.history),
                    keep,
                    in_flight=in_flight,
                    timeout_s=None if pair.system_file.traits.has_own_limits else pair.settings.timeout_seconds,
                    reserve=ledger.reserve,
                )
                breaker.flush()
                if is_enough is not None and is_enough(answers):
                    break
    finally:
        # Warnings of answers that were copied, or given before an interruption, stay.
        warnings = dict.fromkeys(
            (
                *evaluation.record.warnings,
                *unsent_history(pair.system, pair.system_file, missing),
                *system.warnings(),
                *known.warnings(),
            )
        )
        seconds = evaluation.record.asking_seconds + time.monotonic() - started
        evaluation.save(asking_seconds=seconds, warnings=tuple(warnings), known=known.values)
    atomic_write_json(evaluation.resources, samples)


def _answers_given(evaluation: Evaluation) -> dict[str, str | None]:
    """Return the answers in the journal by question; None for those that failed."""
    return {row["query_id"]: row["answer"] for row in read_journal(evaluation.journal)}


class Breaker:
    """Keeps answers, and ends the asking after `limit` failures of one kind in a row.

    Failures are kept as soon as another answer follows, so the ones that ended the asking count as not asked. Turns
    that were not asked after a failure share its fate, and are no failures of the system.
    """

    def __init__(self, system: str, keep: Callable[[RagAnswer], None], limit: int | None) -> None:
        self._system = system
        self._keep = keep
        self._limit = limit
        self._failures: list[RagAnswer] = []  # in a row, all of one kind

    def add(self, answer: RagAnswer) -> None:
        """Take the next answer.

        Raises:
            ServiceError: `failing`.
        """
        if answer.error_code == EARLIER_TURN_FAILED and self._failures:
            self._failures.append(answer)
            return
        if self._limit is None or answer.status == "ok" or answer.error_code == EARLIER_TURN_FAILED:
            self.flush()
            self._keep(answer)
            return
        if self._failures and _kind_of(self._failures[0]) != _kind_of(answer):
            self.flush()
        self._failures.append(answer)
        if sum(one.error_code != EARLIER_TURN_FAILED for one in self._failures) == self._limit:
            raise ServiceError(
                "failing",
                f"{self._system} was not asked any more: {self._limit} questions in a row failed with "
                f"{_kind_of(answer)}: {answer.error}",
                hint=NOT_LOST,
            )  # fmt: skip

    def flush(self) -> None:
        """Keep the failures that did not end the asking."""
        for failure in self._failures:
            self._keep(failure)
        self._failures.clear()


def _kind_of(failure: RagAnswer) -> str:
    return failure.error_code or failure.status


def _write_answers(evaluation: Evaluation, pair: Pair, *, asked: int, resumed: int) -> AskingReport:
    """Publish the journal's answers in the dataset's order."""
    index = JournalIndex(evaluation.journal, RagAnswer, lambda answer: answer.query_id)
    counts: Counter[str] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    preview: list[dict[str, Any]] = []
    texts = {query.query_id: query.query_text for query in pair.queries[:PREVIEW_ROWS]}

    def counted(answers: Iterable[RagAnswer]) -> Iterator[RagAnswer]:
        for answer in answers:
            counts["reused"] += answer.reused_from is not None
            counts["abstained"] += answer.abstained
            if answer.status != "ok":
                errors[_kind_of(answer), answer.error or answer.status] += 1
            if text := texts.get(answer.query_id):
                preview.append({"question": text, "answer": answer.answer or answer.error, "status": answer.status})
            yield answer

    evaluation.write_answers(counted(index.records(query.query_id for query in pair.queries)))
    failed = errors.total()
    if failed == len(pair.queries):
        # The next attempt asks again: a server that is down once must not count as down for ever.
        evaluation.journal.unlink()
        message = next(text for (code, text), _ in errors.most_common() if code != EARLIER_TURN_FAILED)
        raise ServiceError("no_answers", f"{pair.system} answered none of {failed} questions: {message}")
    causes = _failure_causes(errors)
    outage = [one for one in causes if one.code in OUTAGE_CODES or one.code.startswith("http_5")]
    down = sum(one.questions for one in outage)
    limit = None if pair.system_file.traits.is_free or not asked else pair.settings.stop_after_failures
    if limit is not None and down >= limit and down > OUTAGE_SHARE * len(pair.queries):
        raise ServiceError(
            "failing",
            f"{pair.system} was out of order: {down} of {len(pair.queries)} questions failed, most with "
            f"{outage[0].code}: {outage[0].message}",
            hint=NOT_LOST,
        )
    return AskingReport(
        evaluation_id=evaluation.record.evaluation_id,
        questions=len(pair.queries),
        asked=asked,
        reused=counts["reused"],
        resumed=resumed,
        failed=failed,
        abstained=counts["abstained"],
        is_covered=(len(pair.queries) - failed) / len(pair.queries) >= pair.settings.min_coverage,
        preview=preview,
        causes=causes,
        in_flight=evaluation.record.in_flight,
    )


def corpus_of(workspace: Workspace, pair: Pair, *, started: datetime) -> SystemCorpus:
    """Return what a pair's system is given of the corpus."""
    return system_corpus(
        workspace,
        pair.paths,
        pair.system,
        pair.files,
        fingerprint=pair.fingerprints.corpus,
        started=started,
        queries=pair.dataset.queries,
        retrieval_only=pair.dataset.is_retrieval_only,
    )


def _failure_causes(errors: Counter[tuple[str, str]]) -> tuple[FailureCause, ...]:
    questions: Counter[str] = Counter()
    messages: dict[str, str] = {}
    for (code, message), count in errors.most_common():
        questions[code] += count
        messages.setdefault(code, message)
    return tuple(FailureCause(code, count, messages[code]) for code, count in questions.most_common())


async def run_queries(
    system: System,
    conversations: Iterable[Iterable[Query | RagAnswer]],
    keep: Callable[[RagAnswer], None],
    *,
    in_flight: int,
    timeout_s: float | None,
    reserve: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Ask questions in order, several conversations at once; memory does not grow with their number.

    Args:
        conversations: Each with its turns, the next of which is taken when the one before it has its answer; an answer
            in place of a question is kept as it is.
        keep: Takes each terminal answer, in the order of arrival; what it raises ends the asking.
        reserve: Awaited before each question, for a budget; what it raises ends the asking.
    """
    pending = iter(conversations)

    async def worker() -> None:
        while (conversation := next(pending, None)) is not None:
            for query in conversation:
                if isinstance(query, RagAnswer):
                    keep(query)
                    continue
                if reserve is not None:
                    await reserve()
                keep(await _answer(system, query, timeout_s))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # one error, not one per question in flight


async def _answer(system: System, query: Query, timeout_s: float | None) -> RagAnswer:
    if timeout_s is None:
        return await system.answer(query)
    if (ready := getattr(system, "ready", None)) is not None:  # only of systems that can stop being so
        await ready()
    started = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            return await system.answer(query)
    except TimeoutError:
        elapsed_ms = (time.perf_counter() - started) * 1000
        return failed_answer(
            query, "timeout", code="timeout", error=f"no answer within {timeout_s:g} s", latency_ms=elapsed_ms
        )
