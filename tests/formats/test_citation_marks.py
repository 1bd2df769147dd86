"""Citations are read from answers as the grammar has them, whatever the file is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.formats.citation_marks import (
    CitationSpan,
    find_citations,
    format_citation,
    parse_citations,
    strip_citations,
)

CASES = {
    #                                       answer                                          expected
    "standard":                   ("1887 [a.pdf:5:12-34]",                          [("a.pdf", 5, 12, 34)]),
    "several spans":              ("x [a.pdf:2:1-4,8-9]",                           [("a.pdf", 2, 1, 4), ("a.pdf", 2, 8, 9)]),
    "with an excerpt":            ('x [a.pdf:2:1-4 | excerpt: "he said \\"no\\""]', [("a.pdf", 2, 1, 4)]),
    "a page of 5,000 digits":     (f"x [a.pdf:{'9' * 5000}:1-4]",                 []),
    "a fragment and a colon":     ("x [Art:1#Sec.pdf:3:5-9]",                       [("Art:1#Sec.pdf", 3, 5, 9)]),
    "a comma and a bracket":      ("x [Foo, (b[1]).pdf:3:5-9]",                     [("Foo, (b[1]).pdf", 3, 5, 9)]),
    "text in brackets before":    ("see [1] and [a.pdf:1:0-4]",                     [("a.pdf", 1, 0, 4)]),
    "an empty span cites nothing": ("x [a.pdf:1:4-4]",                              []),
    "no page zero":               ("x [a.pdf:0:1-4]",                               []),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), CASES.values(), ids=CASES)
def test_parse(answer, expected):
    known = {"a.pdf", "b.pdf", "Art:1#Sec.pdf", "Foo, (b[1]).pdf"}

    found = [(c.file_name, c.page_number, c.start_char, c.end_char) for c in parse_citations(answer, known)]

    assert found == expected


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


STRIPPED = {
    "gaps are closed":                 ("Ada Thorne [a.pdf:1:0-4], in 1887 [b.pdf:2:5-6].", "Ada Thorne, in 1887."),
    "of two in a row":                 ("Ada [a.pdf:1:0-4] [b.pdf:2:5-6] Thorne",          "Ada Thorne"),
    "no blank comes between letters":  ("1887[a.pdf:1:0-4]年",                              "1887年"),
    "other blanks stay":               ("a  | b ;\n  x = 1  # [a.pdf:1:0-4]",               "a  | b ;\n  x = 1  #"),
    "without citations nothing moves": ("  a  | b ;\n",                                    "  a  | b ;\n"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "bare"), STRIPPED.values(), ids=STRIPPED)
def test_answer_without_its_citations(answer, bare):
    assert strip_citations(answer) == bare


def test_marker_is_where_its_bracket_is():
    answer = "In 1887[3] by Ada [a.pdf:1:0-5] and [b.pdf:2:1-3,7-9]."

    first, second = find_citations(answer)

    assert [answer[m.start : m.end] for m in (first, second)] == ["[a.pdf:1:0-5]", "[b.pdf:2:1-3,7-9]"]
    assert [(span.start_char, span.end_char) for span in second.spans] == [(1, 3), (7, 9)]


EXCERPTS = {
    #                       as it is                   as it is written
    "a backslash":        ("C:\\data",                 "C:\\\\data"),
    "two lines":          ("Ada\nThorne",             "Ada\\nThorne"),
    "a bracket":          ("Ada [sic] Thorne",        "Ada [sic] Thorne"),
    "an end of its own":  ('x"] [b.pdf:1:0-3]',       'x\\"] [b.pdf:1:0-3]'),
}  # fmt: skip


@pytest.mark.parametrize(("excerpt", "written"), EXCERPTS.values(), ids=EXCERPTS)
def test_excerpt_is_written_on_one_line_and_read_as_it_was(excerpt, written):
    citation = format_citation("a.pdf", 2, [(1, 4)], excerpt=excerpt)

    assert citation == f'[a.pdf:2:1-4 | excerpt: "{written}"]'
    (span,) = parse_citations(citation)
    assert span.context_text == excerpt


BACKSLASHES = {
    "escapes nothing": (r'[a.pdf:2:1-4 | excerpt: "C:\data"]', [r"C:\data"]),
    "is the last":     (r'[a.pdf:2:1-4 | excerpt: "C:\"] and [a.pdf:2:1-4 | excerpt: "x\"y"]', ["C:\\", 'x"y']),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "excerpts"), BACKSLASHES.values(), ids=BACKSLASHES)
def test_backslash_in_an_excerpt(answer, excerpts):
    assert [span.context_text for span in parse_citations(answer)] == excerpts


def test_unknown_file_is_not_taken_for_the_beginning_of_a_known_one_s_citation():
    answer = "[gone.pdf:1:2-3] and [a.pdf:1:0-4]"

    assert [c.file_name for c in parse_citations(answer, {"a.pdf"})] == ["gone.pdf", "a.pdf"]


HOSTILE = [
    "[" * 20_000,
    '[a:1:2-3 | excerpt: "' * 2_000,
    "[a:1:2-3] " + "[b" * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=["brackets", "excerpts", "a citation first"])
def test_citations_are_found_in_linear_time(text):
    assert {c.file_name for c in parse_citations(text)} <= {"a"}
    assert {c.file_name for c in parse_citations(text, {"c.pdf"})} <= {"a"}
