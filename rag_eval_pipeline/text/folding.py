"""The one spelling in which texts are compared, the text of a number, and answers without citations and markup."""

import decimal
import html
import json
import math
import unicodedata
from collections.abc import Iterable
from typing import Any

import regex

WHOLE_DOUBLE = regex.compile(r"([0-9]+)\.0")  # what pandas makes of an id in a column where some are missing
FILLER = "\x1a"  # SUBSTITUTE: no writer uses it, and ASCII text stays ASCII text
_EXACT_FLOAT = 2**53  # doubles up to here hold every whole number
_LONGEST_NAME = 500  # characters of a cited file's name: the way back to its bracket is bounded

_SPELLINGS = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′`´ʼʻ＇", "'"),
        **dict.fromkeys("“”„‟″«»＂「」『』", '"'),
        **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
        **dict.fromkeys("\u00a0\u2007\u202f\u2009\u200a\u3000", " "),
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff", None),  # soft hyphens and other marks without a width
        **dict.fromkeys("⁰¹²³⁴⁵⁶⁷⁸⁹", " "),  # marks of notes: NFKC would make 1887³ a number of five digits
        **dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)),  # CO₂
        **{"½": " 1/2", "¼": " 1/4", "¾": " 3/4"},  # 2½ would be 21/2
        "٫": ".",
        "٬": ",",
        "٪": "%",
    }
)
_SQUARED = regex.compile(r"(?<=\b(?:[kcm]?m|ft|mi|in|yd))[²³]")
_DIGIT = regex.compile(r"(?![0-9])\p{Nd}")
_STRIPPED = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}++")

# The part of `[file:page:start-end]` after the name; a pattern for the whole would start again at every bracket.
_PLACES = regex.compile(
    r":[0-9]++:[0-9]++-[0-9]++(?:,[0-9]++-[0-9]++)*+"
    r'(?:[ \t]*+\|[ \t]*+excerpt:[ \t]*+(?:"(?:[^"\\]|\\(?s:.))*+"|"[^"\n]*+(?<=\\)"))?+\]'
)
# Before the number of a passage in a mark: `[doc1]`, `[Source 2]`, `[citation:3]`.
PASSAGE_WORDS = r"(?:doc|document|source|passage|context|ref|reference|citation)s?\.?[ ]?[:#]?[ ]?"
_NUMBER = rf"(?:(?:{PASSAGE_WORDS}|ID:[ ]?)?[0-9]{{1,3}})"
_NUMBERED = rf"[\[［][ ]?\^?{_NUMBER}(?:[ ]?[,;–-][ ]?{_NUMBER}){{0,40}}[ ]?[\]］]"
_FILE = r"\[[^\[\]\n]{0,300}?\.(?:pdf|txt|md|html?|docx?|xlsx?|pptx?|csv|json)(?:#[^\[\]\n]{0,100}|:[0-9:,-]{1,60})?\]"
_MARKS = regex.compile(rf"{_NUMBERED}|{_FILE}|【[^【】\n]{{0,300}}】|(?<=\])\([^()\s]{{1,500}}\)", regex.IGNORECASE)
# Tags of a text in HTML, in which at least one is closed or breaks a line; not those in code of Markdown. Of a note
# also its number.
_HTML = regex.compile(r"</[a-z]|<br\b", regex.IGNORECASE)
_TAG = regex.compile(
    r"(?P<code>`[^`\n]*+`|^[ \t]*+```.*?^[ \t]*+```)|(?<=\p{L}{3}|[.,;:!?)])<sup>\s*+\[?[0-9]{1,3}\]?\s*+</sup>"
    r"|(?P<block></?(?:p|div|br|hr|[uo]l|li|h[1-6]|table|thead|tbody|t[rdh]|blockquote|pre)\b[^<>]{0,500}>)"
    r"|</?(?:a|b|i|u|s|em|strong|span|su[bp]|code|mark|small|font)\b[^<>]{0,500}>",
    regex.IGNORECASE | regex.DOTALL | regex.MULTILINE,
)
_ENTITY = regex.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", regex.IGNORECASE)
_LINK = regex.compile(rf"\[([^\[\]\n]{{1,300}})\](?={FILLER})")
_FENCE = r"(?m:^[ \t]*+`{3,}+[\w+-]*+[ \t]*+$)"
_EMPHASIS = regex.compile(rf"\*{{1,3}}|__|~~|{_FENCE}|`++|(?m:^[ \t]*+(?:#{{1,6}}(?=[ \t])|>++))")
_GAP = regex.compile(rf"[ \t]*+{FILLER}[ \t{FILLER}]*+(?P<end>(?=[.,;:!?)\n]|$))?|[ \t]{{2,}}+")


def plain_text(value: str) -> str:
    """Return the text with lone surrogates replaced, which no file can hold."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def composed(name: str) -> str:
    """Return the name of a file or document as it is compared: without spaces around it, and in NFC.

    A Mac writes file names in NFD.
    """
    return (name if name.isascii() else unicodedata.normalize("NFC", name)).strip(" \t\xa0")


def scalar_text(value: Any) -> str | None:
    """Return a text, or a number or a boolean as JSON writes it (`12`, `0.5`, `true`); None for anything else.

    A whole double is written without its `.0`: of 12 and 0.5, a column or a program makes 12.0 and 0.5.
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, decimal.Decimal):
        return str(value) if value.is_finite() else None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value) if value.is_integer() and abs(value) < _EXACT_FLOAT else value
    return json.dumps(value) if isinstance(value, int | float) else None


def unify(text: str) -> str:
    """Return the text in NFKC with one kind of quotes, dashes, spaces and digits; case and accents stay."""
    if text.isascii():
        return text.replace("`", "'")
    text = _SQUARED.sub(lambda match: "2" if match[0] == "²" else "3", text)
    text = unicodedata.normalize("NFKC", text.translate(_SPELLINGS)).translate(_SPELLINGS)
    return text if text.isascii() else _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)


def fold(text: str) -> str:
    """Return a unified text without case, and without accents on Latin, Greek and Cyrillic letters.

    In Indic, Thai, Arabic and Hebrew script combining marks carry meaning and stay.
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return unicodedata.normalize("NFC", _STRIPPED.sub("", decomposed))


def mask_citations(answer: str, marks: Iterable[tuple[int, int]] = ()) -> str:
    """Return the answer with fillers in place of its citations; offsets stay the same.

    `marks` are half-open spans of further citations, whatever they look like; those outside the answer are ignored.
    """
    found = [(start, end) for start, end in marks if 0 <= start < end <= len(answer)]
    if "[" in answer:
        found.extend((_opening(answer, match.start()), match.end()) for match in _PLACES.finditer(answer))
    if "[" in answer or "【" in answer or "［" in answer:
        found.extend(match.span() for match in _MARKS.finditer(answer))
    if not found:
        return answer
    parts = []
    position = 0
    for start, end in sorted(found):
        if end > position:
            start = max(start, position)
            parts += [answer[position:start], FILLER * (end - start)]
            position = end
    return "".join([*parts, answer[position:]])


def unmarked(answer: str, marks: Iterable[tuple[int, int]] = ()) -> str:
    """Return the answer without citations, code fences, marks of Markdown and tags of HTML; offsets are lost."""
    bare = _EMPHASIS.sub("", _LINK.sub(r"\1", _without_tags(mask_citations(answer, marks))))
    # A mark between words is a gap; one before a full stop or at a line's end is nothing.
    return _GAP.sub(lambda match: " " if match["end"] is None else "", bare)


def _without_tags(text: str) -> str:
    if _HTML.search(text):
        text = _TAG.sub(lambda tag: tag["code"] or ("\n" if tag["block"] else ""), text)
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def plain(answer: str, marks: Iterable[tuple[int, int]] = ()) -> str:
    """Return what is compared of an answer: unified, without citations and markup."""
    return unify(unmarked(answer, marks))


def _opening(answer: str, end: int) -> int:
    """Return where the bracket opens whose file name ends here; brackets inside the name are balanced."""
    depth = 0
    for position in range(end - 1, max(end - _LONGEST_NAME, 0) - 1, -1):
        character = answer[position]
        if character == "\n":
            break
        if character == "]":
            depth += 1
        elif character == "[":
            if depth == 0:
                return position
            depth -= 1
    return end
