"""What is compared has one spelling; what is reported keeps the answer's own offsets."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.lexical import words as words_module
from rag_eval_pipeline.judges.lexical.words import content, tokens, vocabulary
from rag_eval_pipeline.text.normalise import FILLER, fold, mask_citations, plain, unify

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
}  # fmt: skip


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_mark_becomes_as_many_fillers(mark):
    masked = mask_citations(f"It opened in 1887 {mark}. Then it closed.")

    assert masked == f"It opened in 1887 {FILLER * len(mark)}. Then it closed."


@pytest.mark.parametrize("text", ["[sic]", "array[x]", "[a link](", "see [the annex]", "(1)", "{1}"])
def test_other_brackets_are_text(text):
    assert mask_citations(f"It opened {text} in 1887.") == f"It opened {text} in 1887."


def test_text_in_brackets_before_a_citation_stays():
    assert plain("It [sic] opened in 1887[3] under Ada [P.pdf:1:0-5].") == "It [sic] opened in 1887 under Ada."


def test_known_marks_are_masked_whatever_they_look_like():
    assert mask_citations("Lit <c1>.", [(4, 8), (90, 95), (8, 4)]) == f"Lit {FILLER * 4}."


def test_markdown_is_no_text():
    answer = "# Lamp\n**It** was `lit` in __1887__; see [the log](http://x.example/a)."

    assert plain(answer) == " Lamp\nIt was lit in 1887; see the log."


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


@given(st.text(), st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40))))
def test_masking_never_moves_a_character(text, marks):
    masked = mask_citations(text, marks)

    assert len(masked) == len(text)
    assert all(new in (old, FILLER) for new, old in zip(masked, text, strict=True))


TOKENS = {
    "letters and numbers":      ("B2B costs $1,577.50, 5%", ["B", "2", "B", "costs", "$", "1,577.50", "5", "%"]),
    "an apostrophe":            ("Ada's o'clock",           ["Ada's", "o'clock"]),
    "an acronym with dots":     ("the U.S. army",           ["the", "U.S.", "army"]),
    "Chinese by character":     ("灯塔 tower",               ["灯", "塔", "tower"]),
    "Thai keeps its signs":     ("ที่",                       ["ที่"]),
    "Hindi by word":            ("हिन्दी भाषा",                 ["हिन्दी", "भाषा"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TOKENS.values(), ids=TOKENS)
def test_tokens(text, expected):
    assert tokens(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_has_the_same_tokens_by_either_pattern(text):
    assert tokens(text) == words_module._TOKEN.findall(text)


CONTENT = {
    "function words go":            ("en", "The lamp of the tower",         ["lamp", "tower"]),
    "unless nothing is left":       ("en", "The Who",                       ["the", "who"]),
    "an acronym is no pronoun":     ("en", "the US and us",                 ["us"]),
    "stems":                        ("en", "keepers lighting lights",       ["keeper", "light"]),
    "a possessive":                 ("en", "Ada's lamp",                    ["ada", "lamp"]),
    "a number word":                ("en", "eleven countries",              ["11", "countri"]),
    "thousands":                    ("en", "1,577.50",                      ["1577.5"]),
    "thousands, decimal comma":     ("de", "1.577,50",                      ["1577.5"]),
    "German stems":                 ("de", "die Häuser des Königs",         ["haus", "konig"]),
    "French elision":               ("fr", "l'église",                      ["eglis"]),
}  # fmt: skip


@pytest.mark.parametrize(("language", "text", "expected"), CONTENT.values(), ids=CONTENT)
def test_content_words(language, text, expected):
    known = vocabulary(language, decimal_comma=language != "en")

    assert list(content(known.words(unify(text)))) == expected


def test_every_language_has_its_stop_words_folded():
    from rag_eval_pipeline.judges.lexical.languages import LANGUAGES
    from rag_eval_pipeline.judges.lexical.stop_words import STOP_WORDS

    assert STOP_WORDS.keys() == LANGUAGES.keys()
    assert not [
        word
        for code in ("de", "fr", "es", "it", "pt", "nl", "pl")
        for word in STOP_WORDS[code]
        if re.search(r"[A-Zäöüéèñã]", word)
    ]
