"""Words drawn from right to left are read in their order; printed right-to-left pages are in test_scripts.py."""

from typing import NamedTuple

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.corpus.text.pdf_worker import layer_text
from tests.faults.pdfs import one_page, stream

LETTERS = "ابتثجحخدذرزسشصضطظع"
CODES = {letter: chr(ord("a") + number) for number, letter in enumerate(LETTERS)}
TO_UNICODE = "begincmap 1 begincodespacerange <00> <ff> endcodespacerange {} beginbfchar {} endbfchar endcmap".format(
    len(CODES) + 1, " ".join(f"<{ord(code):02x}> <{ord(letter):04x}>" for letter, code in {**CODES, " ": " "}.items())
)
FONT = b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Courier/ToUnicode 5 0 R>>>>>>"
WIDTH = 7.2  # of each glyph of Courier at 12 points


class Place(NamedTuple):
    """Where a word is drawn: the left end of its baseline."""

    x: float
    y: float


def drawn_at(words: list[tuple[Place, str]], *, says: bool = True) -> bytes:
    """Words glyph by glyph from left to right; each says that it is backwards, and every letter its text."""
    parts = ["BT /F 12 Tf"]
    for (x, y), word in words:
        parts.append("/ReversedChars BMC" if says and word != " " else "")
        for number, letter in enumerate(reversed(word)):
            parts.append(f"/Span<</ActualText <FEFF{ord(letter):04X}>>>BDC" if says and word != " " else "")
            parts.append(f"1 0 0 1 {x + number * WIDTH:.1f} {y} Tm ({CODES.get(letter, ' ')}) Tj")
            parts.append("EMC" if says and word != " " else "")
        parts.append("EMC" if says and word != " " else "")
    drawing = "\n".join([*parts, "ET"]).encode()
    return one_page(stream(drawing), more=[stream(TO_UNICODE.encode())], resources=FONT)


def drawn_by_chromium(lines: list[list[str]], *, says: bool) -> bytes:
    """Lines of words with blanks."""
    words = []
    for number, line in enumerate(lines):
        x = 72.0
        for word in reversed(line):
            words += [(Place(x, 700 - 20 * number), word), (Place(x + len(word) * WIDTH, 700 - 20 * number), " ")]
            x += (len(word) + 1) * WIDTH
    return drawn_at(words, says=says)


WORDS = st.lists(st.text(st.sampled_from(LETTERS), min_size=2, max_size=6), min_size=1, max_size=5)


@settings(max_examples=40)
@given(st.lists(WORDS, min_size=1, max_size=4))
def test_rtl_words_marked_as_backwards_are_turned(lines):
    [text] = read_texts(drawn_by_chromium(lines, says=True))

    assert text == "\n".join(" ".join(words) for words in lines)


def test_rtl_page_without_marks_is_left_to_pdfium():
    data = drawn_by_chromium([["ابت", "جحخ"]], says=False)
    layer = pypdfium2.PdfDocument(data)[0].get_textpage()

    assert layer_text(layer) == layer.get_text_range()


PLACES = {
    "close by, without a blank":        ([(Place(72, 700), "جحخ"), (Place(110, 700), "ابت")], "ابت جحخ"),
    "cells, the right one first":       ([(Place(300, 700), "ابت"), (Place(72, 700), "جحخ")], "ابت جحخ"),
    "cells, the left one first":        ([(Place(72, 700), "جحخ"), (Place(300, 700), "ابت")], "جحخ ابت"),
    "cells that are not quite in line": ([(Place(300, 700), "ابت"), (Place(72, 697), "جحخ")], "ابت\nجحخ"),
    "a raised word":                    ([(Place(72, 704), "جحخ"), (Place(110, 700), "ابت")], "ابت جحخ"),
    "the line above, drawn later":      ([(Place(72, 680), "جحخ"), (Place(72, 700), "ابت")], "جحخ\nابت"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), PLACES.values(), ids=PLACES)
def test_rtl_words_are_grouped_as_they_were_drawn(words, expected):
    assert read_texts(drawn_at(words)) == [expected]
