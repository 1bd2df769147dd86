"""Abstention: does the system decline to answer exactly where there is no answer?

The flags of declined answers are counted against `is_impossible`. Declining is the positive class: precision is the
share of refusals that were right, recall the share of unanswerable questions that were refused.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rag_eval_pipeline.metrics.intervals import Interval, Summary, make_summary, proportion, summarise, wilson_interval


class AskedQuestion(NamedTuple):
    """A question that was asked.

    Args:
        is_impossible: The benchmark says that it has no answer.
        is_abstention: The system declined; None if the answer failed.
    """

    is_impossible: bool
    is_abstention: bool | None


@dataclass(frozen=True, slots=True)
class AbstentionCounts:
    """Answerable or not, answered or declined; failed answers are counted apart."""

    answerable_answered: int = 0
    answerable_abstained: int = 0
    answerable_failed: int = 0
    unanswerable_answered: int = 0
    unanswerable_abstained: int = 0
    unanswerable_failed: int = 0

    @property
    def precision(self) -> Summary:
        """Unanswerable among the declined; no value (`no_abstentions`) if nothing was declined."""
        return proportion(
            self.unanswerable_abstained,
            self.unanswerable_abstained + self.answerable_abstained,
            failed=self.answerable_failed + self.unanswerable_failed,
            skipped=self.answerable_answered + self.unanswerable_answered,
            reason="no_abstentions",
        )

    @property
    def recall(self) -> Summary:
        """Declined among the unanswerable; no value (`no_unanswerable_questions`) if there are none or all failed."""
        return self._of_unanswerable(self.unanswerable_abstained)

    @property
    def f1(self) -> Summary:
        """Harmonic mean of precision and recall; has a value if recall has one.

        0.0 if nothing was declined although some questions were unanswerable.
        """
        recall, right = self.recall, self.unanswerable_abstained
        whole = right + self.answerable_abstained + self.unanswerable_answered
        is_known = recall.value is not None
        return make_summary(
            2 * right / (right + whole) if is_known else None,
            self.n_known if is_known else 0,
            self.answerable_failed + self.unanswerable_failed,
            0 if is_known else self.n_known,
            interval=_f1_interval(wilson_interval(right, whole)) if is_known else None,
            method="wilson",
            reason=recall.reason,
        )

    @property
    def over_refusal_rate(self) -> Summary:
        """Declined among the answerable; no value (`no_answerable_questions`) if there are none or all failed."""
        return proportion(
            self.answerable_abstained,
            self.answerable_abstained + self.answerable_answered,
            failed=self.answerable_failed,
            skipped=self.unanswerable_answered + self.unanswerable_abstained + self.unanswerable_failed,
            reason="all_failed" if self.answerable_failed else "no_answerable_questions",
        )

    @property
    def false_answer_rate(self) -> Summary:
        """Answered among the unanswerable: 1 - recall."""
        return self._of_unanswerable(self.unanswerable_answered)

    @property
    def abstention_rate(self) -> Summary:
        """Declined among all; no value if nothing is known."""
        return self._of_known(self.answerable_abstained + self.unanswerable_abstained)

    @property
    def accuracy(self) -> Summary:
        """Answered if there is an answer and declined if there is none, among all; no value if nothing is known.

        Whether the answers are right does not matter here.
        """
        return self._of_known(self.answerable_answered + self.unanswerable_abstained)

    @property
    def n_known(self) -> int:
        """Questions of which it is known whether they were answered or declined."""
        return (
            self.answerable_answered
            + self.answerable_abstained
            + self.unanswerable_answered
            + self.unanswerable_abstained
        )

    def _of_unanswerable(self, n: int) -> Summary:
        return proportion(
            n,
            self.unanswerable_abstained + self.unanswerable_answered,
            failed=self.unanswerable_failed,
            skipped=self.answerable_answered + self.answerable_abstained + self.answerable_failed,
            reason="all_failed" if self.unanswerable_failed else "no_unanswerable_questions",
        )

    def _of_known(self, n: int) -> Summary:
        return proportion(n, self.n_known, failed=self.answerable_failed + self.unanswerable_failed)


def count_abstentions(questions: Iterable[AskedQuestion]) -> AbstentionCounts:
    """Count the questions of a run."""
    asked = list(questions)
    return AbstentionCounts(
        answerable_answered=asked.count(AskedQuestion(False, False)),
        answerable_abstained=asked.count(AskedQuestion(False, True)),
        answerable_failed=asked.count(AskedQuestion(False, None)),
        unanswerable_answered=asked.count(AskedQuestion(True, False)),
        unanswerable_abstained=asked.count(AskedQuestion(True, True)),
        unanswerable_failed=asked.count(AskedQuestion(True, None)),
    )


# Rate -> a question's score: 1, 0, or None if it does not count. F1 grows with the share given here, see
# `_f1_interval`.
_SCORES: dict[str, Callable[[bool, bool], bool | None]] = {
    "precision": lambda impossible, declined: impossible if declined else None,
    "recall": lambda impossible, declined: declined if impossible else None,
    "f1": lambda impossible, declined: impossible and declined if impossible or declined else None,
    "over_refusal_rate": lambda impossible, declined: None if impossible else declined,
    "false_answer_rate": lambda impossible, declined: not declined if impossible else None,
    "abstention_rate": lambda _, declined: declined,
    "accuracy": lambda impossible, declined: impossible == declined,
}


def abstention_rates(questions: Sequence[AskedQuestion], clusters: Sequence[str] | None = None) -> dict[str, Summary]:
    """Return every rate of `AbstentionCounts` by its name, with intervals that count shared documents.

    Args:
        questions: All that were asked.
        clusters: One name (document) for each question.
    """
    counts = count_abstentions(questions)
    names = [str(number) for number in range(len(questions))] if clusters is None else clusters
    rates = {}
    for rate, score in _SCORES.items():
        scored = [
            (float(value), name)
            for (impossible, declined), name in zip(questions, names, strict=True)
            if declined is not None and (value := score(impossible, declined)) is not None
        ]
        plain: Summary = getattr(counts, rate)
        found = summarise([value for value, _ in scored], clusters=[name for _, name in scored])
        interval = found.confidence_interval
        if plain.value is None or interval is None:
            rates[rate] = plain
            continue
        interval = _f1_interval(interval) if rate == "f1" else interval
        rates[rate] = replace(plain, confidence_interval=interval, method=found.method, n_clusters=found.n_clusters)
    return rates


def _f1_interval(share: Interval) -> Interval:
    """Return the limits of F1 from those of the share of right refusals among all that is unanswerable or declined.

    Source: Lam, Gopal and Qian 2023, Confidence Intervals for the F1 Score, the indirect Wilson method.
    """
    return Interval(2 * share.low / (1 + share.low), 2 * share.high / (1 + share.high))
