"""Many evaluators on many events: side by side within limits, in time, again after a failure, and in a fixed order.

A failure is an evaluation with an error, never a number and never the end of the others. Given the events, the clock
and the ids, the batch is the same every time: ids are given in the order of the events and, for each, of the
configuration, whatever ended first.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    BatchStatus,
    EvaluationBatch,
    EvaluationConfig,
    new_evaluation_id,
)
from rag_eval_pipeline.formats.statuses import batch_status
from rag_eval_pipeline.judges.evaluators.evaluator import (
    Evaluator,
    NotApplicable,
    refuse_unknown_configs,
)
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.finding import find_evaluators
from rag_eval_pipeline.judges.evaluators.outcomes import Outcome, evaluation_of, failure_of, raisable
from rag_eval_pipeline.judges.evaluators.shared_judge import SharedJudge
from rag_eval_pipeline.judges.judgement import Judge
from rag_eval_pipeline.metrics.evaluation_scores import normalised
from rag_eval_pipeline.systems.python.threads import CallThreads

AT_ONCE = 64  # evaluations; the specification asks for 50 and more, a thread of each costs its stack


@dataclass(frozen=True, slots=True)
class Means:
    """What evaluations are made with, apart from events and configuration.

    Args:
        judge: Behind the evaluators that need one.
        evaluators: The caller's, by name; they go before all others.
        at_once: Evaluations at once, when the configuration wants them in parallel.
        sleep: Waits some seconds between tries.
        clock: Seconds from some beginning, for durations.
    """

    judge: Judge | None = None
    evaluators: Mapping[str, Evaluator] = field(default_factory=dict)
    at_once: int = AT_ONCE
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.perf_counter


ORDINARY = Means()


async def run_evaluators(
    events: Iterable[Event],
    config: EvaluationConfig,
    *,
    now: datetime,
    new_id: Callable[[], str] = new_evaluation_id,
    batch_id: str | None = None,
    means: Means = ORDINARY,
) -> EvaluationBatch:
    """Runs every evaluator of a configuration on every event.

    Args:
        events: Each with an id of its own.
        config: Which evaluators, with which options, limits and retries.
        now: Aware; the time of every evaluation.
        new_id: Called once an evaluation.
        batch_id: By default one more id.
        means: What it is done with.

    Raises:
        InputError: `unknown_evaluator`, `bad_evaluator`, `duplicate_evaluator`, `duplicate_event`, or `bad_format` for
            an option. What an evaluator raises is never raised here.
    """
    every = _distinct(events)
    judge = SharedJudge(means.judge)
    evaluators = find_evaluators(config, judge, means.evaluators)
    refuse_unknown_configs(config, {evaluator.name: evaluator for evaluator in evaluators})
    options = {evaluator.name: evaluator.options_of(config) for evaluator in evaluators}
    started = means.clock()
    running = _Running(config, means, options)
    pairs = [(event, evaluator) for event in every for evaluator in evaluators]
    try:
        outcomes = await running.run(pairs)
    finally:
        judge.close()
        running.close()
    evaluations = tuple(
        evaluation_of(event, evaluator, outcome, options[evaluator.name], new_id(), now)
        for (event, evaluator), outcome in zip(pairs, outcomes, strict=True)
    )
    status = batch_status(evaluation.status for evaluation in evaluations)
    return EvaluationBatch(
        batch_id=new_id() if batch_id is None else batch_id,
        evaluations=evaluations,
        batch_metadata={
            "batch_size": len(evaluations),
            "created_at": now,
            "evaluator_versions": {e.name: e.version for e in evaluators if e.version is not None},
            "processing_time_ms": (means.clock() - started) * 1000,
        },
        status=status if evaluations else BatchStatus.COMPLETED,
    )


class _Running:
    """The evaluations of one batch while they run."""

    def __init__(self, config: EvaluationConfig, means: Means, options: Mapping[str, Any]) -> None:
        self._means = means
        self._options = options
        self._at_once = means.at_once if config.parallel_execution else 1
        self._timeout_s = None if config.timeout_ms is None else config.timeout_ms / 1000
        self._delays_ms = () if config.retry_config is None else config.retry_config.delays_ms
        self._threads = CallThreads()

    async def run(self, pairs: Sequence[tuple[Event, Evaluator]]) -> list[Outcome]:
        """One outcome a pair, in their order."""
        outcomes = [Outcome()] * len(pairs)
        pending = iter(enumerate(pairs))

        async def worker() -> None:
            for number, (event, evaluator) in pending:
                outcomes[number] = await self._outcome(event, evaluator)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._at_once, len(pairs))):
                group.create_task(worker())
        return outcomes

    def close(self) -> None:
        self._threads.close()

    async def _outcome(self, event: Event, evaluator: Evaluator) -> Outcome:
        if missing := evaluator.missing(event):
            return Outcome(skipped=f"needs {', '.join(missing)}, which the event does not have")
        spent = 0.0
        for tries, delay_ms in enumerate((*self._delays_ms, None), start=1):
            started = self._means.clock()
            try:
                fields = await self._fields(event, evaluator)
            except NotApplicable as reason:
                return Outcome(skipped=str(reason) or "not applicable")
            except BaseException as error:
                if not isinstance(error, Exception | SystemExit):
                    raise
                failure, error_type = failure_of(error, self._timeout_s), type(error).__name__
            else:
                spent += self._means.clock() - started
                return Outcome(fields=fields, tries=tries, duration_ms=spent * 1000)
            spent += self._means.clock() - started
            if delay_ms is None or failure.is_final:
                return Outcome(error=failure, error_type=error_type, tries=tries, duration_ms=spent * 1000)
            await self._means.sleep(delay_ms / 1000)
        raise AssertionError("the last try has no delay")

    async def _fields(self, event: Event, evaluator: Evaluator) -> Mapping[str, Any]:
        options = self._options[evaluator.name]
        async with asyncio.timeout(self._timeout_s):
            value: Any
            if evaluator.in_thread and not inspect.iscoroutinefunction(evaluator.evaluate):
                outcome = await self._threads.call(lambda: evaluator.evaluate(event, options))
                if outcome.error is not None:
                    raise raisable(outcome.error)
                value = outcome.value
            else:
                value = evaluator.evaluate(event, options)
            if inspect.isawaitable(value):
                value = await value
        fields = value if isinstance(value, Mapping) else {"score": value}
        score = fields.get("score")
        if evaluator.scale is not None and isinstance(score, bool | int | float | str):
            normalised(score, evaluator.scale, evaluator.name)  # refuses what is out of its range
        return fields


def _distinct(events: Iterable[Event]) -> list[Event]:
    every = list(events)
    seen: set[str] = set()
    for event in every:
        if event.event_id in seen:
            raise InputError("duplicate_event", "the events", "each event once", found=event.event_id)
        seen.add(event.event_id)
    return every
