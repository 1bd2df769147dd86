"""Calibration: a judge judges what people have labelled, and a trust card says how far they agree.

Labels of a task are enough when there are 100, of both verdicts at least a tenth, and people gave them; the judge
passes when kappa's lower 95 % limit is 0.60 or more. Until then its scores are shown as not calibrated.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from rag_eval_pipeline.judges.calibration_card import PositionSwap, TrustCard
from rag_eval_pipeline.judges.calibration_labels import Label, truth_of
from rag_eval_pipeline.judges.calibration_trust import Findings, Occasion, share_of, task_trust
from rag_eval_pipeline.judges.calibration_verdicts import case_of
from rag_eval_pipeline.judges.judgement import Case, Directions, Judge, Judgement, JudgeUsage

AT_ONCE = 32  # cases; how many are with the server is the endpoint's own limit
ANOTHER = 1_000  # number of a judging that no setting of repeats comes to
Said = TypeVar("Said")


@runtime_checkable
class RepeatableJudge(Protocol):
    """A judge that may say something else when it is asked again."""

    async def judge_again(self, case: Case, repeat: int) -> Judgement:
        """One of several judgings of a case."""
        ...


@runtime_checkable
class DirectionalJudge(Protocol):
    """A judge with ratings that compare two texts, first the one and then the other."""

    @property
    def compared_ratings(self) -> tuple[str, ...]:
        """Names of those ratings."""
        ...

    async def rating_directions(self, case: Case, name: str) -> Directions:
        """Scores of each direction."""
        ...


class Purse(Protocol):
    """What judging may cost: calibrations and evaluations draw on one budget of the day."""

    async def reserve(self) -> None:
        """Waits for room; raises `ServiceError` `budget_spent` when there is nothing left today."""
        ...

    def book(self, usage: JudgeUsage) -> None:
        """Books what one answer took."""
        ...


class BottomlessPurse:
    """Pays for everything and keeps no account."""

    async def reserve(self) -> None:
        """Never waits."""

    def book(self, usage: JudgeUsage) -> None:
        """Nowhere."""


async def calibrate(
    judge: Judge,
    cases: Sequence[Case],
    labels: Sequence[Label],
    occasion: Occasion,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    purse: Purse | None = None,
) -> TrustCard:
    """How far the judge agrees with the labels.

    Args:
        judge: Open.
        cases: Answers with what they are judged by; those without labels are not judged.
        labels: Those without a case are counted as `no_answer`.
        occasion: What is calibrated.
        progress: Is told how many cases of how many are judged.
        purse: Is asked before each answer and booked after it; by default there is no limit and no account.

    Raises:
        ServiceError: `budget_spent`; what was judged is kept in the judge's cache.
    """
    purse = purse or BottomlessPurse()
    truth = truth_of(labels)
    known = {case.query_id: case for case in cases}
    asked = {item: case_of(item, known[item.query_id]) for item in truth.values if item.query_id in known}
    first = await _judge_all(asked.values(), judge.judge, progress, purse)
    second = {}
    if occasion.asks_twice and isinstance(judge, RepeatableJudge):
        again = judge

        async def repeat(case: Case) -> Judgement:
            return await again.judge_again(case, ANOTHER)

        second = await _judge_all(asked.values(), repeat, progress, purse)
    findings = Findings(truth, asked, first, second)
    tasks = list(dict.fromkeys(label.task for label in labels))
    return TrustCard(
        benchmark=occasion.benchmark,
        systems=occasion.systems,
        judge=occasion.judge,
        judge_fingerprint=judge.fingerprint,
        labels_by=occasion.labels_by,
        annotators=truth.annotators,
        labels_sha256=occasion.labels_sha256,
        models=tuple(sorted({judgement.model for judgement in first.values() if judgement.model is not None})),
        seed=occasion.seed,
        tasks=tuple(task_trust(task, findings, occasion) for task in tasks),
        position_swaps=await _swaps(judge, list({i.query_id: known[i.query_id] for i in asked}.values()), purse),
    )


async def _swaps(judge: Judge, cases: Sequence[Case], purse: Purse) -> tuple[PositionSwap, ...]:
    swaps = []
    for name in judge.compared_ratings if isinstance(judge, DirectionalJudge) else ():
        directional: DirectionalJudge = judge  # type: ignore[assignment]  # what the loop asked

        async def rated(case: Case, name: str = name, directional: DirectionalJudge = directional) -> Directions:
            await purse.reserve()
            directions = await directional.rating_directions(case, name)
            purse.book(directions.usage)
            return directions

        found = [directions.scores for directions in await _gathered(rated, cases)]
        pairs = [scores[:2] for scores in found if scores is not None and len(scores) > 1]
        equal = share_of(sum(first == second for first, second in pairs), len(pairs))
        if equal is not None:
            difference = sum(first - second for first, second in pairs) / len(pairs)
            swaps.append(PositionSwap(rating=name, equal=equal, difference=difference))
    return tuple(swaps)


async def _judge_all(
    cases: Iterable[Case],
    judge: Callable[[Case], Awaitable[Judgement]],
    progress: Callable[[int, int], None],
    purse: Purse,
) -> dict[Case, Judgement]:
    """Each case's judgement; a case with several labels is judged once."""
    different = list(dict.fromkeys(cases))
    done = 0

    async def one(case: Case) -> Judgement:
        nonlocal done
        await purse.reserve()
        judgement = await judge(case)
        purse.book(judgement.usage)
        done += 1
        progress(done, len(different))
        return judgement

    return dict(zip(different, await _gathered(one, different), strict=True))


async def _gathered(ask: Callable[[Case], Awaitable[Said]], cases: Sequence[Case]) -> list[Said]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> Said:
        async with slots:
            return await ask(case)

    return list(await asyncio.gather(*(one(case) for case in cases)))
