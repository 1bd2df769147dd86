"""An answer cut where its claims and the marks of its citations begin and end."""

from collections.abc import Sequence

from rag_eval_pipeline.judges.judgement import Claim
from rag_eval_pipeline.reporting.site.inert import inert
from rag_eval_pipeline.systems.answer import Citation


def answer_stretches(
    answer: str, claims: Sequence[Claim], citations: Sequence[Citation]
) -> list[tuple[str, int, bool]]:
    """The stretches of an answer in its order; joined, they are the answer.

    Args:
        answer: As given.
        claims: With offsets into it.
        citations: With the offsets of their marks.

    Returns:
        Text, number of the claim it belongs to (the first of several, 0 for none), whether it is a mark.
    """
    marks = [(c.marker_start, c.marker_end) for c in citations if c.marker_start is not None and c.marker_end]
    limits = {0, len(answer)}
    for start, end in [*((claim.start, claim.end) for claim in claims), *marks]:
        limits |= {min(max(0, start), len(answer)), min(max(0, end), len(answer))}
    cuts = sorted(limits)
    return [
        (
            inert(answer[start:end]),
            next((n for n, claim in enumerate(claims, 1) if claim.start <= start and end <= claim.end), 0),
            any(first <= start and end <= last for first, last in marks),
        )
        for start, end in zip(cuts, cuts[1:], strict=False)
    ]
