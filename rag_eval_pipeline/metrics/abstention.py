"""Abstention: does the system decline exactly where there is no answer?

Whether it declined is the system's own flag, decided where its answer is read; here the flags are counted against
`is_impossible`. Declining is the positive class: precision asks how many refusals were right, recall how many
unanswerable questions were refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rag_eval_pipeline.metrics.statistics import Summary, counted, proportion


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
        """Harmonic mean of precision and recall, without interval; has a value where recall has one.

        0.0 when nothing was declined although some questions were unanswerable.
        """
        recall = self.recall
        right = 2 * self.unanswerable_abstained
        whole = right + self.answerable_abstained + self.unanswerable_answered
        return counted(
            None if recall.value is None else right / whole,
            0 if recall.value is None else self.n_known,
            self.answerable_failed + self.unanswerable_failed,
            self.n_known if recall.value is None else 0,
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
