"""How well citations hold what they are cited for: validity with reasons, relevance, and consistency of an answer.

A citation whose document is missing or whose place lies behind its end is invalid with a score of 0 and a reason; one
that a judge could not decide has no score, is counted apart, and is in no mean.
Source: Citation Accuracy Evaluation 3.2, 4.2 (validate_citation_support) and 5.1 (answer consistency).
"""

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rag_eval_pipeline.metrics.span_columns import Span

PlaceFault = Literal["document_not_found", "span_out_of_bounds"]

VALID = 0.7  # Citation Accuracy Evaluation 4.2: support_score >= 0.7
CONSISTENT = 0.8  # 5.1: consistent_citations


class CheckedCitation(NamedTuple):
    """A citation of an answer, looked up and judged.

    Args:
        support: The judge's score in [0, 1]; None when the judge could not say, or the place does not exist.
        fault: Why its place does not exist; None when it does.
        cited_length: Code points of the cited text.
        claim_length: Code points of the claim that it stands with; 0 without one.
    """

    support: float | None
    fault: PlaceFault | None = None
    cited_length: int = 0
    claim_length: int = 0

    @property
    def score(self) -> float | None:
        """The support; 0.0 for a place that does not exist."""
        return 0.0 if self.fault is not None else self.support


class CitationQuality(NamedTuple):
    """The specification's figures of one answer.

    Args:
        citation_validity_rate: Citations with a support of at least 0.7 among those with a score; None without any.
        mean_support_score: Over the same; None without any.
        mean_support_resolvable: Over those whose place exists; None without any.
        invalid_citations: Those with a score that are not valid.
        unjudged_citations: Those that the judge could not decide.
    """

    citation_validity_rate: float | None
    mean_support_score: float | None
    mean_support_resolvable: float | None
    invalid_citations: int
    unjudged_citations: int


class AnswerConsistency(NamedTuple):
    """How well an answer's claims agree with what it cites.

    Args:
        mean_consistency: Mean score; None without scores.
        consistency_variance: Sample variance; None for fewer than two scores, of which it would say nothing.
        consistent_citations: Scores of at least 0.8.
    """

    mean_consistency: float | None
    consistency_variance: float | None
    consistent_citations: int


def place_fault(span: Span, text: str | None) -> PlaceFault | None:
    """Why nothing can be read at a cited place; None when it can.

    Args:
        span: The place.
        text: The document's text; None when there is no such document.
    """
    if text is None:
        return "document_not_found"
    return "span_out_of_bounds" if span.end > len(text) else None


def citation_quality(citations: Sequence[CheckedCitation], *, valid: float = VALID) -> CitationQuality:
    """The figures of one answer's citations; `valid` is the least support of a valid one."""
    scores = [citation.score for citation in citations]
    known = [score for score in scores if score is not None]
    resolvable = [citation.support for citation in citations if citation.fault is None]
    n_valid = sum(
        citation.fault is None and citation.support is not None and citation.support >= valid for citation in citations
    )
    return CitationQuality(
        citation_validity_rate=n_valid / len(known) if known else None,
        mean_support_score=_mean(known),
        mean_support_resolvable=_mean([support for support in resolvable if support is not None]),
        invalid_citations=len(known) - n_valid,
        unjudged_citations=len(scores) - len(known),
    )


def answer_consistency(scores: Sequence[float], *, consistent: float = CONSISTENT) -> AnswerConsistency:
    """The figures of an answer's consistency scores; `consistent` is the least of a consistent one."""
    return AnswerConsistency(
        mean_consistency=_mean(scores),
        consistency_variance=statistics.variance(scores) if len(scores) > 1 else None,
        consistent_citations=sum(score >= consistent for score in scores),
    )


def citation_relevance(on_topic: Sequence[bool], touches_gold: Sequence[bool] | None = None) -> float | None:
    """Relevant citations / citations, in [0, 1]; None for an answer without citations.

    Args:
        on_topic: For each citation whether its text speaks of its claim, be it for or against: a wrong figure beside
            the right passage is a relevant citation, though no correct one.
        touches_gold: For each whether it shares a character with a gold span; None where no gold spans are known.

    Raises:
        ValueError: Not one flag a citation.
    """
    flags = touches_gold if touches_gold is not None else [False] * len(on_topic)
    relevant = [topic or gold for topic, gold in zip(on_topic, flags, strict=True)]
    return sum(relevant) / len(relevant) if relevant else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
