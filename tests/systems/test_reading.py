"""Names, pages and offsets of any server come out as the corpus has them; only refusals count as abstentions."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import Citation
from rag_eval_pipeline.systems.parsing import ABSTENTION, AnswerReader, ReadingSettings
from tests.systems.corpus_of_three import HARBOUR, corpus_in


def reader(tmp_path, **settings):
    return AnswerReader(corpus_in(tmp_path), ReadingSettings(**settings))


NAMES = {
    "its own": ("tollan.pdf", "tollan.pdf"),
    "without the suffix": ("tollan", "tollan.pdf"),
    "a path": ("/data/in/tollan.pdf", "tollan.pdf"),
    "a Windows path": ("C:\\in\\tollan.pdf", "tollan.pdf"),
    "an address": ("https://files.example.com/x/tollan.pdf", "tollan.pdf"),
    "in other letters": ("Tollan.PDF", "tollan.pdf"),
    "of no document": ("/data/other.pdf", "/data/other.pdf"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.values(), ids=NAMES)
def test_names(name, expected, tmp_path):
    assert reader(tmp_path).document(name) == expected


NUMBERS = {
    #                      base  number  page
    "the first of one":    (1,   1,      1),
    "nothing of one":      (1,   0,      None),
    "the first of zero":   (0,   0,      1),
    "unknown":             (0,   -1,     None),
    "a text":              (1,   "3",    3),
    "a round number":      (1,   3.0,    3),
    "a broken one":        (1,   3.5,    None),
    "none":                (1,   None,   None),
    "a truth":             (1,   True,   None),
    "words":               (1,   "iii",  None),
    "infinite":            (1,   float("inf"), None),
}  # fmt: skip


@pytest.mark.parametrize(("base", "number", "page"), NUMBERS.values(), ids=NUMBERS)
def test_pages(base, number, page, tmp_path):
    assert reader(tmp_path, page_base=base).page(number) == page


OFFSETS = {
    #                                page_base offset_base  answer                          start, end, page
    "of the document":              (1, "document", "In 1901 [tollan.pdf:2:9-49].",         (9, 49, 2)),
    "of the page":                  (1, "page",     "In 1901 [tollan.pdf:2:0-40].",         (9, 49, 2)),
    "of a page counted from zero":  (0, "page",     "In 1901 [tollan.pdf:1:0-40].",         (9, 49, 2)),
    "of a page that is not there":  (1, "page",     "In 1901 [tollan.pdf:7:0-40].",         (9 + 62 + 1, 9 + 62 + 1 + 40, 7)),
    "of the first page, from zero": (0, "document", "In 1901 [tollan.pdf:0:0-8].",          (0, 8, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("page_base", "offset_base", "answer", "expected"), OFFSETS.values(), ids=OFFSETS)
def test_offsets(page_base, offset_base, answer, expected, tmp_path):
    assert len(HARBOUR) == 62
    start, end, page = expected

    found = reader(tmp_path, page_base=page_base, offset_base=offset_base).citations(answer)

    assert found == (Citation("tollan.pdf", start, end, page, 8, len(answer) - 1),)


def test_a_citation_of_another_document_keeps_its_offsets(tmp_path):
    found = reader(tmp_path, offset_base="page").citations("[other.pdf:3:5-9]")

    assert [(citation.start_char, citation.end_char) for citation in found] == [(5, 9)]


def test_a_document_is_cited_by_any_of_its_names(tmp_path):
    assert [c.file_name for c in reader(tmp_path).citations("[tollan:2:9-49] [a[1]:1:0-4]")] == [
        "tollan.pdf",
        "a[1].pdf",
    ]


@given(pages=st.lists(st.sampled_from([0, 8, 9, 10, 98, 99, 999]), min_size=1, max_size=6))
def test_marks_stand_where_the_answer_has_them_however_pages_are_counted(pages, tmp_path_factory):
    marks = [f"[tollan.pdf:{page}:9-49]" for page in pages]
    answer = " a ".join(marks)

    found = reader(tmp_path_factory.getbasetemp(), page_base=0).citations(answer)

    assert [answer[c.marker_start : c.marker_end] for c in found] == marks
    assert [c.page_number for c in found] == [page + 1 for page in pages]


@given(text=st.text(alphabet="[]:-,0123456789ab. |"), base=st.sampled_from([0, 1]))
def test_any_text_has_ordered_places_or_none(text, base, tmp_path_factory):
    for citation in reader(tmp_path_factory.getbasetemp(), page_base=base, offset_base="page").citations(text):
        assert 0 <= citation.start_char < citation.end_char


DECLINED = [
    ABSTENTION,
    "I'm sorry, but the provided documents do not contain this information.",
    "The context doesn't mention a bishop.",
    "I don't know.",
    "I could not find an answer.",
    "Unanswerable",
    "There is no information about that.",
    "**The documents do not answer this question.**",
]
GIVEN = [
    "In 1901 [tollan.pdf:2:9-49]. The documents do not mention the month.",
    "It was lit in 1887, though I don't know by whom.",
    "The document states that it was built in 1901.",
    "No.",
    "Information theory.",
]


@pytest.mark.parametrize(
    ("text", "expected"), [(t, True) for t in ["", " \n", *DECLINED]] + [(t, False) for t in GIVEN]
)
def test_abstention(text, expected, tmp_path):
    assert reader(tmp_path, empty_answer="abstained").abstained(text) is expected


def test_pages_are_read_only_where_offsets_need_them(tmp_path):
    def unwanted():
        raise AssertionError("read")

    corpus = corpus_in(tmp_path)

    found = AnswerReader(dataclasses.replace(corpus, pages=unwanted)).citations("[tollan.pdf:2:9-49]")

    assert len(found) == 1
