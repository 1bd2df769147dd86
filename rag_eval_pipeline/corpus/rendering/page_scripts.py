"""The scripts that run inside a page and the page that plain text is printed on: part of what decides a PDF's bytes."""

import hashlib
import html
from pathlib import Path

_FOLDER = Path(__file__).parent / "scripts"

PREPARE = (_FOLDER / "prepare.js").read_text(encoding="utf-8")
SETTLE = (_FOLDER / "settle.js").read_text(encoding="utf-8")
MEASURE = (_FOLDER / "measure.js").read_text(encoding="utf-8")
REPAIR = (_FOLDER / "repair.js").read_text(encoding="utf-8")
TEXT_PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"><style>'
    'pre{{margin:0;font:10.5pt/1.45 "Noto Sans","DejaVu Sans",sans-serif;white-space:pre-wrap;overflow-wrap:anywhere}}'
    "</style></head><body><pre dir=auto>\n{text}</pre></body></html>"
)


def text_page(text: str) -> str:
    """Plain text as a page; the parser drops the newline after `<pre>`, so that the text's own first one stays."""
    return TEXT_PAGE.format(text=html.escape(text, quote=False))


def scripts_digest() -> str:
    """Changes with every change of a script or of the page for text."""
    return hashlib.sha256("\0".join((PREPARE, SETTLE, MEASURE, REPAIR, TEXT_PAGE)).encode()).hexdigest()
