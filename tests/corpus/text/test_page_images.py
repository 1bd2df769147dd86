"""Pages are drawn with the places of their characters, encoded as small PNG files, and put on a contact sheet."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.text.page_drawing import contact_sheet, encode_png
from rag_eval_pipeline.corpus.text.pdf import Box, DrawnPage, draw_page, read_texts
from rag_eval_pipeline.errors import DocumentError
from tests.faults.pdfs import one_page, stream

WIDTH = 595  # of the page in points, so a pixel is a point
GREY = 217


def pixels(png: bytes) -> np.ndarray:
    """(height, width, 3)."""
    image = Image.open(io.BytesIO(png))
    assert (image.format, image.mode) == ("PNG", "P")
    return np.asarray(image.convert("RGB")).astype(int)


def near(picture: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return (abs(picture - colour) <= 4).all(axis=2)


def extent(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(mask)
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


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
ENCODINGS = {
    "nothing special": ("0061", "ab ca xyz\nsecond line"),
    "two units, one code point": ("D83DDE80", "🚀b c🚀 xyz\nsecond line"),
    "a ligature": ("00660069", "fib cfi xyz\nsecond line"),
    "a character that the text leaves out": ("FFFE", "b c xyz\nsecond line"),
    "half a pair, which Python leaves out": ("D800", "b c xyz\nsecond line"),
    "a form feed, which would end the page": ("000C", "\nb c\n xyz\nsecond line"),
}


@pytest.mark.parametrize(("unicode", "text"), ENCODINGS.values(), ids=ENCODINGS)
def test_draw_page_boxes_match_characters(unicode, text):
    data, plain = mapped(unicode), mapped("0061")

    assert read_texts(data) == [text]
    for word in ("xyz", "second", "line"):
        assert boxes(data, text, word) == boxes(plain, ENCODINGS["nothing special"][1], word)


def test_draw_page_boxes_follow_rotation_and_crop():
    def place(data: bytes, width: int) -> Box:
        at = read_texts(data)[0].index("xyz")  # of a page that is turned, pdfium reads the lines in another order
        [[box]] = draw_page(data, 1, width=width, ranges=[(at, at + 3)]).boxes
        return box

    upright = place(mapped("0061"), WIDTH)
    turned = place(mapped("0061").replace(b"595 842]", b"595 842]/Rotate 90 "), 842)
    cut = place(mapped("0061").replace(b"595 842]", b"595 842]/CropBox[50 100 595 842]"), 545)

    assert turned == pytest.approx((842 - upright.bottom, upright.left, 842 - upright.top, upright.right), abs=1)
    assert cut == pytest.approx((upright.left - 50, upright.top, upright.right - 50, upright.bottom), abs=1)


@given(st.data())
def test_draw_page_gives_boxes_for_every_span(data):
    text = "ab ca xyz\nsecond line"
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))

    [found] = draw_page(mapped("0061"), 1, width=WIDTH, ranges=[(start, end)]).boxes

    assert len(found) == sum(line != "" for line in text[start:end].split("\n"))
    assert all(0 <= b.left < b.right <= WIDTH and 0 <= b.top < b.bottom <= 842 for b in found)


NOWHERE = {
    "a page too many": (3, [], "no_such_page"),
    "a character too many": (1, [(4, 15)], "no_such_place"),
    "a negative start": (1, [(-1, 4)], "no_such_place"),
}


@pytest.mark.parametrize(("page", "ranges", "code"), NOWHERE.values(), ids=NOWHERE)
def test_draw_page_refuses_what_is_not_there(page, ranges, code):
    with pytest.raises(DocumentError) as refused:
        draw_page(simple_pdf("first page", "second"), page, width=100, ranges=ranges)

    assert refused.value.code == code


def test_encode_png_keeps_size_and_colours():
    greys = np.repeat(np.arange(0, 256, dtype=np.uint8), 3).reshape(8, 32, 3)

    decoded = pixels(encode_png(DrawnPage(32, 8, greys.tobytes(), [])))

    assert decoded.shape == (8, 32, 3)
    assert abs(decoded - greys).max() <= 8  # half of 256 / 16


@pytest.fixture
def folder(tmp_path):
    square = b"1 0 0 rg 0 0 595 842 re f"
    (tmp_path / "red.pdf").write_bytes(one_page(stream(square)))
    (tmp_path / "wide.pdf").write_bytes(one_page(stream(square)).replace(b"595 842", b"842 595"))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nrubbish")
    return tmp_path


def test_contact_sheet_shows_documents_names_and_error_codes(folder):
    odd = folder / "深い(x)\\c<d>%00\n.pdf"
    odd.write_bytes((folder / "red.pdf").read_bytes())
    paths = [odd, *(folder / name for name in ("wide.pdf", "broken.pdf", "gone.pdf", "red.pdf", "red.pdf"))]

    sheet = pixels(contact_sheet(paths))

    # Five columns of 100 by 141 pixels, two lines of names and two margins; the sixth document is in the second row.
    assert sheet.shape == (2 * (141 + 22 + 16), 5 * (100 + 16), 3)
    red = near(sheet, (255, 0, 0))
    assert extent(red[:179, :116]) == (8, 8, 108, 149)
    assert extent(red[:179, 116:232]) == (8, 8, 108, 8 + 71)
    assert not red[:179, 232:464].any()
    assert extent(near(sheet[:149, 232:464], (GREY,) * 3)) == (8, 8, 224, 149)
    assert sheet[8:149, 232:348].min() < 120  # the code
    assert sheet[151:170, :116].min() < 120  # the name
    assert extent(red[179:]) == (8, 8, 108, 149)
