"""One judgement an event, however many evaluators ask for it."""

import asyncio

from rag_eval_pipeline.judges.evaluators.evaluator import EvaluatorError
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.judgement import Claim, Judge, Judgement


class SharedJudge:
    """A judge behind evaluators; used on one event loop.

    Args:
        judge: None for none: only judgements that events bring are known.
    """

    def __init__(self, judge: Judge | None) -> None:
        self._judge = judge
        self._judging: dict[str, asyncio.Task[Judgement]] = {}

    async def of(self, event: Event) -> Judgement | None:
        """The judgement of an event; None without a judge.

        Raises:
            EvaluatorError: The judge failed, by its own code.
        """
        judgement = event.judgement
        if judgement is None:
            if self._judge is None:
                return None
            task = self._judging.get(event.event_id)
            if task is None or (task.done() and _is_failure(task)):
                task = self._judging[event.event_id] = asyncio.ensure_future(self._judge.judge(event.case))
            # One evaluator that is given up must not take the judgement away from the others.
            judgement = await asyncio.shield(task)
        if judgement.status == "failed":
            is_final = event.judgement is not None
            raise EvaluatorError(
                judgement.error_code or "judge_failed", judgement.error or "the judge failed", is_final=is_final
            )
        return judgement

    def close(self) -> None:
        """Ends what nobody waits for any more."""
        for task in self._judging.values():
            task.cancel()
        self._judging.clear()


def is_verified(claim: Claim) -> bool | None:
    """Whether a claim is borne out by what is cited with it or by what was retrieved; None when nothing was there."""
    supports = [support for support in (claim.by_citations, claim.by_contexts) if support is not None]
    return any(support.outcome == "supported" for support in supports) if supports else None


def _is_failure(task: "asyncio.Task[Judgement]") -> bool:
    return task.cancelled() or task.exception() is not None or task.result().status == "failed"
