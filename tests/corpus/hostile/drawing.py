"""What a PDF looks like."""

import pypdfium2

Colour = tuple[int, int, int]

_NEAR = 8  # of 255: what a lossy picture loses


def shows(pdf: bytes, colour: Colour) -> bool:
    """Whether a pixel of a colour, or nearly so, is on one of the sheets."""
    document = pypdfium2.PdfDocument(pdf)
    try:
        sheets = (sheet.render(scale=0.5, rev_byteorder=True).to_numpy()[..., :3].astype(int) for sheet in document)
        return any((abs(pixels - colour) <= _NEAR).all(axis=2).any() for pixels in sheets)
    finally:
        document.close()
