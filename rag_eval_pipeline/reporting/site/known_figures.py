"""The report's own words for figures: names of the rooms, and of measures that are no row of the registry.

Some rows of the registry continue another row's sentence; they stand here with a sentence of their own.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from rag_eval_pipeline.metrics.registry import Direction

Unit = Literal["share", "ms", "number"]

# Heading of each room, in the order in which pages show them.
HEADINGS = {
    "retrieval": "Retrieval",
    "contexts": "Retrieved texts",
    "answers": "Answers",
    "abstention": "Abstaining",
    "citations": "Citations",
    "claims": "The judge",
    "performance": "Time",
    "other": "Further measures",
}


class Figure(NamedTuple):
    """A measure with its name for people.

    Args:
        name: As on the leaderboard and in results.
        label: For a heading.
        meaning: One line; empty where nothing is known.
        unit: A share lies in [0, 1]; a number anywhere.
        better: Which end is good; None where that is not known.
        room: A key of `HEADINGS`.
        source: What defines it.
    """

    name: str
    label: str
    meaning: str
    unit: Unit = "share"
    better: Direction | None = "higher"
    room: str = "other"
    source: str = ""

    @property
    def is_share(self) -> bool:
        """Whether its axis goes from 0 to 1."""
        return self.unit == "share"

    @property
    def way(self) -> str:
        """Which way is better, in words; empty where neither is, or nobody knows."""
        return f"{self.better} is better" if self.better in ("higher", "lower") else ""


def known_figures() -> Iterator[Figure]:
    """Means that are no registry's row, and lines that say more than a row that continues another's."""
    answers, judge = "answers", "claims"
    yield Figure(
        "abstention_f1",
        "Abstention F1",
        "Whether the system abstains on unanswerable questions, and only there.",
        room="abstention",
    )
    for name, meaning in (
        ("precision", "Abstentions that were right: the question has no answer in the documents."),
        ("recall", "Unanswerable questions on which the system abstains."),
        ("accuracy", "Questions on which abstaining or answering was right."),
    ):
        yield Figure(f"abstention_{name}", f"Abstention {name}", meaning, room="abstention")
    yield Figure(
        "abstention_over_refusal_rate",
        "Over-refusal rate",
        "Answerable questions on which the system abstains.",
        better="lower",
        room="abstention",
    )
    yield Figure(
        "abstention_false_answer_rate",
        "False answer rate",
        "Unanswerable questions that the system answers all the same.",
        better="lower",
        room="abstention",
    )
    yield Figure(
        "abstention_abstention_rate",
        "Abstention rate",
        "Questions on which the system abstains.",
        better="neither",
        room="abstention",
    )
    yield Figure(
        "answerable_exact_match",
        "Exact match, answerable",
        "Exact match of the questions with an answer.",
        room=answers,
    )
    yield Figure("answerable_f1", "F1, answerable", "F1 of the questions with an answer.", room=answers)
    yield Figure(
        "unanswerable_exact_match",
        "Exact match, unanswerable",
        "Unanswerable questions on which the system abstains.",
        room=answers,
    )
    yield Figure("exact_match", "Exact match", "Answers equal to a gold answer, as SQuAD compares them.", room=answers)
    yield Figure("f1", "F1", "Words that answer and gold answer share, as SQuAD counts them.", room=answers)
    overlap = "Overlap of cited and gold spans, ends that differ by a few characters counted as equal"
    yield Figure("citation_jaccard", "Citation Jaccard", f"{overlap}: the mean over all gold spans.", room="citations")
    yield Figure(
        "tolerance_jaccard", "Citation overlap", f"{overlap}: each question's, and their mean.", room="citations"
    )
    named = "Citation overlap, under the name that the specification gives it."
    yield Figure("citation_span_accuracy", "Span accuracy", named, room="citations")
    yield Figure("rouge_l", "ROUGE-L", "F1 of the longest common subsequence of words.", room=answers)
    yield Figure(
        "best_tolerance_jaccard",
        "Best tolerance Jaccard",
        "Overlap of each gold span with its best citation, with tolerance at the ends.",
        room="citations",
    )
    yield Figure(
        "judged_correct",
        "Judged correct",
        "Answers that the judge finds right; unsure ones count as wrong.",
        room=judge,
    )
    yield Figure(
        "judged_correct_upper", "Judged correct, at most", "The same with unsure ones counted as right.", room=judge
    )
    yield Figure(
        "judged_refused", "Judged refusal", "Answers that the judge takes for a refusal.", better="neither", room=judge
    )
    yield Figure(
        "judged_unsure", "Judge unsure", "Answers about which the judge cannot decide.", better="neither", room=judge
    )
    yield Figure(
        "overall_citation_accuracy",
        "Overall citation accuracy",
        "Weighted mean of span accuracy, citation correctness, consistency and absence of hallucination.",
        room=judge,
    )
    for name in ("hallucination_rate", "hallucination_rate_retrieved"):
        texts = "retrieved" if name.endswith("retrieved") else "cited"
        yield Figure(
            name,
            f"Hallucination rate, {texts}",
            f"Claims that no {texts} text supports, by the judge.",
            better="lower",
            room=judge,
        )
    yield Figure("faithfulness", "Faithfulness", "Claims that the retrieved texts support, by the judge.", room=judge)
    yield Figure(
        "Failure rate",
        "Failure rate",
        "Questions without an answer: errors and timeouts.",
        better="lower",
        room="performance",
    )
    yield Figure("latency_p50_ms", "Latency p50", "Milliseconds to an answer, the median.", "ms", "lower",
                 "performance")  # fmt: skip
