"""Quoted texts are found at their spans, or else nearest to them; page offsets become document offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.formats.annotation_checks import DocumentText, offset_base, reanchor
from rag_eval_pipeline.formats.ground_truth import AnnotatedCitation, GroundTruth

# Page 1: "lamp at 0, lamp at 11" is 0..21, the break 21, page 2 from 22: "the\nlamp   was lit" is 22..40.
TEXT = "lamp at 0, lamp at 11\fthe\nlamp   was lit"
assert (TEXT.index("\f"), TEXT.rindex("lamp"), len(TEXT)) == (21, 26, 40)


def cite(start, end, text, page=None, file_name="a.pdf"):
    return AnnotatedCitation(file_name=file_name, start_char=start, end_char=end, text=text, page_number=page)


def truth(*citations):
    annotation = {"annotation_id": "1", "query_id": "q", "annotator_id": "ann", "citations": citations}
    return GroundTruth.model_validate({"dataset_id": "d", "version": "1.0.0", "annotations": [annotation]})


ANCHORED = {
    #                                          citation                             base         fit, start, end
    "at its span":                            (cite(11, 15, "lamp"),                "document",  ("exact", 11, 15)),
    "but for white space":                    (cite(22, 40, "the lamp was lit"),    "document",  ("white_space", 22, 40)),
    "a space too many at the edge":           (cite(11, 16, "lamp"),                "document",  ("white_space", 11, 16)),
    "one off":                                (cite(12, 16, "lamp"),                "document",  ("moved", 11, 15)),
    "the nearer of two before":               (cite(4, 8, "lamp"),                  "document",  ("moved", 0, 4)),
    "the nearer of two after":                (cite(9, 13, "lamp"),                 "document",  ("moved", 11, 15)),
    "far beyond the text":                    (cite(900, 904, "lamp"),              "document",  ("moved", 26, 30)),
    "an end beyond the text":                 (cite(26, 99, "lamp   was lit"),      "document",  ("moved", 26, 40)),
    "elsewhere, but for white space":         (cite(0, 14, "lamp was lit"),         "document",  ("moved_white_space", 26, 40)),
    "nowhere":                                (cite(0, 4, "lamps"),                 "document",  ("not_found", None, None)),
    "white space that stands nowhere":        (cite(0, 4, "\t\t"),                  "document",  ("not_found", None, None)),
    "from the start of its page":             (cite(4, 8, "lamp", page=2),          "page",      ("exact", 26, 30)),
    "from the start of the first page":       (cite(11, 15, "lamp", page=1),        "page",      ("exact", 11, 15)),
    "one off on its page":                    (cite(5, 9, "lamp", page=2),          "page",      ("moved", 26, 30)),
    "from a page that is not stated":         (cite(4, 8, "lamp"),                  "page",      ("no_page", None, None)),
    "from a page that is not there":          (cite(4, 8, "lamp", page=3),          "page",      ("no_page", None, None)),
}  # fmt: skip


@pytest.mark.parametrize(("citation", "base", "expected"), ANCHORED.values(), ids=ANCHORED)
def test_anchor(citation, base, expected):
    assert tuple(DocumentText(TEXT).anchor(citation, base)) == expected


def test_reanchoring_mends_spans_and_pages_and_keeps_what_is_lost():
    lost = [cite(0, 4, "gone"), cite(0, 4, "lamp", file_name="b.pdf")]
    before = truth(cite(11, 15, "lamp"), cite(25, 29, "lamp"), *lost)

    result = reanchor(before, {"a.pdf": TEXT})

    after = result.truth.annotations[0].citations
    places = [(c.start_char, c.end_char, c.page_number, c.page_start, c.page_end) for c in after[:2]]
    assert places == [(11, 15, 1, 11, 15), (26, 30, 2, 4, 8)]
    assert list(after[2:]) == lost
    assert result.fits == {"exact": 1, "moved": 1, "not_found": 1, "no_document": 1}
    assert result.lost == ("annotation '1' of 'ann', citations[2]", "annotation '1' of 'ann', citations[3]")


def test_a_text_that_goes_on_overleaf_ends_with_its_page():
    [citation] = reanchor(truth(cite(16, 25, "at 11\fthe")), {"a.pdf": TEXT}).truth.annotations[0].citations

    assert (citation.page_number, citation.page_start, citation.page_end, citation.end_char) == (1, 16, 21, 25)


def test_the_base_is_the_one_in_which_more_texts_are_at_their_spans():
    by_page = [cite(0, 3, "the", page=2), cite(4, 8, "lamp", page=2)]
    by_document = [cite(26, 30, "lamp", page=2)]

    assert offset_base(truth(*by_page, *by_document), {"a.pdf": TEXT}) == "page"
    assert offset_base(truth(by_page[0], *by_document), {"a.pdf": TEXT}) == "document"
    assert offset_base(truth(), {}) == "document"
    mended = reanchor(truth(*by_page), {"a.pdf": TEXT}, base="page")
    assert [c.start_char for c in mended.truth.annotations[0].citations] == [22, 26]
    assert mended.fits == {"exact": 2}


@given(
    text=st.text("ab \n\f", min_size=1, max_size=40),
    start=st.integers(0, 39),
    length=st.integers(1, 10),
    wrong=st.integers(0, 60),
)
def test_a_slice_of_the_text_is_always_found_again(text, start, length, wrong):
    start = min(start, len(text) - 1)
    quoted = text[start : start + length]
    document = DocumentText(text)

    anchored = document.anchor(cite(wrong, wrong + len(quoted), quoted))

    assert anchored.start is not None
    assert "".join(text[anchored.start : anchored.end].split()) == "".join(quoted.split())
    if anchored.fit in ("exact", "moved"):
        assert text[anchored.start : anchored.end] == quoted
