"""Right-to-left text comes out of a PDF as it was written, each character once, and is located."""

import asyncio
import re
from collections import Counter
from typing import NamedTuple

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.rendering.browser import browser_pool
from rag_eval_pipeline.corpus.rendering.render import render
from rag_eval_pipeline.corpus.text.alignment import TextIndex
from rag_eval_pipeline.corpus.text.pdf import draw_page, read_texts
from rag_eval_pipeline.corpus.text.pdf_worker import layer_text
from rag_eval_pipeline.corpus.text.rtl import Drawn, TextObjects, drawn_lines
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from tests.faults.pdfs import one_page, stream

BLOCKS = {
    "Arabic, a heading": '<h1 lang="ar">تاريخ السكك الحديدية</h1>',
    "Arabic, justified": (
        '<p lang="ar" style="text-align:justify">بدأ إنشاء خط السكة الحديدية بين الإسكندرية والقاهرة في عام 1851، وافتتح '
        "القسم الأول منه جداً في عام ١٨٥٤ بطول 209.5 كيلومتر. لا إله إلا الله، والآن الأطفال يلعبون.</p>"
    ),
    "Arabic, with all its marks": (
        '<p lang="ar">قَالَ الرَّجُلُ إِنَّ الْكِتَابَ مُفِيدٌ لِلْأَطْفَالِ، وَقَدْ قَرَأَهُ Robert Stephenson في London عام 1856 ثم أعاده.</p>'
    ),
    "Arabic, numbers and brackets": (
        '<p lang="ar">الأسعار: 1,234.50 جنيه (12%) و ٣٤٫٥ و 15/03/2021 و (1914-1918) و «نص» و iPhone 15 (Apple) هنا.</p>'
    ),
    "Arabic, links and a raised mark": (
        '<p lang="ar">زار <a href="/a">مدينة القاهرة</a> ثم <b>الإسكندرية</b> في السنة التالية<sup>[3]</sup> وعاد منها.</p>'
    ),
    "Arabic, in a face of its own": (
        "<p lang=\"ar\" style=\"font-family:'Noto Naskh Arabic','Noto Sans Arabic'\">هذا الكتاب مفيد جداً لأنه يشرح تاريخ لبنان، "
        "والسلام على الأصدقاء في 2019 وبعدها شكراً.</p>"
    ),
    "Persian": '<p lang="fa">این یک متن فارسی است که در آن گچ و پژمان را بنویسم؛ سال ۱۳۵۷ در تهران بود.</p>',
    "Urdu": '<p lang="ur">یہ اردو کی ایک تحریر ہے جس میں ٹ ڈ ڑ ں ھ ے شامل ہیں۔</p>',
    "Urdu, sloping": (
        '<p lang="ur" style="font-family:\'Noto Nastaliq Urdu\'">لاہور پاکستان کا ایک بڑا شہر ہے اور اس کی تاریخ بہت پرانی ہے۔</p>'
    ),
    "Hebrew": '<p lang="he">ירושלים היא עיר הבירה של מדינת ישראל, ובה 936,425 תושבים בשנת 2019 (8% מהם).</p>',
    "Hebrew, with points": '<p lang="he">בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ.</p>',
    "Syriac": '<p lang="syr">ܒܪܫܝܬ ܐܝܬܘܗܝ ܗܘܐ ܡܠܬܐ</p>',
    "N'Ko": '<p lang="nqo">ߒߞߏ ߦߋ߫ ߞߊ߲ ߠߎ߬ ߘߏ߫</p>',
    "English with Arabic words": (
        '<p lang="en" dir="ltr">The Arabic word كتاب means book, and مدرسة كبيرة means a large school (in 1999).</p>'
    ),
}
# Each cell, and each item, is a gold text of its own.
CELLS = [
    "الاسم الأول للمدينة",
    "عدد السكان 9,540,000",
    "القاهرة عاصمة مصر",
    "الإسكندرية",
    "شكراً جزيلاً لكم",
    "(1998-2015)",
]
TABLE = "<table><tr>{}</tr><tr>{}</tr></table>".format(
    *("".join(f"<td>{cell}</td>" for cell in row) for row in (CELLS[:3], CELLS[3:]))
)
ITEMS = ["أولاً: الماء والهواء", "ثانياً: النار (الحرارة)", "ثالثاً: التراب"]
LIST = "<ol>" + "".join(f"<li>{item}</li>" for item in ITEMS) + "</ol>"


GOLD = {
    **{name: re.sub("<[^>]*>", "", block) for name, block in BLOCKS.items()},
    **{f"cell {number}": cell for number, cell in enumerate(CELLS, 1)},
    **{f"item {number}": item for number, item in enumerate(ITEMS, 1)},
}


async def pdf_of(page: str) -> bytes:
    async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:
        return (await render(pool, Body("html", page.encode(), "http://document.invalid/"), load_limit_s=30)).pdf


@pytest.fixture(scope="module")
def printed(own_temp) -> bytes:
    body = "".join([*BLOCKS.values(), TABLE, LIST])
    return asyncio.run(pdf_of(f'<!doctype html><meta charset="utf-8"><html dir="rtl"><title>x</title>{body}'))


@pytest.fixture(scope="module")
def pages(printed) -> list[str]:
    return read_texts(printed)


@pytest.mark.browser
@pytest.mark.parametrize("name", BLOCKS)
def test_rtl_block_is_read_as_it_was_written(name, pages):
    assert GOLD[name] in " ".join("\n".join(pages).split())


@pytest.mark.browser
@pytest.mark.parametrize("gold", GOLD.values(), ids=GOLD)
def test_rtl_gold_text_is_located(gold, pages):
    [found] = TextIndex(pages).locate(gold)

    assert found.method in ("exact", "normalised")


@pytest.mark.browser
def test_rtl_page_loses_and_doubles_no_character(pages):
    written = "".join(["1.2.3.", *GOLD.values()])  # pdfium itself gives some letters with marks twice

    assert Counter("".join("".join(pages).split())) == Counter("".join(written.split()))


@pytest.mark.browser
def test_rtl_boxes_are_where_the_words_are(printed, pages):
    """Of two words in one line the first stands further to the right, and a phrase on both sides of its middle."""
    page = next(number for number, text in enumerate(pages, 1) if "الإسكندرية والقاهرة" in text)
    start = pages[page - 1].index("الإسكندرية والقاهرة")
    ranges = [(start, start + 10), (start + 11, start + 19), (start, start + 19)]

    first, second, both = draw_page(printed, page, width=800, ranges=ranges).boxes

    assert second[0].right <= first[-1].left
    assert len(both) == 1
    assert both[0].left == pytest.approx(min(box.left for box in second), abs=1)
    assert both[0].right == pytest.approx(max(box.right for box in first), abs=1)


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


def test_drawn_lines_have_the_words_that_are_backwards():
    layer = pypdfium2.PdfDocument(drawn_by_chromium([["ابت", "جحخ"]], says=True))[0].get_textpage()

    [line] = drawn_lines(TextObjects(layer.page, layer).drawn)

    found = [(word.is_reversed, "".join(drawn.text for drawn in word.objects)) for word in line]
    assert found == [(True, "خحج"), (False, ""), (True, "تبا"), (False, "")]
    assert [round((word.x - 72) / WIDTH) for word in line] == [0, 3, 4, 7]


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


def drawn(number: int, x: float, baseline: float, size: float, said_by: int) -> Drawn:
    return Drawn(number, x, baseline, size, x, x + size / 2, said_by, 0, "")


def test_drawn_lines_follow_the_baseline_of_most_letters():
    word = [drawn(0, 72, 709, 12, 1), drawn(1, 73, 700, 12, 1), drawn(2, 80, 700, 12, 1)]
    note = [drawn(3, 87, 704, 8, 2)]

    [line] = drawn_lines([*word, *note, drawn(4, 92, 700, 12, 3)])
    two = drawn_lines([*word, drawn(3, 87, 709, 12, 2)])

    assert [(len(found.objects), found.baseline, found.size) for found in line] == [
        (3, 700, 12),
        (1, 704, 8),
        (1, 700, 12),
    ]
    assert len(two) == 2
