"""Calibration: a judge judges what people have labelled, and a trust card says how far they agree.

Labels of a task are enough when there are 100, of both verdicts at least a tenth, and people gave them; the judge
passes when kappa's lower 95 % limit is 0.60 or more. Until then its scores are shown as not calibrated.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from rag_eval_pipeline.judges.calibration_card import PositionSwap, TrustCard
from rag_eval_pipeline.judges.calibration_labels import Label, truth_of
from rag_eval_pipeline.judges.calibration_trust import Findings, Occasion, share_of, task_trust
from rag_eval_pipeline.judges.calibration_verdicts import case_of
from rag_eval_pipeline.judges.judgement import Case, Judge, Judgement

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

    async def rating_directions(self, case: Case, name: str) -> tuple[float, ...] | None:
        """Scores of each direction; None where there are none."""
        ...


async def calibrate(
    judge: Judge,
    cases: Sequence[Case],
    labels: Sequence[Label],
    occasion: Occasion,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TrustCard:
    """How far the judge agrees with the labels.

    Args:
        judge: Open.
        cases: Answers with what they are judged by; those without labels are not judged.
        labels: Those without a case are counted as `no_answer`.
        occasion: What is calibrated.
        progress: Is told how many cases of how many are judged.
    """
    truth = truth_of(labels)
    known = {case.query_id: case for case in cases}
    asked = {item: case_of(item, known[item.query_id]) for item in truth.values if item.query_id in known}
    first = await _judge_all(asked.values(), judge.judge, progress)
    second = {}
    if occasion.asks_twice and isinstance(judge, RepeatableJudge):
        again = judge

        async def repeat(case: Case) -> Judgement:
            return await again.judge_again(case, ANOTHER)

        second = await _judge_all(asked.values(), repeat, progress)
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
        position_swaps=await _swaps(judge, list({item.query_id: known[item.query_id] for item in asked}.values())),
    )


async def _swaps(judge: Judge, cases: Sequence[Case]) -> tuple[PositionSwap, ...]:
    swaps = []
    for name in judge.compared_ratings if isinstance(judge, DirectionalJudge) else ():
        directional: DirectionalJudge = judge  # type: ignore[assignment]  # what the loop asked
        scores = await _gathered(partial(directional.rating_directions, name=name), cases)
        pairs = [score[:2] for score in scores if score is not None and len(score) > 1]
        equal = share_of(sum(first == second for first, second in pairs), len(pairs))
        if equal is not None:
            difference = sum(first - second for first, second in pairs) / len(pairs)
            swaps.append(PositionSwap(rating=name, equal=equal, difference=difference))
    return tuple(swaps)


async def _judge_all(
    cases: Iterable[Case], judge: Callable[[Case], Awaitable[Judgement]], progress: Callable[[int, int], None]
) -> dict[Case, Judgement]:
    """Each case's judgement; a case with several labels is judged once."""
    different = list(dict.fromkeys(cases))
    done = 0

    async def one(case: Case) -> Judgement:
        nonlocal done
        judgement = await judge(case)
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
