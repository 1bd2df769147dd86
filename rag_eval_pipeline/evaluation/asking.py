"""Asking a system every question of a dataset, each once, whatever interrupts it.

Every terminal answer goes to the journal; a killed run resumes and asks only what is missing, and a failed answer is
terminal until somebody asks for the failed ones again. A deterministic system whose fingerprints have not changed is
not asked at all, and no system is asked because a metric or the judge changed: its answers are copied, marked with the
evaluation that measured them.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.corpus_files import system_corpus
from rag_eval_pipeline.evaluation.pair import Pair, holding
from rag_eval_pipeline.evaluation.questioning import ask_all
from rag_eval_pipeline.evaluation.resources import sampling
from rag_eval_pipeline.evaluation.responses_file import write_responses
from rag_eval_pipeline.evaluation.runs import Evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.settings import digest
from rag_eval_pipeline.evaluation.spending import Spending, Spent
from rag_eval_pipeline.evaluation.taking_over import (
    Which,
    answered_in,
    copied_for_retry,
    copied_for_scoring,
    missing_of,
    nothing_failed,
    open_for,
    resumed,
    same_answers,
    start_of,
    take_over,
)
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.storage.journal import JournalIndex, JournalWriter
from rag_eval_pipeline.systems.answer import Query, RagAnswer, System
from rag_eval_pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class AskingReport:
    """What came of asking."""

    evaluation_id: str
    questions: int
    asked: int
    reused: int
    resumed: int
    failed: int
    abstained: int

    @property
    def coverage(self) -> float:
        """Share of the questions with an answer that can be scored."""
        return (self.questions - self.failed) / self.questions if self.questions else 0.0


def ask(
    workspace: Workspace, pair: Pair, *, now: datetime, progress: Progress | None = None, which: Which = "missing"
) -> AskingReport:
    """Opens or resumes the pair's evaluation and brings it to the state `answered`.

    Args:
        workspace: Where.
        pair: What.
        now: Aware; dates a new evaluation.
        progress: Called with the number of answers and of questions.
        which: What is asked; see `taking_over.Which`.

    Raises:
        InputError: `nothing_failed`, when the failed ones are wanted and there is nothing to take the others from.
        ServiceError: `no_answers` when not one question got an answer, `budget_spent` when the day's budget is used up
            (what was answered is kept), `locked` when another process evaluates the pair, and what the system says of
            a server that cannot be used.
    """
    with holding(workspace, pair):
        return asyncio.run(_ask(workspace, pair, now, progress, which))


def questions_to_ask(workspace: Workspace, pair: Pair, *, which: Which = "missing") -> Sequence[EvaluationQuery]:
    """The questions that `ask` would ask now; nothing is opened or changed."""
    previous = newest_evaluation(workspace, pair.paths.name, pair.system)
    start = start_of(previous, pair, which)
    if previous is None or start == "new":
        return _not_reused(previous, pair)
    if start == "rescore":
        return ()
    return missing_of(pair.queries, answered_in(previous), which)


def _not_reused(previous: Evaluation | None, pair: Pair) -> Sequence[EvaluationQuery]:
    """What a new evaluation asks: everything but the answers of a deterministic system that are there."""
    if previous is None or not pair.system_file.is_deterministic or previous.record.state == "open":
        return pair.queries
    if not same_answers(previous.record.fingerprints, pair.fingerprints):
        return pair.queries
    return missing_of(pair.queries, answered_in(previous), "failed")


async def _ask(
    workspace: Workspace, pair: Pair, now: datetime, progress: Progress | None, which: Which
) -> AskingReport:
    previous = newest_evaluation(workspace, pair.paths.name, pair.system)
    evaluation = _begun(workspace, pair, previous, now, which)
    resumes = previous is not None and evaluation.folder == previous.folder
    answered = answered_in(evaluation)
    kept = len(answered) if resumes else 0
    missing = missing_of(pair.queries, answered, which)
    async with contextlib.AsyncExitStack() as stack:
        if missing:
            system = await stack.enter_async_context(_opened(workspace, pair))
            server = _server_fingerprint(system)
            if answered and evaluation.record.fingerprints.server != server:
                logger.info("%s was set up anew: its answers so far are not mixed with others", pair.system)
                evaluation, kept, missing = open_for(workspace, pair, now), 0, pair.queries
            prints = evaluation.record.fingerprints.model_copy(update={"server": server})
            evaluation.save(fingerprints=prints, configuration=_configuration(pair, system))
            await _ask_missing(workspace, evaluation, pair, system, missing, progress)
    report = _write_answers(evaluation, pair, asked=len(missing), resumed=kept)
    answered_at = evaluation.record.answered_at if evaluation.record.rescored_from else None
    evaluation.save(state="answered", answered_at=answered_at or datetime.now(UTC))
    return report


def _begun(workspace: Workspace, pair: Pair, previous: Evaluation | None, now: datetime, which: Which) -> Evaluation:
    """The evaluation in which the pair is asked, with the answers that it need not ask for."""
    start = start_of(previous, pair, which)
    if which == "failed" and start == "new":
        raise nothing_failed(previous, pair)
    if previous is not None and start == "resume":
        return resumed(previous, pair)
    if previous is not None and start == "retry":
        return copied_for_retry(workspace, pair, previous, now)
    if previous is not None and start == "rescore":
        try:
            return copied_for_scoring(workspace, pair, previous)
        except InputError as error:
            logger.warning("%s is asked again, as its answers cannot be read: %s", pair.system, error)
    evaluation = open_for(workspace, pair, now)
    take_over(evaluation, pair, previous)
    return evaluation


def _opened(workspace: Workspace, pair: Pair) -> contextlib.AbstractAsyncContextManager[System]:
    file = pair.system_file
    corpus = system_corpus(workspace, pair.paths, pair.system, fingerprint=pair.fingerprints.corpus)
    return file.traits.opener()(file.settings, corpus)


def _server_fingerprint(system: System) -> str | None:
    stated = system.server_configuration()
    return None if stated is None else digest(stated)


def _configuration(pair: Pair, system: System) -> dict[str, Any]:
    """What stands in the results."""
    server = system.server_configuration()
    stated: dict[str, Any] = {} if server is None else {"server": server}
    return {"kind": pair.system_file.kind, **system.configuration(), **stated}


async def _ask_missing(
    workspace: Workspace,
    evaluation: Evaluation,
    pair: Pair,
    system: System,
    missing: Sequence[EvaluationQuery],
    progress: Progress | None,
) -> None:
    traits, settings = pair.system_file.traits, pair.settings
    done = already = len(pair.queries) - len(missing)
    started = time.monotonic()
    spending = Spending(
        workspace.spending, f"system-{pair.system}", evaluation.record.evaluation_id, pair.system_file.budget,
        clock=lambda: datetime.now(UTC),
    )  # fmt: skip
    try:
        with JournalWriter(evaluation.journal) as journal, sampling() as samples, spending:

            def keep(answer: RagAnswer) -> None:
                nonlocal done
                journal.append(answer)
                usage = answer.usage
                spending.add(Spent(usage.requests, usage.total_tokens, usage.estimated_cost_usd))
                done += 1
                if progress:
                    progress(done, already + len(missing))

            await ask_all(
                system,
                (Query(query.query_id, query.query_text) for query in missing),
                keep,
                in_flight=settings.concurrency or pair.system_file.in_flight,
                timeout_s=None if traits.has_own_limits else settings.timeout_seconds,
                reserve=spending.reserve,
            )
    finally:
        # Warnings of answers that were copied, or given before an interruption, stay.
        warnings = dict.fromkeys((*evaluation.record.warnings, *system.warnings()))
        seconds = evaluation.record.asking_seconds + time.monotonic() - started
        evaluation.save(asking_seconds=seconds, warnings=tuple(warnings))
    atomic_write_json(evaluation.resources, dataclasses.asdict(samples))


def _write_answers(evaluation: Evaluation, pair: Pair, *, asked: int, resumed: int) -> AskingReport:
    """Publishes the answers in the dataset's order, as they stand in the journal."""
    index = JournalIndex(evaluation.journal, RagAnswer, lambda answer: answer.query_id)
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()

    def counted(answers: Iterable[RagAnswer]) -> Iterator[RagAnswer]:
        for answer in answers:
            counts["reused"] += answer.reused_from is not None
            counts["abstained"] += answer.abstained
            if answer.status != "ok":
                faults[answer.error or answer.status] += 1
            yield answer

    write_responses(evaluation.responses, counted(index.records(query.query_id for query in pair.queries)))
    failed = faults.total()
    if failed == len(pair.queries):
        # The next attempt asks again: a server that was down tonight must not be down for ever.
        evaluation.journal.unlink()
        raise ServiceError(
            "no_answers", f"{pair.system} answered none of {failed} questions: {faults.most_common(1)[0][0]}"
        )
    return AskingReport(
        evaluation_id=evaluation.record.evaluation_id,
        questions=len(pair.queries),
        asked=asked,
        reused=counts["reused"],
        resumed=resumed,
        failed=failed,
        abstained=counts["abstained"],
    )
