"""Context precision and recall of one question: were the passages that matter retrieved, and before the others?

The verdicts on the passages may come from a judge, from gold spans, or from gold texts; the formula is RAGAS's.
Source: RAGAS, LLMContextPrecision, NonLLMContextPrecisionWithReference, IDBasedContextPrecision and -Recall.
"""

from collections.abc import Collection, Sequence

from rag_eval_pipeline.metrics.span_columns import Citation, Span
from rag_eval_pipeline.metrics.spans import Overlap, overlap

EPSILON = 1e-10  # RAGAS adds it to the number of useful passages: a perfect ranking scores just below 1
SAME_TEXT = 0.5  # RAGAS's least similarity of a retrieved and a gold text


def context_precision(useful: Sequence[bool]) -> float | None:
    """Mean over the useful passages of the share of useful ones up to their rank, in [0, 1).

    Args:
        useful: A verdict a passage, best rank first.

    Returns:
        0.0 where no passage is useful; None where nothing was retrieved, of which RAGAS says 0.0.
    """
    if not useful:
        return None
    total, seen = 0.0, 0
    for rank, is_useful in enumerate(useful, 1):
        seen += is_useful
        total += seen / rank * is_useful
    return total / (seen + EPSILON)


def id_context_precision(retrieved: Collection[str], gold: Collection[str]) -> float | None:
    """Distinct retrieved ids that are gold / distinct retrieved ids; None where nothing was retrieved."""
    found = set(retrieved)
    return len(found & set(gold)) / len(found) if found else None


def id_context_recall(retrieved: Collection[str], gold: Collection[str]) -> float | None:
    """Distinct gold ids that were retrieved / distinct gold ids; None where there are none."""
    wanted = set(gold)
    return len(wanted & set(retrieved)) / len(wanted) if wanted else None


def useful_by_span(passages: Sequence[Citation], gold: Sequence[Citation]) -> list[bool]:
    """For each passage whether it shares a character with a gold span, in the order given."""
    by_file: dict[str, list[Span]] = {}
    for citation in gold:
        by_file.setdefault(citation.file_name, []).append(citation.span)
    return [
        any(max(span.start, own.start) < min(span.end, own.end) for own in by_file.get(file_name, ()))
        for file_name, _, span in passages
    ]


def useful_by_text(passages: Sequence[str], gold: Sequence[str], *, least: float = SAME_TEXT) -> list[bool]:
    """For each passage whether its text is like a gold one: 1 - edit distance / longer length of at least `least`."""
    from rapidfuzz.distance import Levenshtein

    return [
        any(Levenshtein.normalized_similarity(passage, text, score_cutoff=least) >= least for text in gold)
        for passage in passages
    ]


def context_overlap(passages: Sequence[Citation], gold: Sequence[Citation]) -> Overlap:
    """Characters of the gold spans and of what was retrieved, each once a side: recall, precision and Jaccard follow.

    Recall is what a system had in hand to answer with, precision how much of what it read was needed. Pages do not
    count: offsets are the document's.
    """
    parts = [
        overlap(*([c.span for c in side if c.file_name == name] for side in (gold, passages)))
        for name in sorted({citation.file_name for citation in (*gold, *passages)})
    ]
    return Overlap(
        sum(part.shared for part in parts), sum(part.gold for part in parts), sum(part.predicted for part in parts)
    )
