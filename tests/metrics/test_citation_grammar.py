"""A citation of any form is read as it was written, whatever signs a file name or an excerpt holds."""

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

span = st.tuples(st.integers(0, 10**6), st.integers(1, 500)).map(lambda pair: (pair[0], sum(pair)))
# Ends and beginnings of citations, escapes, lines.
excerpt = st.none() | st.text(st.sampled_from('a:1-2,[]|"\\\\n \n]ü'), max_size=16)
NAMES = {"one citation, hostile name": ("a:1-2,[]|#. ü", 1), "several in a row": ("ab:#,-1 ü漢.", 4)}


@pytest.mark.parametrize(("signs", "most"), NAMES.values(), ids=NAMES)
@given(data=st.data())
def test_citations_are_read_as_they_were_written(signs, most, data):
    name = st.text(st.sampled_from(signs), min_size=1, max_size=16).map(lambda text: f"{text}.pdf")
    citation = st.tuples(name, st.integers(1, 9999), st.lists(span, min_size=1, max_size=4), excerpt)
    drawn = data.draw(st.lists(citation, min_size=1, max_size=most))
    written = [format_citation(name, page, spans, excerpt=text) for name, page, spans, text in drawn]
    answer, known = f"It opened in 1887 {' '.join(written)}.", {name for name, *_ in drawn}

    assert parse_citations(answer, known) == [
        CitationSpan(file_name=name, page_number=page, start_char=start, end_char=end, context_text=text)
        for name, page, spans, text in drawn
        for start, end in spans
    ]
    assert strip_citations(answer, known) == "It opened in 1887."


EXCERPTS = {
    "with a bracket": '[annual.pdf:5:12-34 | excerpt: "Ada [sic] Thorne"]',
    "with a citation": '[annual.pdf:5:12-34 | excerpt: "as in [b.pdf:1:2-3]"]',
    "without spaces": '[annual.pdf:5:12-34|excerpt:"Ada"]',
    "with spans": '[annual.pdf:5:12-34,40-41 | excerpt: "Ada"]',
}


@pytest.mark.parametrize("answer", EXCERPTS.values(), ids=EXCERPTS)
def test_an_excerpt_belongs_to_its_citation(answer):
    (marker,) = find_citations(answer, {"annual.pdf"})

    assert (marker.start, marker.end, marker.spans[0].file_name) == (0, len(answer), "annual.pdf")
