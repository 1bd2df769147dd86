"""What is compared has one spelling; what is reported keeps the answer's own offsets."""

import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.text.folding import FILLER, fold, mask_citations, plain, scalar_text, unify

MARKS = {
    "standard":                 "[a.pdf:5:12-30]",
    "several spans":            "[a.pdf:5:12-30,40-50]",
    "with an excerpt":          '[a.pdf:5:12-30 | excerpt: "he said \\"no\\""]',
    "a bracket in the name":    "[Foo (b[1]).pdf:3:5-9]",
    "a page":                   "[file.pdf#page=4]",
    "a file":                   "[Northwind_Details-3.pdf]",
    "a number":                 "[1]",
    "numbers":                  "[1, 2]",
    "a range":                  "[1–3]",
    "a footnote":               "[^1]",
    "lenticular brackets":      "【4†source】",
    "full-width brackets":      "［1］",
    "a word and a number":      "[doc1]",
    "a word and numbers":       "[Source 1, Source 3]",
    "a word and a colon":       "[citation: 2]",
    "an id":                    "[ID:0]",
}  # fmt: skip


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_mark_becomes_as_many_fillers(mark):
    masked = mask_citations(f"It opened in 1887 {mark}. Then it closed.")

    assert masked == f"It opened in 1887 {FILLER * len(mark)}. Then it closed."


def test_other_brackets_are_text():
    text = "It opened [sic] in array[x] [a link]( see [the annex] (1) {1}."

    assert mask_citations(text) == text


def test_text_in_brackets_before_a_citation_stays():
    assert plain("It [sic] opened in 1887[3] under Ada [P.pdf:1:0-5].") == "It [sic] opened in 1887 under Ada."


def test_known_marks_are_masked_whatever_they_look_like():
    assert mask_citations("Lit <c1>.", [(4, 8), (90, 95), (8, 4)]) == f"Lit {FILLER * 4}."


def test_markdown_is_no_text():
    answer = "# Lamp\n**It** was `lit` in __1887__; see [the log](http://x.example/a)."

    assert plain(answer) == " Lamp\nIt was lit in 1887; see the log."


HTML = {
    #                     answer                                        without tags
    "a paragraph":       ("<p>It was <b>lit</b> in 1887.</p>",          "It was lit in 1887."),
    "lines":             ("1887<br>1901",                               "1887 1901"),
    "a list":            ("<ul><li>Ada</li><li class='x'>Bo</li></ul>", "Ada Bo"),
    "a link":            ('See <a href="http://x.example/?a=1">it</a>.', "See it."),
    "the mark of a note": ("Ada Lund<sup>1</sup>, and Bo<sup>2</sup>",  "Ada Lund, and Bo2"),
    "a power":           ("10<sup>6</sup> m",                           "106 m"),
    "entities":          ("AT&amp;T doesn&#39;t",                       "AT&T doesn't"),
    "no entities":       ("a?x=1&copy=2 & b;",                          "a?x=1&copy=2 & b;"),
    "a tag that is meant": ("Use <b> for it.",                          "Use <b> for it."),
    "code":              ("Use `<b>x</b>` here.",                       "Use <b>x</b> here."),
    "signs":             ("a < b </a> and c > d",                       "a < b and c > d"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), HTML.values(), ids=HTML)
def test_tags_of_html_are_no_text(answer, expected):
    assert " ".join(plain(answer).split()) == expected


FOLDED = {
    "accents of Latin letters":     ("Évêque",   "eveque"),
    "accents of Greek":             ("Ἀθῆναι",   "αθηναι"),
    "sharp s":                      ("Straße",   "strasse"),
    "signs of Devanagari stay":     ("हिन्दी",     "हिन्दी"),
    "points of Arabic stay":        ("مُحَمَّد",    "مُحَمَّد"),
    "full width":                   ("ＡＢＣ",    "abc"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FOLDED.values(), ids=FOLDED)
def test_folding(text, expected):
    assert fold(unify(text)) == expected


SCALARS = {
    "a whole double":          (12.0,                     "12"),
    "a negative zero":         (-0.0,                     "0"),
    "a fraction":              (0.5,                      "0.5"),
    "too large to be exact":   (1e16,                     "1e+16"),
    "a whole number":          (12,                       "12"),
    "a decimal with its scale": (decimal.Decimal("12.50"), "12.50"),
    "a boolean":               (True,                     "true"),
    "half a character":        ("a\ud800",                "a\ufffd"),
    "no number":               (float("nan"),             None),
    "a list":                  ([12],                     None),
}  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), SCALARS.values(), ids=SCALARS)
def test_scalar_text_is_the_same_for_gold_answers_and_replies(value, expected):
    assert scalar_text(value) == expected


@given(st.text(), st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40))))
def test_masking_never_moves_a_character(text, marks):
    masked = mask_citations(text, marks)

    assert len(masked) == len(text)
    assert all(new in (old, FILLER) for new, old in zip(masked, text, strict=True))
