"""Names, pages and offsets of any system become those of the corpus."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import Citation, Query, Usage
from rag_eval_pipeline.systems.foreign_values import finite_number
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.parsing import ABSTENTION, AnswerReader
from rag_eval_pipeline.systems.passages import parse_passages
from tests.systems.conftest import corpus_in


def reader(folder, **settings):
    return AnswerReader(corpus_in(folder), ReadingSettings(**settings))


NAMES = {
    "basename": ("tollan.pdf", "tollan.pdf"),
    "path": ("/data/in/tollan.pdf", "tollan.pdf"),
    "Windows path": ("C:\\in\\tollan.pdf", "tollan.pdf"),
    "other case": ("Tollan.PDF", "tollan.pdf"),
    "unknown": ("/data/other.pdf", "/data/other.pdf"),
    "empty": ("", ""),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.values(), ids=NAMES)
def test_document_name(name, expected, tmp_path):
    assert reader(tmp_path).document(name) == expected


SOURCES = {
    "without the ending of the source":  ("kb/Notes",       "notes.md.pdf"),
    "with the ending of the corpus":     ("notes.pdf",      "notes.md.pdf"),
    "of two documents":                  ("plan",           "plan"),
    "of a document with the whole name": ("tollan",         "tollan.pdf"),
    "with another ending":               ("notes.txt",      "notes.txt"),
    "a number that is no ending":        ("v1",             "v1"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), SOURCES.values(), ids=SOURCES)
def test_document_name_without_the_ending_of_its_source(name, expected, tmp_path):
    files = ["notes.md.pdf", "plan.md.pdf", "plan.txt.pdf", "tollan.pdf", "tollan.md.pdf", "v1.2.pdf"]
    aliases = {name: file for file in files for name in (file, file.removesuffix(".pdf"))}

    found = AnswerReader(replace(corpus_in(tmp_path), files=files, aliases=aliases))

    assert found.document(name) == expected


FOLDERS = {
    #                                  given                      means
    "a path":                         ("/srv/docs/b/Report.md",   "report.md~1.pdf"),
    "the end of a path":              ("a/report",                "report.md.pdf"),
    "a Windows path":                 ("C:\\docs\\b\\report.md",  "report.md~1.pdf"),
    "a URL":                          ("https://x.example/b/report.md", "report.md~1.pdf"),
    "a file of the corpus":           ("/corpus/report.md.pdf",   "report.md.pdf"),
    "another file of the corpus":     ("/corpus/report.md~1.pdf", "report.md~1.pdf"),
    "a name alone":                   ("report.md",               "report.md.pdf"),
    "a file that is there once":      ("/srv/b/plan.md",          "plan.md.pdf"),
    "another ending":                 ("/srv/docs/b/report.txt",  "report.txt.pdf"),
    "a path of neither":              ("c/other.md",              "c/other.md"),
}  # fmt: skip


def reader_of_namesakes(folder):
    sources = {
        "docs/a/report.md": "report.md.pdf", "docs/b/report.md": "report.md~1.pdf", "docs/a/plan.md": "plan.md.pdf",
        "docs/b/report.txt": "report.txt.pdf",
    }  # fmt: skip
    aliases = {name: file for file in sources.values() for name in (file, file.removesuffix(".pdf"))}
    return AnswerReader(replace(corpus_in(folder), files=list(sources.values()), aliases=aliases, sources=sources))


@pytest.mark.parametrize(("name", "expected"), FOLDERS.values(), ids=FOLDERS)
def test_document_of_several_with_one_name_is_found_by_its_path(name, expected, tmp_path):
    assert reader_of_namesakes(tmp_path).document(name) == expected


@pytest.mark.parametrize(
    ("names", "warns"), [(["report.md", "plan.md"], 1), (["report.md", "b/report.md"], 0), (["plan.md"], 0)]
)
def test_names_that_several_documents_have_are_warned_of(names, warns, tmp_path):
    reader = reader_of_namesakes(tmp_path)
    for passage in parse_passages([{"document": name, "text": "x"} for name in names]):
        reader.passage(passage, 1)

    expected = "1 passage names 'report.md', as several documents of the corpus are called, and were read as 'report.md.pdf'. Return their paths."
    assert reader.warnings() == [expected][:warns]


ORDERS = {
    #                        scores of the passages of 12 answers         warned of
    "rising":               ([[0.1, 0.5, 0.9]] * 12,                      "In 12 of 12 answers"),
    "mostly rising":        ([[0.1, 0.5]] * 10 + [[0.5, 0.1]] * 2,        "In 10 of 12 answers"),
    "falling":              ([[0.9, 0.5, 0.1]] * 12,                      None),
    "equal":                ([[0.5, 0.5]] * 12,                           None),
    "none":                 ([[None, None]] * 12,                         None),
    "too few to tell":      ([[0.1, 0.5]] * 9 + [[0.5]] * 3,              None),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "warned"), ORDERS.values(), ids=ORDERS)
def test_passages_with_rising_scores_are_warned_of(scores, warned, tmp_path):
    of_corpus = reader(tmp_path)
    for number, row in enumerate(scores):
        contexts = of_corpus.passages_at("sources", [{"text": "x", "document": "tollan", "score": one} for one in row])
        of_corpus.record(
            Query(str(number), "?"), "1901", latency_ms=1.0, usage=Usage(), contexts=contexts, cite=of_corpus.citations
        )

    found = [line[: len(warned or "")] for line in of_corpus.warnings()]

    assert found == ([] if warned is None else [warned])


NUMBERS = {
    #                     base  number  page
    "0 in base 1":         (1,   0,      None),
    "first of base 0":     (0,   0,      1),
    "digits":              (1,   "3",    3),
    "integral float":      (1,   3.0,    3),
    "fraction":            (1,   3.5,    None),
}  # fmt: skip


@pytest.mark.parametrize(("base", "number", "page"), NUMBERS.values(), ids=NUMBERS)
def test_page_number(base, number, page, tmp_path):
    assert reader(tmp_path, page_base=base).page(number) == page


# Page 1 of tollan.pdf has 8 characters, page 2 begins at 9 and has 62; each page is followed by one character.
OFFSETS = {
    #                                page_base offset_base  answer                          start, end, page
    "document offsets":             (1, "document", "In 1901 [tollan.pdf:2:9-49].",         (9, 49, 2)),
    "page offsets":                 (1, "page",     "In 1901 [tollan.pdf:2:0-40].",         (9, 49, 2)),
    "page offsets, pages from 0":   (0, "page",     "In 1901 [tollan.pdf:1:0-40].",         (9, 49, 2)),
    "page offsets, unknown page":   (1, "page",     "In 1901 [tollan.pdf:7:0-40].",         (72, 112, 7)),
    "first page, pages from 0":     (0, "document", "In 1901 [tollan.pdf:0:0-8].",          (0, 8, 1)),
    "alias":                        (1, "document", "In 1901 [tollan:2:9-49].",             (9, 49, 2)),
}  # fmt: skip


@pytest.mark.parametrize(("page_base", "offset_base", "answer", "expected"), OFFSETS.values(), ids=OFFSETS)
def test_citation_offsets(page_base, offset_base, answer, expected, tmp_path):
    start, end, page = expected

    found = reader(tmp_path, page_base=page_base, offset_base=offset_base).citations(answer)

    assert found == (Citation("tollan.pdf", start, end, page, 8, len(answer) - 1),)


def test_citation_of_an_unknown_document_keeps_its_offsets(tmp_path):
    found = reader(tmp_path, offset_base="page").citations("[other.pdf:3:5-9]")

    assert [(citation.start_char, citation.end_char) for citation in found] == [(5, 9)]


@given(pages=st.lists(st.sampled_from([0, 8, 9, 10, 98, 99, 999]), min_size=1, max_size=6))
def test_citation_markers_keep_their_place_however_pages_are_counted(pages, tmp_path_factory):
    marks = [f"[tollan.pdf:{page}:9-49]" for page in pages]
    answer = " a ".join(marks)

    found = reader(tmp_path_factory.getbasetemp(), page_base=0).citations(answer)

    assert [answer[c.marker_start : c.marker_end] for c in found] == marks
    assert [c.page_number for c in found] == [page + 1 for page in pages]


ABSTENTIONS = {
    "fixed phrase": ({}, ABSTENTION, True),
    "refusal": ({}, "I could not find an answer.", True),
    "answer with a reservation": ({}, "It was lit in 1887, though I don't know by whom.", False),
    "answer, then a refusal": ({}, "In 1901 [tollan.pdf:2:9-49]. The documents do not mention the month.", False),
    "empty": ({"empty_answer": "abstained"}, " \n", True),
    "pattern": ({"abstention": ["^no luck$"]}, "NO LUCK", True),
    "refusal beside a pattern": ({"abstention": ["^no luck$"]}, "I could not find an answer.", False),
}


@pytest.mark.parametrize(("settings", "text", "expected"), ABSTENTIONS.values(), ids=ABSTENTIONS)
def test_abstention(settings, text, expected, tmp_path):
    assert reader(tmp_path, **settings).abstained(text) is expected


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), "1", True, None, [1]])
def test_number_that_no_finite_float_holds_is_none(value: object) -> None:
    assert finite_number(value) is None
