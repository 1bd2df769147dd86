"""A claim's offsets give its text back, and it has the citations whose marks it contains or precedes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.claim_splitting import split_claims
from rag_eval_pipeline.judges.judgement import CitedText

CASES = {
    "sentences":            ("It opened. It closed!",                      ["It opened.", "It closed!"]),
    "titles":               ("Dr. Ada met Prof. Hale. They left.",         ["Dr. Ada met Prof. Hale.", "They left."]),
    "decimals and names":   ("It is 31.5 m, see a.pdf v1.2. Yes it is.",   ["It is 31.5 m, see a.pdf v1.2.", "Yes it is."]),
    "a quotation":          ('He said "Go. Now." Then he left.',           ['He said "Go. Now."', "Then he left."]),
    "German day":           ("Am 3. Oktober war es z. B. kalt. Gut so.",   ["Am 3. Oktober war es z. B. kalt.", "Gut so."]),
    "Chinese":              ("灯塔开了。它关了！",                            ["灯塔开了。", "它关了！"]),
    "list items":           ("- one lamp\n* two\n1. three\n(b) four",      ["one lamp", "two", "three", "four"]),
    "headings":             ("# Lamps\n**The tower**\nIt is lit.",         ["It is lit."]),
    "a lead-in":            ("The steps are:\nGo there.",                  ["Go there."]),
    "questions":            ("Is it lit? It is.",                          ["It is."]),
    "a bare yes":           ("Yes. It is lit.",                            ["It is lit."]),
    "refusing sentences":   ("It is lit. The year is not mentioned in the text.", ["It is lit."]),
    "table rows":           ("| a | b |\n|---|---|\n| lit. In | 1887 |",   ["| lit. In | 1887 |"]),
    "fences":               ("```python\nlit = 1\n```",                    ["lit = 1"]),
    "nothing said":         ("... !!\n---\n***",                           []),
    "cited after":          ("It is lit. [1] It shone [2].",               ["It is lit. [1]", "It shone [2]."]),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), CASES.values(), ids=CASES)
def test_claims_of_an_answer(answer, expected):
    assert [answer[claim.start : claim.end] for claim in split_claims(answer)] == expected


MARKS = {
    "inside":                       ("The lamp [1] was lit.",                  [(0,)]),
    "before the full stop":         ("The lamp was lit [1].",                  [(0,)]),
    "after the full stop":          ("The lamp was lit. [1] It shone.",        [(0,), ()]),
    "at the start of a line":       ("- [1] The lamp was lit.",                [(0,)]),
    "behind a heading":             ("The lamp was lit.\n# Sources\n[1]",      [()]),
    "after a refusing sentence":    ("It is lit. The year is not mentioned in the text. [1]", [()]),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), MARKS.values(), ids=MARKS)
def test_citation_belongs_to_the_claim_that_it_is_in_or_follows(answer, expected):
    cited = [
        CitedText("a.pdf", "text", answer.index(f"[{n}]"), answer.index(f"[{n}]") + 3)
        for n in (1, 2, 3)
        if f"[{n}]" in answer
    ]

    assert [claim.citations for claim in split_claims(answer, cited)] == expected


def test_citation_without_a_mark_belongs_to_every_claim_without_one():
    answer = "The lamp was lit. It stood here [1]. It was sold."
    cited = [CitedText("a.pdf", "text", len(answer), len(answer)), CitedText("b.pdf", "text", 32, 35)]

    assert [claim.citations for claim in split_claims(answer, cited)] == [(0,), (1,), (0,)]
    outside = [CitedText("a.pdf", "text", start, end) for start, end in ((-3, 2), (5, 99), (9, 3))]
    assert [claim.citations for claim in split_claims("The lamp was lit.", outside)] == [()]


@given(
    answer=st.text(st.sampled_from('ab A. !?\n[1]【】|#*"“”。\x1a-:5é')) | st.text(),
    marks=st.lists(st.tuples(st.integers(-1, 30), st.integers(-1, 30)), max_size=4),
)
@example(answer="1\n1", marks=[(0, 0)])
@example(answer="The lamp was lit [1].\nIt was high.", marks=[(17, 20), (0, 0)])
def test_claims_are_in_order_and_have_each_mark_once(answer, marks):
    claims = split_claims(answer, [CitedText("a.pdf", "text", start, end) for start, end in marks])

    ends = [0, *(claim.end for claim in claims)]
    assert all(ends[n] <= claim.start < claim.end <= len(answer) for n, claim in enumerate(claims))
    assert all(claim.text and claim.text == " ".join(claim.text.split()) for claim in claims)
    beside = {number for number, (start, end) in enumerate(marks) if start == end}
    marked = [number for claim in claims for number in claim.citations if number not in beside]
    assert len(marked) == len(set(marked))
    assert all(set(claim.citations) == (set(claim.citations) - beside or beside) for claim in claims)
