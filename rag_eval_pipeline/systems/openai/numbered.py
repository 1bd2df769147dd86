"""Citations by the number of a passage: `[2]`, `[1, 3]`."""

import re
from collections.abc import Sequence

from rag_eval_pipeline.systems.answer import Citation, RetrievedPassage

_NUMBERS = re.compile(r"\[\s*(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\s*\]")


def with_numbered(
    text: str, citations: Sequence[Citation], passages: Sequence[RetrievedPassage]
) -> tuple[Citation, ...]:
    """The citations of an answer together with those by number, in the order in which they stand.

    A number without a passage, or of a passage whose place is not known, is no citation; nor is a number within a
    citation of the grammar, as file names may contain `[1]`.

    Args:
        text: The answer.
        citations: Those by the grammar, each with its marker.
        passages: As they were numbered, best first.
    """
    taken = [(citation.marker_start or 0, citation.marker_end or 0) for citation in citations]
    found = list(citations)
    for match in _NUMBERS.finditer(text):
        if any(start <= match.start() < end for start, end in taken):
            continue
        for number in re.findall(r"\d+", match[1]):
            passage = passages[int(number) - 1] if 0 < int(number) <= len(passages) else None
            if passage is not None and passage.start is not None and passage.end is not None:
                found.append(
                    Citation(passage.document, passage.start, passage.end, passage.page, match.start(), match.end())
                )
    return tuple(sorted(found, key=lambda citation: citation.marker_start or 0))
