"""Asking a system every question of a dataset, each once, whatever interrupts it.

Every terminal answer goes to the journal; a killed run resumes and asks only what is missing. A deterministic system
whose fingerprints have not changed is not asked at all: its answers are copied, marked with the evaluation that
measured them.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.pair import Pair, holding
from rag_eval_pipeline.evaluation.resources import sampling
from rag_eval_pipeline.evaluation.responses_file import read_responses, write_responses
from rag_eval_pipeline.evaluation.runs import Evaluation, newest_evaluation, open_evaluation
from rag_eval_pipeline.evaluation.settings import EvaluationSettings
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.answer import Query, RagAnswer, System
from rag_eval_pipeline.systems.embedded.settings import EmbeddedSettings
from rag_eval_pipeline.systems.embedded.system import EmbeddedSystem
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


def ask(workspace: Workspace, pair: Pair, *, now: datetime, progress: Progress | None = None) -> AskingReport:
    """Opens or resumes the pair's evaluation and brings it to the state `answered`.

    Args:
        workspace: Where.
        pair: What.
        now: Aware; dates a new evaluation.
        progress: Called with the number of answers and of questions.

    Raises:
        ServiceError: `no_answers` when not one question got an answer, `locked` when another process evaluates the
            pair.
    """
    with holding(workspace, pair):
        previous = newest_evaluation(workspace, pair.paths.name, pair.system)
        evaluation = _resumable(previous, pair) or _open(workspace, pair, now)
        resumed = _take_over(evaluation, pair, previous)
        return _ask_missing(evaluation, pair, resumed=resumed, progress=progress)


def _resumable(previous: Evaluation | None, pair: Pair) -> Evaluation | None:
    """The newest evaluation, if it is not published and everything it depends on is as it was."""
    if previous is None or previous.record.state == "published":
        return None
    return previous if previous.record.fingerprints == pair.fingerprints else None


def _open(workspace: Workspace, pair: Pair, now: datetime) -> Evaluation:
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


def _take_over(evaluation: Evaluation, pair: Pair, previous: Evaluation | None) -> int:
    """Copies a deterministic system's answers from the evaluation that measured them.

    Returns:
        How many answers of this evaluation were journalled by an earlier session.
    """
    resumed = len(_journalled(evaluation))
    if resumed or previous is None or previous.folder == evaluation.folder or not pair.system_file.is_deterministic:
        return resumed
    old, new = previous.record.fingerprints, pair.fingerprints
    if previous.record.state == "open" or (old.dataset, old.corpus, old.system) != (
        new.dataset,
        new.corpus,
        new.system,
    ):
        return resumed
    try:
        answers = [answer for answer in read_responses(previous.responses) if answer.status == "ok"]
    except InputError as error:
        logger.warning("Nothing is reused: %s", error)
        return resumed
    evaluation.save(configuration=previous.record.configuration)
    with JournalWriter(evaluation.journal) as journal:
        for answer in answers:
            source = answer.reused_from or previous.record.evaluation_id
            journal.append(msgspec.structs.replace(answer, reused_from=source))
    return 0


def _ask_missing(evaluation: Evaluation, pair: Pair, *, resumed: int, progress: Progress | None) -> AskingReport:
    queries = pair.queries
    answers = _journalled(evaluation)
    missing = [query for query in queries if query.query_id not in answers]
    if missing:
        answers |= _run(evaluation, pair, missing, done=len(queries) - len(missing), progress=progress)
    ordered = [answers[query.query_id] for query in queries]
    write_responses(evaluation.responses, ordered)
    report = _report(evaluation, ordered, asked=len(missing), resumed=resumed)
    if report.questions and report.failed == report.questions:
        # The next attempt asks again: a server that was down tonight must not be down for ever.
        evaluation.journal.unlink()
        raise ServiceError(
            "no_answers", f"{pair.system} answered none of {report.questions} questions: {ordered[0].error}"
        )
    evaluation.save(state="answered", answered_at=datetime.now(UTC))
    return report


def _run(
    evaluation: Evaluation, pair: Pair, missing: Sequence[EvaluationQuery], *, done: int, progress: Progress | None
) -> dict[str, RagAnswer]:
    settings = pair.system_file.settings
    assert isinstance(settings, EmbeddedSettings)
    system: System = EmbeddedSystem(CorpusFiles.read(pair.paths).pages(), settings)
    evaluation.save(configuration=system.configuration())
    answers: dict[str, RagAnswer] = {}
    started = time.monotonic()
    with JournalWriter(evaluation.journal) as journal, sampling() as samples:

        def keep(answer: RagAnswer) -> None:
            journal.append(answer)
            answers[answer.query_id] = answer
            if progress:
                progress(done + len(answers), done + len(missing))

        questions = (Query(query.query_id, query.query_text) for query in missing)
        asyncio.run(_ask_all(system, questions, pair.settings, keep))
    atomic_write_json(evaluation.resources, dataclasses.asdict(samples))
    evaluation.save(asking_seconds=evaluation.record.asking_seconds + time.monotonic() - started)
    return answers


async def _ask_all(
    system: System, questions: Iterable[Query], settings: EvaluationSettings, keep: Callable[[RagAnswer], None]
) -> None:
    """Asks in order, at most `concurrency` questions at once; memory does not grow with the number of questions."""
    pending = iter(questions)

    async def worker() -> None:
        for query in pending:
            keep(await _answer(system, query, settings.timeout_seconds))

    async with asyncio.TaskGroup() as group:
        for _ in range(settings.concurrency):
            group.create_task(worker())


async def _answer(system: System, query: Query, timeout_seconds: float) -> RagAnswer:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await system.answer(query)
    except TimeoutError:
        return RagAnswer(
            query_id=query.query_id,
            status="timeout",
            answer=None,
            abstained=False,
            contexts=(),
            citations=(),
            latency_ms=timeout_seconds * 1000,
            error=f"no answer within {timeout_seconds:g} s",
        )


def _journalled(evaluation: Evaluation) -> dict[str, RagAnswer]:
    answers = (msgspec.convert(record, RagAnswer) for record in read_journal(evaluation.journal))
    return {answer.query_id: answer for answer in answers}


def _report(evaluation: Evaluation, answers: Sequence[RagAnswer], *, asked: int, resumed: int) -> AskingReport:
    return AskingReport(
        evaluation_id=evaluation.record.evaluation_id,
        questions=len(answers),
        asked=asked,
        reused=sum(answer.reused_from is not None for answer in answers),
        resumed=resumed,
        failed=sum(answer.status != "ok" for answer in answers),
        abstained=sum(answer.abstained for answer in answers),
    )
