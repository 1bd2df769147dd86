"""The four citation formats of the specification, whatever signs a file name holds: what is written is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.formats.citations import (
    CitationSpan,
    find_citations,
    format_citation,
    parse_citations,
    strip_citations,
)
from rag_eval_pipeline.metrics.span_matching import score_spans
from rag_eval_pipeline.metrics.spans import Citation, Span

# Signs that the grammar itself uses, in names as URLs give them.
name = st.text(st.sampled_from('ab:#],[|-1 ü漢."'), min_size=1, max_size=12).map(lambda text: f"{text}.pdf")
span = st.tuples(st.integers(0, 10**6), st.integers(1, 500)).map(lambda pair: (pair[0], sum(pair)))
citation = st.tuples(name, st.integers(1, 9999), st.lists(span, min_size=1, max_size=4))


def read(answer, names):
    return [(c.file_name, c.page_number, c.start_char, c.end_char) for c in parse_citations(answer, names)]


@given(citation)
def test_several_spans_in_one_bracket_are_read_again(drawn):
    file_name, page, spans = drawn

    answer = f"It opened in 1887 {format_citation(file_name, page, spans)}."

    assert read(answer, {file_name}) == [(file_name, page, start, end) for start, end in spans]


# Whatever names and excerpts hold: ends and beginnings of citations, escapes, lines.
HOSTILE = st.text(st.sampled_from('a:1-2,[]|"\\\\n \n]ü'), max_size=16)
hostile_name = st.text(st.sampled_from("a:1-2,[]|#. ü"), min_size=1, max_size=16).map(lambda text: f"{text}.pdf")
FORMS = {
    "standard": st.tuples(hostile_name, st.integers(1, 9999), st.lists(span, min_size=1, max_size=1), st.none()),
    "several spans": st.tuples(hostile_name, st.integers(1, 9999), st.lists(span, min_size=2, max_size=4), st.none()),
    "extended": st.tuples(hostile_name, st.integers(1, 9999), st.lists(span, min_size=1, max_size=3), HOSTILE),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data())
def test_a_citation_is_read_as_it_was_written(form, data):
    file_name, page, spans, excerpt = data.draw(form)
    answer = f"It opened in 1887 {format_citation(file_name, page, spans, excerpt=excerpt)}."

    assert parse_citations(answer, {file_name}) == [
        CitationSpan(file_name=file_name, page_number=page, start_char=start, end_char=end, context_text=excerpt)
        for start, end in spans
    ]
    assert strip_citations(answer, {file_name}) == "It opened in 1887."


plain_name = st.text(st.sampled_from("ab:#,-1 ü漢."), min_size=1, max_size=12).map(lambda text: f"{text}.pdf")


@given(st.lists(st.tuples(plain_name, st.integers(1, 99), st.lists(span, min_size=1, max_size=2), st.none() | HOSTILE), min_size=1, max_size=4))  # fmt: skip
def test_cross_references_of_any_form_are_read_as_they_were_written(drawn):
    answer = " ".join(format_citation(name, page, spans, excerpt=excerpt) for name, page, spans, excerpt in drawn)

    assert parse_citations(answer, {name for name, *_ in drawn}) == [
        CitationSpan(file_name=name, page_number=page, start_char=start, end_char=end, context_text=excerpt)
        for name, page, spans, excerpt in drawn
        for start, end in spans
    ]


PLAIN = st.text(st.sampled_from("ab:#,-1 ü漢."), min_size=1, max_size=12).map(lambda text: f"{text}.pdf")


@given(st.lists(st.tuples(PLAIN, st.integers(1, 99), span), min_size=1, max_size=4))
def test_several_brackets_in_a_row_are_read_again(drawn):
    answer = " ".join(format_citation(file_name, page, [own]) for file_name, page, own in drawn)

    assert read(answer, {file_name for file_name, *_ in drawn}) == [
        (file_name, page, start, end) for file_name, page, (start, end) in drawn
    ]


@given(citation)
def test_an_answer_without_its_citations_is_its_text(drawn):
    file_name, page, spans = drawn

    assert strip_citations(f"Ada Thorne {format_citation(file_name, page, spans)}", {file_name}) == "Ada Thorne"


EXCERPTS = {
    "an excerpt": '[annual.pdf:5:12-34 | excerpt: "Ada Thorne"]',
    "with a bracket": '[annual.pdf:5:12-34 | excerpt: "Ada [sic] Thorne"]',
    "with a citation": '[annual.pdf:5:12-34 | excerpt: "as in [b.pdf:1:2-3] said"]',
    "without spaces": '[annual.pdf:5:12-34|excerpt:"Ada"]',
    "with spans": '[annual.pdf:5:12-34,40-41 | excerpt: "Ada"]',
}


@pytest.mark.parametrize("answer", EXCERPTS.values(), ids=EXCERPTS)
def test_an_excerpt_belongs_to_its_citation(answer):
    (marker,) = find_citations(answer, {"annual.pdf"})

    assert (marker.start, marker.end) == (0, len(answer))
    assert marker.spans[0].file_name == "annual.pdf"


def test_the_specifications_own_answer_scores_as_a_good_match():
    (found,) = parse_citations("The company reported $10M in Q1 revenue. [annual_report.pdf:5:1234-1289]")
    given_citation = Citation(found.file_name, found.page_number, Span(found.start_char, found.end_char))

    (scores,) = score_spans([[Citation("annual_report.pdf", 5, Span(1230, 1290))]], [[given_citation]]).rows()

    # Off by 4 and by 1: within tolerance, 55 of 60 characters.
    assert (scores["good_matches"], scores["perfect_matches"]) == (1, 0)
    assert scores["exact_jaccard"] == 55 / 60
