"""The sheet that everything is printed on, as Playwright is told of it and as the browser itself is."""

from typing import Any

PRINT_LIMIT_S = 60.0
CONTENT_WIDTH_PX = 703  # of A4 between the margins: what a page is laid out in at scale 1
PRINT_OPTIONS: dict[str, Any] = {
    "format": "A4",
    "margin": {side: "12mm" for side in ("top", "bottom", "left", "right")},
    "print_background": True,
    "tagged": False,  # structure ids differ from run to run, and files are 49 % larger
    "outline": False,
}

_MARGIN_IN = 12 * 3.78 / 96  # Playwright's millimetre is 3.78 pixels, and equal sheets are wanted
# The same for `Page.printToPDF` (Chrome DevTools Protocol), in inches.
PRINT_COMMAND: dict[str, Any] = {
    "paperWidth": 8.27,
    "paperHeight": 11.7,
    **{f"margin{side}": _MARGIN_IN for side in ("Top", "Bottom", "Left", "Right")},
    "printBackground": True,
    "generateTaggedPDF": False,
    "generateDocumentOutline": False,
    "transferMode": "ReturnAsBase64",
}
