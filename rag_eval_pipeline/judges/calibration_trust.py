"""Agreement on one task as a trust card states it, and what is missing for the judge to be calibrated.

Labels of a task are enough when there are 100, of both verdicts at least a tenth, and people gave them; the judge
passes when kappa's lower 95 % limit is 0.60 or more.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges import calibration_card as form
from rag_eval_pipeline.judges.calibration_agreement import Confusion, Kappa, bias_of, kappa_of
from rag_eval_pipeline.judges.calibration_card import LabelsBy, TaskTrust
from rag_eval_pipeline.judges.calibration_labels import Item, Task, Truth
from rag_eval_pipeline.judges.calibration_verdicts import Judged, judged
from rag_eval_pipeline.judges.judgement import Case, Judgement
from rag_eval_pipeline.metrics.bootstrap import SEED
from rag_eval_pipeline.metrics.intervals import Interval, wilson_interval

MIN_LABELS = 100  # at kappa 0.75 they leave about +-0.13
MIN_CLASS_SHARE = 0.10  # of either verdict; kappa says little where nearly all labels are equal
MIN_AGREEMENT = 0.60  # of kappa's lower limit
WORST_LISTED = 20
TEXT_SHOWN = 200  # characters


class Occasion(NamedTuple):
    """What is calibrated, and how.

    Args:
        benchmark: Whose answers they are.
        judge: What judges, for people.
        labels_by: Whose labels they are.
        labels_sha256: Of the labels' file; None without one.
        systems: Whose answers they are.
        min_agreement: Lower limit of kappa that is needed.
        asks_twice: Whether a judge that may differ is asked again, which costs as much once more.
        seed: Of the resamples.
    """

    benchmark: str
    judge: str
    labels_by: LabelsBy
    labels_sha256: str | None = None
    systems: tuple[str, ...] = ()
    min_agreement: float = MIN_AGREEMENT
    asks_twice: bool = True
    seed: int = SEED


class Findings(NamedTuple):
    """Labels and verdicts.

    Args:
        truth: What the labels say.
        asked: What the judge was given for each thing that was labelled and has an answer.
        first: What it said.
        second: What it said when it was asked again; empty when it was not.
    """

    truth: Truth
    asked: dict[Item, Case]
    first: dict[Case, Judgement]
    second: dict[Case, Judgement]


def task_trust(task: Task, findings: Findings, occasion: Occasion) -> TaskTrust:
    """Agreement on one task."""
    truth, asked, first, second = findings
    items = [item for item in truth.values if item.task == task]
    words = {item: judged(item, asked[item], first[asked[item]]) for item in items if item in asked}
    compared = [item for item in words if words[item].is_true is not None]
    left_out = Counter(words[item].verdict if item in words else "no_answer" for item in items)
    left_out.subtract(words[item].verdict for item in compared)
    table = Confusion.of((truth.values[item], words[item].is_true is True) for item in compared)
    sure = [item for item in compared if not words[item].is_unsure]
    kappa = kappa_of(table, seed=occasion.seed)
    kappa_sure = kappa_of(
        Confusion.of((truth.values[item], words[item].is_true is True) for item in sure), seed=occasion.seed
    )
    bias = bias_of(table)
    shortcomings = tuple(_shortcomings(table, kappa, occasion))
    return TaskTrust(
        task=task,
        n_labels=len(items) + truth.ties.get(task, 0),
        n_compared=len(compared),
        n_ties=truth.ties.get(task, 0),
        not_judged={reason: count for reason, count in sorted(left_out.items()) if count > 0},
        n_unsure=len(compared) - len(sure),
        kappa=_kappa(kappa),
        kappa_sure=_kappa(kappa_sure),
        confusion=form.ConfusionRecord(
            both_yes=table.true_kept,
            labels_yes_judge_no=table.true_missed,
            labels_no_judge_yes=table.false_taken,
            both_no=table.false_kept,
        ),
        bias=None if bias is None else form.Bias(value=bias.value, interval=form.Limits(low=bias.low, high=bias.high)),
        repeat_agreement=_repeat_agreement(compared, words, asked, second),
        annotator_alpha=truth.alpha[task].value,
        worst=tuple(_worst(compared, truth, words)),
        is_calibrated=not shortcomings,
        shortcomings=shortcomings,
    )


def _shortcomings(table: Confusion, kappa: Kappa, occasion: Occasion) -> list[str]:
    found = []
    if occasion.labels_by != "human":
        found.append("The labels are not people's.")
    if table.total < MIN_LABELS:
        found.append(f"{table.total} labels were compared; {MIN_LABELS} are needed.")
    share = table.people_share
    if share is not None and not MIN_CLASS_SHARE <= share <= 1 - MIN_CLASS_SHARE:
        found.append(f"The rarer label has a share of {min(share, 1 - share):.3f}; {MIN_CLASS_SHARE:.2f} is needed.")
    if kappa.interval is None:
        found.append(f"There is no kappa ({kappa.reason}).")
    elif kappa.interval.low < occasion.min_agreement:
        found.append(f"Kappa may be as low as {kappa.interval.low:.3f}; {occasion.min_agreement:.2f} is needed.")
    return found


def _worst(compared: Sequence[Item], truth: Truth, words: dict[Item, Judged]) -> list[form.Disagreement]:
    wrong = [item for item in compared if words[item].is_true != truth.values[item]]
    # The surer the judge, the worse its mistake; equal ones stay in the labels' order.
    wrong.sort(key=lambda item: -abs(words[item].score - truth.values[item]))
    return [
        form.Disagreement(
            query_id=item.query_id,
            label=truth.values[item],
            judge=words[item].verdict,
            score=words[item].score,
            reason=words[item].reason,
            text=words[item].text[:TEXT_SHOWN],
            against=words[item].against[:TEXT_SHOWN],
        )
        for item in wrong[:WORST_LISTED]
    ]


def _repeat_agreement(
    compared: Sequence[Item], words: dict[Item, Judged], asked: dict[Item, Case], second: dict[Case, Judgement]
) -> form.Share | None:
    if not second:
        return None
    pairs = [(words[item].verdict, judged(item, asked[item], second[asked[item]])) for item in compared]
    both = [(verdict, other.verdict) for verdict, other in pairs if other.is_true is not None]
    return share_of(sum(verdict == other for verdict, other in both), len(both))


def share_of(successes: int, trials: int) -> form.Share | None:
    """A share with Wilson's interval; None without trials."""
    if trials == 0:
        return None
    return form.Share(value=successes / trials, interval=_limits(wilson_interval(successes, trials)), n=trials)


def _kappa(kappa: Kappa) -> form.KappaRecord:
    intervals = {name: getattr(kappa, name) for name in ("interval", "analytic", "bootstrap")}
    return form.KappaRecord(
        value=kappa.value,
        reason=kappa.reason,
        **{name: _limits(interval) for name, interval in intervals.items() if interval is not None},
    )


def _limits(interval: Interval) -> form.Limits:
    return form.Limits(low=interval.low, high=interval.high)
