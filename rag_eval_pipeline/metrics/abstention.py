"""Abstention: does the system decline exactly where there is no answer?

Whether it declined is the system's own flag, decided where its answer is read; here the flags are counted against
`is_impossible`. Declining is the positive class: precision asks how many refusals were right, recall how many
unanswerable questions were refused.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rag_eval_pipeline.metrics.intervals import Interval, wilson_interval
from rag_eval_pipeline.metrics.statistics import Summary, counted, proportion, summarise


class AskedQuestion(NamedTuple):
    """A question that was asked.

    Args:
        is_impossible: The benchmark says that it has no answer.
        is_abstention: The system declined; None when its answer could not be had.
    """

    is_impossible: bool
    is_abstention: bool | None


@dataclass(frozen=True, slots=True)
class AbstentionCounts:
    """Answerable or not, answered or declined; failed answers apart, since nobody knows what they would have been."""

    answerable_answered: int = 0
    answerable_abstained: int = 0
    answerable_failed: int = 0
    unanswerable_answered: int = 0
    unanswerable_abstained: int = 0
    unanswerable_failed: int = 0

    @property
    def precision(self) -> Summary:
        """Unanswerable among the declined; no value (`no_abstentions`) when nothing was declined."""
        return proportion(
            self.unanswerable_abstained,
            self.unanswerable_abstained + self.answerable_abstained,
            failed=self.answerable_failed + self.unanswerable_failed,
            skipped=self.answerable_answered + self.unanswerable_answered,
            reason="no_abstentions",
        )

    @property
    def recall(self) -> Summary:
        """Declined among the unanswerable; no value (`no_unanswerable_questions`) when there are none or all failed."""
        return proportion(
            self.unanswerable_abstained,
            self.unanswerable_abstained + self.unanswerable_answered,
            failed=self.unanswerable_failed,
            skipped=self.answerable_answered + self.answerable_abstained + self.answerable_failed,
            reason="all_failed" if self.unanswerable_failed else "no_unanswerable_questions",
        )

    @property
    def f1(self) -> Summary:
        """Harmonic mean of precision and recall; has a value where recall has one.

        0.0 when nothing was declined although some questions were unanswerable.
        """
        recall, right = self.recall, self.unanswerable_abstained
        whole = right + self.answerable_abstained + self.unanswerable_answered
        is_known = recall.value is not None
        return counted(
            2 * right / (right + whole) if is_known else None,
            self.n_known if is_known else 0,
            self.answerable_failed + self.unanswerable_failed,
            0 if is_known else self.n_known,
            interval=_f1_of(wilson_interval(right, whole)) if is_known else None,
            method="wilson",
            reason=recall.reason,
        )

    @property
    def over_refusal_rate(self) -> Summary:
        """Declined among the answerable; no value (`no_answerable_questions`) when there are none or all failed."""
        return proportion(
            self.answerable_abstained,
            self.answerable_abstained + self.answerable_answered,
            failed=self.answerable_failed,
            skipped=self.unanswerable_answered + self.unanswerable_abstained + self.unanswerable_failed,
            reason="all_failed" if self.answerable_failed else "no_answerable_questions",
        )

    @property
    def false_answer_rate(self) -> Summary:
        """Answered among the unanswerable, what recall leaves to 1; no value as there."""
        return proportion(
            self.unanswerable_answered,
            self.unanswerable_abstained + self.unanswerable_answered,
            failed=self.unanswerable_failed,
            skipped=self.answerable_answered + self.answerable_abstained + self.answerable_failed,
            reason="all_failed" if self.unanswerable_failed else "no_unanswerable_questions",
        )

    @property
    def abstention_rate(self) -> Summary:
        """Declined among all; no value when nothing is known."""
        return proportion(
            self.answerable_abstained + self.unanswerable_abstained,
            self.n_known,
            failed=self.answerable_failed + self.unanswerable_failed,
        )

    @property
    def accuracy(self) -> Summary:
        """Answered where there is an answer and declined where there is none, among all; whether rightly is not asked.

        No value when nothing is known.
        """
        return proportion(
            self.answerable_answered + self.unanswerable_abstained,
            self.n_known,
            failed=self.answerable_failed + self.unanswerable_failed,
        )

    @property
    def n_known(self) -> int:
        """Questions of which it is known whether they were answered or declined."""
        return (
            self.answerable_answered
            + self.answerable_abstained
            + self.unanswerable_answered
            + self.unanswerable_abstained
        )


def count_abstentions(questions: Iterable[AskedQuestion]) -> AbstentionCounts:
    """The counts of a run."""
    asked = list(questions)
    return AbstentionCounts(
        answerable_answered=asked.count(AskedQuestion(False, False)),
        answerable_abstained=asked.count(AskedQuestion(False, True)),
        answerable_failed=asked.count(AskedQuestion(False, None)),
        unanswerable_answered=asked.count(AskedQuestion(True, False)),
        unanswerable_abstained=asked.count(AskedQuestion(True, True)),
        unanswerable_failed=asked.count(AskedQuestion(True, None)),
    )


# Rate -> what a question says of it: 1, 0, or nothing. F1 is a growing function of the share named here, see `_f1_of`.
_SAYS: dict[str, Callable[[bool, bool], bool | None]] = {
    "precision": lambda impossible, declined: impossible if declined else None,
    "recall": lambda impossible, declined: declined if impossible else None,
    "f1": lambda impossible, declined: impossible and declined if impossible or declined else None,
    "over_refusal_rate": lambda impossible, declined: None if impossible else declined,
    "false_answer_rate": lambda impossible, declined: not declined if impossible else None,
    "abstention_rate": lambda _, declined: declined,
    "accuracy": lambda impossible, declined: impossible == declined,
}


def abstention_rates(questions: Sequence[AskedQuestion], clusters: Sequence[str] | None = None) -> dict[str, Summary]:
    """Every rate of `AbstentionCounts` by its name, with the interval of questions that share documents.

    Args:
        questions: That were asked.
        clusters: A name a question (its document), where questions share one.

    Raises:
        ValueError: Another number of clusters than questions.
    """
    counts = count_abstentions(questions)
    names = [str(number) for number in range(len(questions))] if clusters is None else clusters
    rates = {}
    for rate, says in _SAYS.items():
        said = [
            (float(value), name)
            for (impossible, declined), name in zip(questions, names, strict=True)
            if declined is not None and (value := says(impossible, declined)) is not None
        ]
        plain: Summary = getattr(counts, rate)
        found = summarise([value for value, _ in said], clusters=[name for _, name in said])
        interval = found.confidence_interval
        if plain.value is None or interval is None:
            rates[rate] = plain
            continue
        interval = _f1_of(interval) if rate == "f1" else interval
        rates[rate] = replace(plain, confidence_interval=interval, method=found.method, n_clusters=found.n_clusters)
    return rates


def _f1_of(share: Interval) -> Interval:
    """The limits of F1 from those of the share of right refusals among the questions that are not rightly answered.

    Source: Lam, Gopal and Qian 2023, Confidence Intervals for the F1 Score, the indirect Wilson method.
    """
    return Interval(2 * share.low / (1 + share.low), 2 * share.high / (1 + share.high))
