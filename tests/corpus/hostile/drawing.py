"""What a PDF looks like."""

import pypdfium2

Colour = tuple[int, int, int]

_NEAR = 8  # of 255: what a lossy picture loses


def shows(pdf: bytes, colour: Colour) -> bool:
    """Whether a pixel of a colour, or nearly so, is on one of the sheets."""
    document = pypdfium2.PdfDocument(pdf)
    try:
        return any(_has(sheet, colour) for sheet in document)
    finally:
        document.close()


def _has(sheet: pypdfium2.PdfPage, colour: Colour) -> bool:
    bitmap = sheet.render(scale=0.5, rev_byteorder=True)
    data, channels = bytes(bitmap.buffer), bitmap.n_channels
    for line in range(bitmap.height):
        row = data[line * bitmap.stride :][: bitmap.width * channels]
        for pixel in set(zip(row[::channels], row[1::channels], row[2::channels], strict=True)):
            if all(abs(a - b) <= _NEAR for a, b in zip(pixel, colour, strict=True)):
                return True
    return False
