"""Foreign text made harmless: what would act on a page, a terminal or the order of letters is shown instead.

Each character is replaced by one character, so that offsets into a text stay what they are.
"""

from typing import Any, Final

import msgspec

_SUBSTITUTE: Final = 0x2426  # the sign for "substituted"
_BIDI = (
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)  # overrides, embeddings and isolates: they reorder what follows
_SHOWN = (
    {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}  # ESC, which begins ANSI codes, is one
    | {0x7F: 0x2421}
    | dict.fromkeys((*range(0x80, 0xA0), *_BIDI), _SUBSTITUTE)
)


def inert(text: str) -> str:
    """The text with control characters and changes of direction as visible signs; of the same length."""
    return text.translate(_SHOWN)


def shortened(text: str, length: int) -> str:
    """An inert text of at most `length` code points, an ellipsis at the end of one that was cut."""
    return inert(text if len(text) <= length else text[: length - 1] + "…")


def script_json(value: Any) -> bytes:
    """JSON that can stand in a script, inside a page or alone: nothing in it can end the script or begin a tag.

    `<`, `>` and `&` occur in JSON only inside strings, so they can be escaped in the text as a whole.
    """
    text: bytes = msgspec.json.encode(value)
    for plain, escaped in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        text = text.replace(plain, escaped)
    # Line ends for JavaScript before 2019, not for JSON.
    return text.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")


def data_script(name: str, value: Any) -> bytes:
    """A file that hands a value to the page that loads it; a page opened from a file may load nothing else."""
    return b"ragEval.receive(" + script_json(name) + b"," + script_json(value) + b");\n"
