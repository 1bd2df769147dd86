"""The text of a printed page, in thirty scripts, is the text that the page has: no letter twice, no blank inside a word."""

import asyncio
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from rag_eval_pipeline.corpus.rendering.browser import browser_pool
from rag_eval_pipeline.corpus.rendering.render import render
from rag_eval_pipeline.corpus.text.alignment import TextIndex
from rag_eval_pipeline.corpus.text.pdf import draw_page, read_texts
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser

# Lines that fit on a sheet; most are the first article of the Universal Declaration of Human Rights.
SCRIPTS = {
    entry["script"]: (entry["lang"], entry["lines"])
    for entry in json.loads(Path(__file__).with_name("scripts.json").read_text("utf-8"))
}
STYLES = ("", "font-family:serif;font-weight:bold;font-size:23px;text-align:justify")


def section_of(heading: str, lang: str, lines: list[str]) -> str:
    """Each line on its own and all of them as one block, in each style, on sheets of their own."""
    blocks = (
        f'<p dir="auto" style="{style};white-space:nowrap">{"<br>".join(lines)}</p>'
        f'<p dir="auto" style="{style}">{" ".join(lines)}</p>'
        for style in STYLES
    )
    return (
        f'<p dir="ltr" style="break-before:page">{heading}</p>'
        f'<section lang="{lang}" dir="auto">{"".join(blocks)}</section>'
    )


HEADINGS = {f"Script {number}": name for number, name in enumerate(SCRIPTS, 1)}
ALL_SCRIPTS = '<!doctype html><meta charset="utf-8"><title>x</title>' + "".join(
    section_of(heading, *SCRIPTS[name]) for heading, name in HEADINGS.items()
)


MIXED = """<!doctype html><meta charset="utf-8"><html lang="en"><title>x</title>
<p style="text-align:justify">The Hindi word <i>राष्ट्र</i> (<b>rāṣṭra</b>) means “nation”<sup>[1]</sup>, cf. <a href="x">d͡ʒ</a> and <i>e&#x301;t&#x304;</i>.</p>
<table border="1"><tr><td>नाम</td><td>Name</td><td>मूल्य 1,234.50</td></tr>
<tr><td>राष्ट्र</td><td>Nation<sup>2</sup></td><td>H<sub>2</sub>O</td></tr></table>"""
MIXED_TEXT = """The Hindi word राष्ट्र (rāṣṭra) means “nation”[1], cf. d͡ʒ and e\u0301t\u0304.
नाम Name मूल्य 1,234.50
राष्ट्र Nation2 H2O"""


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


@pytest.fixture(scope="module")
def pdfs(own_temp) -> dict[str, bytes]:
    """The PDF of each page; all scripts share one."""
    right_to_left = "".join([*BLOCKS.values(), TABLE, LIST])
    pages = {
        "scripts": ALL_SCRIPTS,
        "mixed": MIXED,
        "right to left": f'<!doctype html><meta charset="utf-8"><html dir="rtl"><title>x</title>{right_to_left}',
    }

    async def all_of_them() -> dict[str, bytes]:
        async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:
            bodies = {name: Body("html", page.encode(), "http://document.invalid/") for name, page in pages.items()}
            return {name: (await render(pool, body, load_limit_s=PATIENCE_S)).pdf for name, body in bodies.items()}

    return asyncio.run(all_of_them())


@pytest.fixture(scope="module")
def printed(pdfs) -> dict[str, list[str]]:
    """The text of each sheet, by page and by script."""
    found = {name: read_texts(pdf) for name, pdf in pdfs.items()}
    for sheet in found.pop("scripts"):
        first, _, rest = sheet.partition("\n")
        if first in HEADINGS:
            sheets = found.setdefault(HEADINGS[first], [])
        sheets.append(rest if first in HEADINGS else sheet)
    return found


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", SCRIPTS)
def test_read_texts_returns_the_text_of_a_script(name, printed):
    _, lines = SCRIPTS[name]
    letters = {char for line in lines for char in line if char.isalpha()}
    charset = " ".join(f"{ord(char):x}" for char in letters)
    if shutil.which("fc-list") and not subprocess.check_output(["fc-list", f":charset={charset}"]):
        pytest.skip(f"no installed font has the letters of {name}")

    text = "\n".join(printed[name])

    found = text.split("\n")
    assert [line for line in lines if found.count(line) < len(STYLES)] == []
    assert squeezed(text) == squeezed("".join([*lines, *lines] * len(STYLES)))


def test_read_texts_keeps_the_brackets_of_a_thai_enumeration(printed):
    """Both close: only a line that is read from the right has its brackets turned."""
    assert "ก) น้ำ ข) ดิน" in "\n".join(printed["Thai"]).split("\n")


def test_read_texts_separates_scripts_and_cells(printed):
    assert printed["mixed"] == [MIXED_TEXT]


@pytest.mark.parametrize("name", BLOCKS)
def test_rtl_block_is_read_as_it_was_written(name, printed):
    assert GOLD[name] in " ".join("\n".join(printed["right to left"]).split())


@pytest.mark.parametrize("gold", GOLD.values(), ids=GOLD)
def test_rtl_gold_text_is_located(gold, printed):
    [found] = TextIndex(printed["right to left"]).locate(gold)

    assert found.method in ("exact", "normalised")


def test_rtl_page_loses_and_doubles_no_character(printed):
    written = "".join(["1.2.3.", *GOLD.values()])  # pdfium itself gives some letters with marks twice

    assert Counter("".join("".join(printed["right to left"]).split())) == Counter("".join(written.split()))


def test_rtl_boxes_are_where_the_words_are(printed, pdfs):
    """Of two words in one line the first stands further to the right, and a phrase on both sides of its middle."""
    page = next(number for number, text in enumerate(printed["right to left"], 1) if "الإسكندرية والقاهرة" in text)
    start = printed["right to left"][page - 1].index("الإسكندرية والقاهرة")
    ranges = [(start, start + 10), (start + 11, start + 19), (start, start + 19)]

    first, second, both = draw_page(pdfs["right to left"], page, width=800, ranges=ranges).boxes

    assert second[0].right <= first[-1].left
    assert len(both) == 1
    assert both[0].left == pytest.approx(min(box.left for box in second), abs=1)
    assert both[0].right == pytest.approx(max(box.right for box in first), abs=1)
