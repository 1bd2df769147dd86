"""Abstention: does the system decline to answer exactly where there is no answer?"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rag_eval_pipeline.metrics.intervals import Clusters, Interval, Summary, make_summary, summarise


class AskedQuestion(NamedTuple):
    """A question that was asked; `is_abstention` is None if the answer failed."""

    is_impossible: bool
    is_abstention: bool | None


def count_abstentions(questions: Iterable[AskedQuestion]) -> dict[str, Any]:
    """Count answerable and unanswerable questions that were answered, declined, or whose answers failed."""
    asked = Counter(questions)
    return {
        f"{'un' if is_impossible else ''}answerable_{name}": asked[AskedQuestion(is_impossible, is_abstention)]
        for is_impossible in (False, True)
        for name, is_abstention in (("answered", False), ("abstained", True), ("failed", None))
    }


class _Rate(NamedTuple):
    # (impossible, declined) of a question -> whether it raises the rate; None if it does not count.
    score: Callable[[bool, bool], bool | None]
    of: bool | None = None  # questions whose failures count: all, or those that are impossible or not
    reason: str | None = None  # why there is no value although nothing failed


_UNANSWERABLE = "no_unanswerable_questions"
_RATES = {
    "precision": _Rate(lambda impossible, declined: impossible if declined else None),
    "recall": _Rate(lambda impossible, declined: declined if impossible else None, True, _UNANSWERABLE),
    # The share of right refusals among all that is unanswerable or declined, with which F1 grows.
    "f1": _Rate(lambda impossible, declined: impossible and declined if impossible or declined else None),
    "over_refusal_rate": _Rate(
        lambda impossible, declined: None if impossible else declined, False, "no_answerable_questions"
    ),
    "false_answer_rate": _Rate(lambda impossible, declined: not declined if impossible else None, True, _UNANSWERABLE),
    "abstention_rate": _Rate(lambda _, declined: declined),
    "accuracy": _Rate(lambda impossible, declined: impossible == declined),
}


def abstention_rates(questions: Sequence[AskedQuestion], clusters: Clusters | None = None) -> dict[str, Summary]:
    """Return the rates of a run by name; intervals count the documents named in `clusters`, one for each question.

    Declining is the positive class of precision and recall. Precision has no value if nothing was declined, F1 is then
    0.0. Accuracy is about declining, not about whether the answers are right.
    """
    names = [str(number) for number in range(len(questions))] if clusters is None else clusters
    rates = {name: _summarise_rate(rate, questions, names) for name, rate in _RATES.items()}
    if rates["precision"].value is None:
        rates["precision"] = replace(rates["precision"], reason="no_abstentions")
    rates["f1"] = _f1(rates["f1"], rates["recall"], sum(one == AskedQuestion(True, True) for one in questions))
    return rates


def _summarise_rate(rate: _Rate, questions: Sequence[AskedQuestion], names: Clusters) -> Summary:
    values, clusters = [], []
    failed = 0
    for (impossible, declined), name in zip(questions, names, strict=True):
        if declined is None:
            failed += rate.of in (None, impossible)
        elif (value := rate.score(impossible, declined)) is not None:
            values.append(float(value))
            clusters.append(name)
    reason = None if failed else rate.reason
    skipped = len(questions) - failed - len(values)
    return summarise(values, failed=failed, skipped=skipped, reason=reason, clusters=clusters)


def _f1(share: Summary, recall: Summary, n_right: int) -> Summary:
    """Return F1 from the share of right refusals; no value where recall has none.

    Source: Lam, Gopal and Qian 2023, Confidence Intervals for the F1 Score, the indirect Wilson method.
    """
    n_known = share.n_scored + share.n_skipped
    if recall.value is None or share.confidence_interval is None:
        return make_summary(None, 0, share.n_failed, n_known, reason=recall.reason)
    low, high = share.confidence_interval
    return make_summary(
        2 * n_right / (n_right + share.n_scored),
        n_known,
        share.n_failed,
        0,
        interval=Interval(2 * low / (1 + low), 2 * high / (1 + high)),
        method=share.method,
        n_clusters=share.n_clusters,
    )
