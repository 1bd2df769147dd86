"""An answer's stretches: claims and marks of citations where they stand, and nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judgement import Claim
from rag_eval_pipeline.report.question import annotate_answer
from rag_eval_pipeline.systems.base import Citation

PLACES = st.tuples(st.integers(-2, 30), st.integers(-2, 30))


def test_claims_and_marks_are_cut_out_of_the_answer():
    #         0         1         2
    #         0123456789012345678901234
    answer = "It rose. [a.pdf:1:0-9] It fell."
    claims = [Claim(0, 22, (0,), None, None), Claim(23, 31, (), None, None)]
    citation = Citation("a.pdf", 0, 9, 1, 9, 22)

    assert annotate_answer(answer, claims, [citation]) == [
        ("It rose. ", 1, False),
        ("[a.pdf:1:0-9]", 1, True),
        (" ", 0, False),
        ("It fell.", 2, False),
    ]


@given(st.text(max_size=25), st.lists(PLACES, max_size=4), st.lists(PLACES, max_size=4))
def test_whatever_the_offsets_the_answer_is_whole(answer, claims, marks):
    segments = annotate_answer(
        answer,
        [Claim(start, end, (), None, None) for start, end in claims],
        [Citation("a", 0, 1, 1, start, end) for start, end in marks],
    )

    assert sum(len(text) for text, _, _ in segments) == len(answer)
