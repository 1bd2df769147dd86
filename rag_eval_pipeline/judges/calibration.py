"""Calibration: compares a judge with people's labels and makes a trust card of their agreement.

A label of `support` is about the claim it names, else about all claims of the answer; by the evidence it names, else by
what the claim cites, else by what was retrieved.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.judges.agreement import Confusion, bias_of, kappa_of
from rag_eval_pipeline.judges.corrected_rates import LabelledAnswers, different_errors
from rag_eval_pipeline.judges.judgement import (
    LANGUAGE_NOT_SUPPORTED,
    NEEDS_SUPPORT_JUDGE,
    Case,
    CitedText,
    Claim,
    Judge,
    Judgement,
    Support,
    is_refusal,
)
from rag_eval_pipeline.judges.labels import Item, Label, Truth, majority_labels
from rag_eval_pipeline.judges.trust_card import (
    ConfusionRecord,
    Disagreement,
    KappaRecord,
    LabelledEvaluation,
    LabelsBy,
    Limits,
    Share,
    Task,
    TaskTrust,
    TrustCard,
)
from rag_eval_pipeline.metrics.intervals import SEED, wilson_interval

MIN_LABELS = 100  # at kappa 0.75 they leave about +-0.13
MIN_CLASS_SHARE = 0.10  # of either verdict; kappa means little if nearly all labels are equal
MIN_AGREEMENT = 0.60  # of kappa's lower limit
WORST_LISTED = 20
TEXT_SHOWN = 200  # characters
CASES_AT_ONCE = 32  # the endpoint limits how many are sent at once
SECOND_JUDGING = 1_000  # its entries in the cache are not those of the first


class AnswersOf(NamedTuple):
    """An evaluation whose answers were labelled.

    Args:
        prefix: How the ids of its questions begin.
        passed: Whether the judge found each of its answers correct.
    """

    system: str
    evaluation: str
    prefix: str
    passed: Sequence[bool]


class CalibrationRequest(NamedTuple):
    """What is calibrated, and how; `judges_twice` doubles the cost of a model judge."""

    benchmark: str
    judge: str
    labels_by: LabelsBy
    labels_sha256: str | None = None
    answers: tuple[AnswersOf, ...] = ()
    min_agreement: float = MIN_AGREEMENT
    judges_twice: bool = True
    seed: int = SEED


class ItemVerdict(NamedTuple):
    """A judge's verdict on one labelled item.

    Args:
        is_true: Unsure is no. None without a verdict; `verdict` is then the reason.
        against: The gold answers or the evidence it was compared with; empty if there is neither.
    """

    is_true: bool | None
    verdict: str
    score: float = 0.0
    reason: str = ""
    against: str = ""


async def calibrate(
    judge: Judge,
    cases: Sequence[Case],
    labels: Sequence[Label],
    request: CalibrationRequest,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TrustCard:
    """Return how far the judge agrees with the labels.

    Answers without labels are not judged; labels without an answer are counted as `no_answer`.
    """
    truth = majority_labels(labels)
    known = {case.query_id: case for case in cases}
    asked = {item: case_of_item(item, known[item.query_id]) for item in truth.values if item.query_id in known}
    first = await judge_all(asked.values(), judge, 0, progress)
    second: dict[Case, Judgement] = {}
    if request.judges_twice and judge.may_differ:
        second = await judge_all(asked.values(), judge, SECOND_JUDGING, progress)

    def verdicts(judgements: dict[Case, Judgement]) -> dict[Item, ItemVerdict]:
        return {
            item: verdict_on(item, case, judgements[case], judges_support=judge.judges_support)
            for item, case in asked.items()
        }

    answers = {case.query_id: case.answer for case in cases}
    once, again = verdicts(first), verdicts(second) if second else {}
    return TrustCard(
        benchmark=request.benchmark,
        systems=tuple(dict.fromkeys(one.system for one in request.answers)),
        judge=request.judge,
        judge_fingerprint=judge.fingerprint,
        labels_by=request.labels_by,
        annotators=truth.annotators,
        labels_sha256=request.labels_sha256,
        models=tuple(sorted({judgement.model for judgement in first.values() if judgement.model is not None})),
        seed=request.seed,
        tasks=tuple(
            _task_trust(task, truth, once, again, answers, request)
            for task in dict.fromkeys(label.task for label in labels)
        ),
    )


async def judge_all(
    cases: Iterable[Case], judge: Judge, repeat: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[Case, Judgement]:
    """Return each case's judgement; a case with several labels is judged once."""
    distinct = list(dict.fromkeys(cases))
    slots = asyncio.Semaphore(CASES_AT_ONCE)
    done = 0

    async def one(case: Case) -> Judgement:
        nonlocal done
        async with slots:
            judgement = await judge.judge(case, repeat)
        done += 1
        progress(done, len(distinct))
        return judgement

    return dict(zip(distinct, await asyncio.gather(*map(one, distinct)), strict=True))


def case_of_item(item: Item, case: Case) -> Case:
    """Return what the judge is given: the answer, or a claim and the text that people compared it with."""
    if item.claim is None or item.evidence is None:
        return case
    evidence = CitedText("evidence", item.evidence, len(item.claim), len(item.claim))
    return Case(case.query_id, case.question, (), False, item.claim, (evidence,))


def verdict_on(item: Item, case: Case, judgement: Judgement, *, judges_support: bool) -> ItemVerdict:
    """Return what a judgement of `case_of_item` says about a labelled item."""
    if judgement.status != "completed":
        return ItemVerdict(None, judgement.error_code or "failed")
    if item.task == "support":
        return _support_verdict(item, case, judgement) if judges_support else ItemVerdict(None, NEEDS_SUPPORT_JUDGE)
    found = judgement.correctness
    if found is None:
        return ItemVerdict(None, LANGUAGE_NOT_SUPPORTED if LANGUAGE_NOT_SUPPORTED in judgement.flags else "no_verdict")
    if item.task == "refusal":
        refused = is_refusal(case, found)
        return ItemVerdict(refused, "refused" if refused else "answered", float(refused), found.reason)
    return ItemVerdict(found.verdict == "correct", found.verdict, found.score, found.reason, " | ".join(case.accepted))


def _support_verdict(item: Item, case: Case, judgement: Judgement) -> ItemVerdict:
    claims: Sequence[Claim] = judgement.claims
    if item.claim is not None and item.evidence is None:
        start = case.answer.find(item.claim)
        if start < 0:
            return ItemVerdict(None, "no_such_claim")
        end = start + len(item.claim)
        claims = [claim for claim in claims if claim.start < end and start < claim.end]
    if not claims:
        return ItemVerdict(None, "no_claims")
    supports: list[tuple[Support, Claim]] = []
    for claim in claims:
        support = claim.by_contexts if claim.by_citations is None else claim.by_citations
        if support is None:
            return ItemVerdict(None, "no_evidence")
        supports.append((support, claim))
    # An answer is supported if all of its claims are, so its weakest claim decides.
    weakest, claim = min(supports, key=lambda found: (found[0].outcome == "supported", found[0].score))
    cited = [case.citations[number].text for number in claim.citations]
    texts = case.contexts if claim.by_citations is None else [text for text in cited if text is not None]
    is_true = weakest.outcome == "supported"
    return ItemVerdict(is_true, weakest.outcome, weakest.score, weakest.reason, " | ".join(texts))


def _task_trust(
    task: Task,
    truth: Truth,
    once: dict[Item, ItemVerdict],
    again: dict[Item, ItemVerdict],
    answers: dict[str, str],
    request: CalibrationRequest,
) -> TaskTrust:
    items = [item for item in truth.values if item.task == task]
    compared = [item for item in items if item in once and once[item].is_true is not None]
    left_out = Counter(
        once[item].verdict if item in once else "no_answer" for item in items if item not in set(compared)
    )
    pairs = [(truth.values[item], once[item].is_true is True) for item in compared]
    table = Confusion.tally(pairs)
    sure = Confusion.tally(pair for pair, item in zip(pairs, compared, strict=True) if once[item].verdict != "unsure")
    kappa = kappa_of(table, seed=request.seed)
    shortcomings = tuple(_shortcomings(table, kappa, request))
    evaluations = tuple(_evaluations(compared, pairs, request)) if task == "correctness" else ()
    systems = {one.system: [part for part in evaluations if part.system == one.system] for one in evaluations}
    repeated = [item for item in compared if item in again and again[item].is_true is not None]
    return TaskTrust(
        task=task,
        n_labels=len(items) + truth.ties[task],
        n_compared=len(compared),
        n_ties=truth.ties[task],
        not_judged=dict(sorted(left_out.items())),
        n_unsure=len(pairs) - sum(sure),
        kappa=kappa,
        kappa_sure=kappa_of(sure, seed=request.seed),
        confusion=ConfusionRecord(**table._asdict()),
        bias=bias_of(table),
        repeat_agreement=_share(sum(once[item].verdict == again[item].verdict for item in repeated), len(repeated)),
        annotator_alpha=truth.alpha[task],
        evaluations=evaluations,
        different_errors=different_errors({name: LabelledAnswers.pooled(own) for name, own in systems.items()}),
        worst=tuple(_worst(compared, truth, once, answers)),
        is_calibrated=not shortcomings,
        shortcomings=shortcomings,
    )


def _evaluations(
    compared: Sequence[Item], pairs: Sequence[tuple[bool, bool]], request: CalibrationRequest
) -> Iterator[LabelledEvaluation]:
    for one in request.answers:
        own = [pair for item, pair in zip(compared, pairs, strict=True) if item.query_id.startswith(one.prefix)]
        passed = one.passed or [
            verdict for _, verdict in own
        ]  # another judge's verdicts are not stored: labels at random
        if own:
            yield LabelledEvaluation(
                system=one.system,
                evaluation=one.evaluation,
                confusion=ConfusionRecord(**Confusion.tally(own)._asdict()),
                judged=len(passed),
                passed=sum(passed),
            )


def _shortcomings(table: Confusion, kappa: KappaRecord, request: CalibrationRequest) -> list[str]:
    found = []
    if request.labels_by != "human":
        found.append("The labels are not people's.")
    total, yes = sum(table), table.both_yes + table.labels_yes_judge_no
    if total < MIN_LABELS:
        found.append(f"{counted(total, 'label was compared', 'labels were compared')}; {MIN_LABELS} are needed.")
    if total:
        rarer = min(yes, total - yes) / total
        if rarer < MIN_CLASS_SHARE:
            found.append(f"The rarer label has a share of {rarer:.3f}; {MIN_CLASS_SHARE:.2f} is needed.")
    if kappa.interval is None:
        found.append(f"There is no kappa ({kappa.reason}).")
    elif kappa.interval.low < request.min_agreement:
        found.append(f"Kappa may be as low as {kappa.interval.low:.3f}; {request.min_agreement:.2f} is needed.")
    return found


def _worst(
    compared: Sequence[Item], truth: Truth, once: dict[Item, ItemVerdict], answers: dict[str, str]
) -> list[Disagreement]:
    wrong = [item for item in compared if once[item].is_true != truth.values[item]]
    # The surer the judge, the worse its mistake; equal ones stay in the labels' order.
    wrong.sort(key=lambda item: -abs(once[item].score - truth.values[item]))
    return [
        Disagreement(
            query_id=item.query_id,
            label=truth.values[item],
            judge=once[item].verdict,
            score=once[item].score,
            reason=once[item].reason,
            text=(item.claim or answers[item.query_id])[:TEXT_SHOWN],
            against=once[item].against[:TEXT_SHOWN],
        )
        for item in wrong[:WORST_LISTED]
    ]


def _share(successes: int, trials: int) -> Share | None:
    if trials == 0:
        return None
    low, high = wilson_interval(successes, trials)
    return Share(value=successes / trials, interval=Limits(low=low, high=high), n=trials)
