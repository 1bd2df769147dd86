"""The sentence of a document that is nearest to a gold answer."""

import pytest

from rag_eval_pipeline.audit.nearest_sentences import nearest_sentence
from rag_eval_pipeline.systems.base import PageText

FIRST = "Travel\nTrains\nOn overnight trains staff may book\na single sleeper. The limit for a hotel is 165 euros.\n\nPage 4"
SECOND = "Trips outside Europe are approved by the director. No refund is paid. Up to 4 people share a car."
PAGES = [PageText("travel.pdf", 1, 0, FIRST), PageText("travel.pdf", 2, len(FIRST) + 1, SECOND)]

CASES = {
    "contains it, without the headings above": (
        "What may be booked?", ["a single sleeper"], "On overnight trains staff may book\na single sleeper.",
    ),
    "as printed otherwise": ("What is the limit?", ["165 Euros"], "The limit for a hotel is 165 euros."),
    "second accepted answer": ("Who approves a trip?", ["the board", "the director"], SECOND.partition(" No")[0]),
    "most of its words": (
        "Which trips need approval?", ["The director has to approve trips outside of Europe"], SECOND.partition(" No")[0],
    ),
    "a short one in a sentence like the question": (
        "How many people may share a car?", ["4"], "Up to 4 people share a car.",
    ),
    "a short one elsewhere": ("What is the speed limit of vans?", ["7"], None),
    "no is in any document": ("Is a refund paid?", ["No"], None),
    "one word of several": ("Who pays for visas?", ["the embassy pays outside fees"], None),
    "no words": ("Is a refund paid?", ["..."], None),
}  # fmt: skip


@pytest.mark.parametrize(("question", "answers", "expected"), CASES.values(), ids=CASES)
def test_nearest_sentence(question, answers, expected):
    found = nearest_sentence(PAGES, question, answers)

    assert (found.text if found else None) == expected
    if found:
        text = f"{FIRST}\f{SECOND}"
        assert text[found.start : found.end] == expected
