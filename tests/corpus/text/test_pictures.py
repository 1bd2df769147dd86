"""Pages with gold and cited spans marked where the text stands, and first pages on one sheet."""

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pages import Page, extract_pages
from rag_eval_pipeline.corpus.text.pdf_layer import Box
from rag_eval_pipeline.corpus.text.pdf_reader import draw_page, read_texts
from rag_eval_pipeline.corpus.text.pictures import Mark, contact_sheet, marks_by_page, page_marks_svg, page_picture
from rag_eval_pipeline.corpus.text.png import png, small_png
from tests.faults.pdfs import one_page, stream

WIDTH = 595  # of the page, too: a pixel is a point
BASELINE = 842 - 700
ORANGE, BLUE, WHITE = (245, 216, 153), (0, 114, 178), (255, 255, 255)  # 255 - 0.4 x (255 - orange's channel)


def pixels(data: bytes) -> np.ndarray:
    """(height, width, 3) of a PNG without filters."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        assert zlib.crc32(data[at + 4 : at + 8 + size]) == struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0]
        chunks[kind] = data[at + 8 : at + 8 + size]
        at += 12 + size
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colours in (2, 3), list(chunks)[-1]) == (8, True, b"IEND")
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    if colours == 2:
        return rows[:, 1:].reshape(height, width, 3)
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[rows[:, 1:]]


def has(picture: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return (picture == colour).all(axis=2)


def extent(mask: np.ndarray) -> Box:
    rows, columns = np.where(mask)
    return Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


@pytest.fixture
def two_pages(tmp_path):
    path = tmp_path / "a#b%20c.pdf"
    path.write_bytes(simple_pdf("the first page", "a second one"))
    return path


def test_a_page_without_marks_is_the_page(two_pages):
    picture = pixels(page_picture(two_pages, 2, [], width=WIDTH))

    assert picture.shape == (842, WIDTH, 3)
    ink = extent(picture.min(axis=2) < 128)
    assert (ink.left, ink.bottom) == (pytest.approx(72, abs=3), pytest.approx(BASELINE, abs=3))


def test_gold_is_filled_where_it_stands(two_pages):
    picture = pixels(page_picture(two_pages, 1, [Mark(4, 9, "gold")], width=WIDTH))

    box = extent(has(picture, ORANGE))
    # Helvetica's "the " is 0.278 + 0.556 + 0.556 + 0.278 of 12 points wide, "first" 0.278 + 0.222 + 0.333 + 0.5 + 0.278.
    assert (box.left, box.right) == (pytest.approx(72 + 20.0, abs=2), pytest.approx(72 + 20.0 + 19.3, abs=2))
    assert box.top < BASELINE - 8 < BASELINE < box.bottom + 1
    assert box.bottom - box.top < 20
    assert picture[box.top : box.bottom, box.left : box.right].min() < 100  # the letters are still there


def test_cited_is_framed_and_what_is_both_is_both(two_pages):
    cited = pixels(page_picture(two_pages, 1, [Mark(4, 9, "cited")], width=WIDTH))
    both = pixels(page_picture(two_pages, 1, [Mark(4, 9, "both")], width=WIDTH))
    apart = pixels(page_picture(two_pages, 1, [Mark(4, 9, "gold"), Mark(4, 9, "cited")], width=WIDTH))

    assert has(cited, BLUE).any()
    assert not has(cited, ORANGE).any()
    assert (has(both, BLUE) == has(cited, BLUE)).all()
    assert has(both, ORANGE).any()
    assert (both == apart).all()


def test_an_overlap_is_seen_as_such(two_pages):
    picture = pixels(page_picture(two_pages, 1, [Mark(0, 9, "gold"), Mark(4, 14, "cited")], width=WIDTH))

    gold, cited = extent(has(picture, ORANGE)), extent(has(picture, BLUE))
    assert gold.left < cited.left < gold.right < cited.right


def test_gold_over_gold_is_no_darker(two_pages):
    once = page_picture(two_pages, 1, [Mark(0, 9, "gold")])

    assert page_picture(two_pages, 1, [Mark(0, 9, "gold"), Mark(4, 9, "gold")]) == once


def boxes(data: bytes, text: str, word: str) -> list[Box]:
    at = text.index(word)
    [found] = draw_page(data, 1, width=WIDTH, ranges=[(at, at + len(word))]).boxes
    return found


def mapped(unicode: str) -> bytes:
    """A line in which what is drawn as "a" stands for these units of UTF-16."""
    table = b"begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <61> <%s> endbfchar endcmap"
    font = b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 5 0 R>>>>>>"
    drawing = b"BT /F 12 Tf 72 700 Td (ab ca xyz) Tj 0 -20 Td (second line) Tj ET"
    return one_page(stream(drawing), more=[stream(table % unicode.encode())], resources=font)


# pdfium's list of characters and its text disagree in each of these; the same letters are drawn in all.
TRAPS = {
    "nothing special": ("0061", "ab ca xyz\nsecond line"),
    "two units, one code point": ("D83DDE80", "🚀b c🚀 xyz\nsecond line"),
    "a ligature": ("00660069", "fib cfi xyz\nsecond line"),
    "a character that the text leaves out": ("FFFE", "b c xyz\nsecond line"),
    "half a pair, which Python leaves out": ("D800", "b c xyz\nsecond line"),
    "a hyphen at a line's end": ("0000", "-b c- xyz\nsecond line"),
    "a form feed, which would end the page": ("000C", "\nb c\n xyz\nsecond line"),
}


@pytest.mark.parametrize(("unicode", "text"), TRAPS.values(), ids=TRAPS)
def test_boxes_stand_where_the_characters_of_our_text_stand(unicode, text, tmp_path):
    data, plain = mapped(unicode), mapped("0061")
    (tmp_path / "a.pdf").write_bytes(data)

    assert extract_pages(tmp_path / "a.pdf") == [text]
    for word in ("xyz", "second", "line"):
        assert boxes(data, text, word) == boxes(plain, TRAPS["nothing special"][1], word)


def test_a_span_over_two_lines_has_a_box_for_each():
    data = mapped("0061")

    first, second = boxes(data, "ab ca xyz\nsecond line", "xyz\nsecond")

    assert first.bottom <= second.top + 6
    assert (second.left, first.left > 72) == (pytest.approx(72, abs=1), True)


def test_boxes_follow_a_page_that_is_turned_or_cut():
    def place(data: bytes, width: int) -> Box:
        at = read_texts(data)[0].index("xyz")  # of a page that is turned, pdfium reads the lines in another order
        [[box]] = draw_page(data, 1, width=width, ranges=[(at, at + 3)]).boxes
        return box

    upright = place(mapped("0061"), WIDTH)
    turned = place(mapped("0061").replace(b"595 842]", b"595 842]/Rotate 90 "), 842)
    cut = place(mapped("0061").replace(b"595 842]", b"595 842]/CropBox[50 100 595 842]"), 545)

    assert turned == pytest.approx((842 - upright.bottom, upright.left, 842 - upright.top, upright.right), abs=1)
    assert cut == pytest.approx((upright.left - 50, upright.top, upright.right - 50, upright.bottom), abs=1)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_span_of_a_page_has_boxes_on_it(data):
    text = "ab ca xyz\nsecond line"
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))

    [found] = draw_page(mapped("0061"), 1, width=WIDTH, ranges=[(start, end)]).boxes

    assert len(found) == sum(line != "" for line in text[start:end].split("\n"))
    assert all(0 <= b.left < b.right <= WIDTH and 0 <= b.top < b.bottom <= 842 for b in found)


def test_svg_has_the_same_boxes_and_no_text_of_the_document(two_pages):
    marks = [Mark(0, 9, "gold"), Mark(4, 14, "cited")]
    svg = page_marks_svg(two_pages, 1, marks, width=WIDTH)
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"

    assert root.get("viewBox") == f"0 0 {WIDTH} 842"
    classes = [element.get("class") for element in root if element.get("class")]
    assert classes == ["gold", "cited", "cited"]
    gold = root.find(f"{space}rect[@class='gold']")
    box = extent(has(pixels(page_picture(two_pages, 1, marks, width=WIDTH)), ORANGE))
    assert float(gold.get("x")) == pytest.approx(box.left, abs=1)
    assert float(gold.get("width")) == pytest.approx(box.right - box.left, abs=2)
    page = base64.b64decode(root.find(f"{space}image").get("href").partition(",")[2])
    assert page == page_picture(two_pages, 1, [], width=WIDTH)
    assert "first" not in re.sub(r'href="[^"]*"', "", svg)


def test_svg_may_leave_the_page_out(two_pages):
    assert "<image" not in page_marks_svg(two_pages, 1, [Mark(0, 9, "gold")], with_page=False)


def test_a_span_over_a_page_break_is_marked_on_both_pages():
    pages = [Page("a.pdf", 1, 0, "one two"), Page("a.pdf", 2, 8, ""), Page("a.pdf", 3, 9, "three four")]

    assert marks_by_page(pages, 4, 14, "gold") == {1: [Mark(4, 7, "gold")], 3: [Mark(0, 5, "gold")]}
    assert marks_by_page(pages, 0, 3, "cited") == {1: [Mark(0, 3, "cited")]}
    assert marks_by_page(pages, 40, 50, "cited") == {}


NOWHERE = {
    "a page too many": (3, [], "no_such_page"),
    "page 0": (0, [], "no_such_page"),
    "a character too many": (1, [Mark(4, 15, "gold")], "no_such_place"),
    "an empty span": (1, [Mark(4, 4, "gold")], "no_such_place"),
    "a negative start": (1, [Mark(-1, 4, "gold")], "no_such_place"),
}


@pytest.mark.parametrize(("page", "marks", "code"), NOWHERE.values(), ids=NOWHERE)
def test_what_is_not_there_is_not_drawn(page, marks, code, two_pages):
    with pytest.raises(DocumentError) as refused:
        page_picture(two_pages, page, marks)

    assert refused.value.code == code


def test_a_picture_has_a_size(two_pages):
    for width in (0, -5, 4001):
        with pytest.raises(ValueError, match="expected a width"):
            page_picture(two_pages, 1, [], width=width)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        page_picture(tmp_path / "none.pdf", 1, [])


@pytest.fixture
def corpus(tmp_path):
    square = b"1 0 0 rg 0 0 595 842 re f"
    (tmp_path / "red.pdf").write_bytes(one_page(stream(square)))
    (tmp_path / "wide.pdf").write_bytes(one_page(stream(square)).replace(b"595 842", b"842 595"))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nrubbish")
    return tmp_path


def test_a_contact_sheet_shows_each_document_and_what_is_wrong_with_it(corpus):
    names = ["red.pdf", "wide.pdf", "broken.pdf", "gone.pdf"]

    sheet = pixels(contact_sheet([(name, corpus / name) for name in names], columns=2, thumb_width=100))

    assert sheet.shape == (2 * (141 + 22 + 16), 2 * (100 + 16), 3)  # 100 by the root of 2, two lines, two margins
    red = has(sheet, (255, 0, 0))
    assert extent(red[:179, :116]) == (8, 8, 108, 149)
    assert extent(red[:179, 116:]) == (8, 8, 108, 8 + 71)
    assert not red[179:].any()
    grey = (sheet[179:330] == sheet[179 + 10, 10]).all(axis=2)
    assert extent(grey) == (8, 8, 224, 149)
    for left in (0, 116):
        assert sheet[179 + 8 : 179 + 149, left : left + 116].min() < 100  # the code
        assert sheet[151:170, left : left + 116].min() < 100  # the name


def test_a_contact_sheet_has_no_more_than_its_limit(corpus):
    files = [("red.pdf", corpus / "red.pdf")] * 9

    assert contact_sheet(files, limit=3) == contact_sheet(files[:3])


NAMES = ["", "x" * 300, "深い🚀.pdf", "a(b)\\c<d>%00.pdf", "é#b%20c.pdf", "line\nbreak.pdf"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_stand_below_a_page(name, corpus):
    sheet = pixels(contact_sheet([(name, corpus / "red.pdf")], thumb_width=100))

    assert sheet.shape == (179, 116, 3)
    assert has(sheet, (255, 0, 0)).sum() == 100 * 141


def test_a_sheet_of_nothing_is_refused(corpus):
    for files, options in (
        ([], {}),
        ([("red.pdf", corpus / "red.pdf")], {"columns": 0}),
        ([("red.pdf", corpus / "red.pdf")], {"thumb_width": 9000}),
    ):
        with pytest.raises(ValueError, match="expected"):
            contact_sheet(files, **options)


def test_png_keeps_each_pixel_and_small_png_nearly():
    rng = np.random.default_rng(3)
    picture = rng.integers(0, 256, (7, 5, 3), np.uint8)
    greys = np.repeat(np.arange(0, 256, dtype=np.uint8), 3).reshape(16, 16, 3)

    assert (pixels(png(picture)) == picture).all()
    assert np.abs(pixels(small_png(picture)).astype(int) - picture).max() <= 26  # half of 255 / 5
    assert np.abs(pixels(small_png(greys)).astype(int) - greys).max() <= 4  # half of 255 / 39
