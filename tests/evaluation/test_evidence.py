"""What a citation points at is read with its whole sentences."""

import pytest

from rag_eval_pipeline.evaluation.evidence import CorpusTexts
from rag_eval_pipeline.systems.corpus import PageText

#        0         1         2         3
#        0123456789012345678901234567890123456789
FIRST = "The tower is old. It was built in 1889."
SECOND = "Nobody lives there. Birds do."
TEXTS = CorpusTexts([PageText("b.pdf", 2, 40, SECOND), PageText("b.pdf", 1, 0, FIRST), PageText("c.pdf", 1, 0, " ")])

CASES = {
    "a whole sentence": ("b.pdf", 0, 17, "The tower is old."),
    "a part is widened": ("b.pdf", 22, 30, "It was built in 1889."),
    "one letter of each": ("b.pdf", 16, 19, "The tower is old. It was built in 1889."),
    "the space between touches neither": ("b.pdf", 17, 18, None),
    "over a page break": ("b.pdf", 30, 45, "It was built in 1889. Nobody lives there."),
    "behind the end": ("b.pdf", 69, 90, None),
    "a page without words": ("c.pdf", 0, 5, None),
    "a document that is not there": ("d.pdf", 0, 5, None),
}


@pytest.mark.parametrize(("document", "start", "end", "expected"), CASES.values(), ids=CASES)
def test_cited_text(document, start, end, expected):
    assert TEXTS.cited(document, start, end) == expected
