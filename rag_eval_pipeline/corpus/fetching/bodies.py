"""Bodies of documents: bytes, what they are, and the address they are shown under.

What bytes are is decided by the bytes first and by their label second, in the same way for files and for answers of
servers. A charset that the bytes contradict is replaced by the one that they speak for.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote, urlsplit

from rag_eval_pipeline.corpus.documents import DocumentError, PlannedDocument
from rag_eval_pipeline.corpus.text.pdf import is_pdf
from rag_eval_pipeline.errors import MACHINE_ERRORS

Kind = Literal["pdf", "html", "markdown", "text", "image"]

_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_TEXT_TYPES = {"application/json", "application/xml", "application/x-ndjson", "application/yaml"}
_UNSTATED_TYPES = {"", "application/octet-stream", "binary/octet-stream", "application/x-download"}
_HTML_SUFFIXES = {".html", ".htm", ".xhtml"}
_MARKDOWN_TYPE = "text/markdown"
_MARKDOWN_SUFFIXES = {".md", ".markdown"}
_SVG_TYPE = "image/svg+xml"
_SVG_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml.*?\?>\s*)?(?:<!--.*?-->\s*)*(?:<!doctype\s+svg.*?>\s*)?<svg\b", re.I | re.S
)
_IMAGE_STARTS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.S),
}
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta)\b", re.I | re.S
)
GIT_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_ZIP = b"PK\x03\x04"
_RICH_TEXT = b"{\\rtf"
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset", re.I)
_META_WITHIN_BYTES = 1024  # as far as a browser looks for it


@dataclass(frozen=True, slots=True)
class Body:
    """What a document is made from.

    Args:
        kind: What the bytes are.
        data: As fetched or read.
        url: The address the page is shown under; links are printed relative to it.
        charset: To be told to the browser; None when the bytes say it themselves.
        folder: Files in it are served to the page; None when the body was fetched or is no file.
        final_url: After redirects; None when nothing was fetched.
        flags: What had to be done (`charset_repaired`).
    """

    kind: Kind
    data: bytes
    url: str
    charset: str | None = None
    folder: Path | None = None
    final_url: str | None = None
    flags: tuple[str, ...] = ()


def local_body(document: PlannedDocument) -> Body:
    """The body of a document that need not be fetched.

    Raises:
        DocumentError: `file_missing`, `empty_body`, `unsupported_type`.
        OSError: An error of the machine, which says nothing of the document.
    """
    url = document.url or f"http://document.invalid/{quote(document.key, safe='', errors='replace')}"
    if document.body == "file":
        if document.path is None:
            raise DocumentError("file_missing", "the document names no file")
        try:
            data = document.path.read_bytes()
        except OSError as error:
            if error.errno in MACHINE_ERRORS:
                raise
            raise DocumentError("file_missing", f"{document.path.name}: {error.strerror}") from error
        kind = sniff(data, suffix=document.path.suffix.lower())
        return _body(kind, data, url, None, folder=document.path.parent)
    data = (document.content or "").encode("utf-8", "replace")
    if not data.strip():
        raise DocumentError("empty_body", "the document has no content")
    kind = document.body if document.body in ("html", "markdown") else "text"
    return Body(kind, data, url, charset="utf-8")


def fetched_body(data: bytes, content_type: str, url: str) -> Body:
    """The body that a server answered with.

    Raises:
        DocumentError: `empty_body`, `unsupported_type`, `content_mismatch`.
    """
    media_type, _, parameters = content_type.partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    media_type = media_type.strip().lower()
    # A page may be about a file: `wiki/File:X.pdf`.
    is_called_pdf = PurePosixPath(urlsplit(url).path).suffix == ".pdf" and media_type not in _HTML_TYPES
    promised = media_type == "application/pdf" or is_called_pdf
    if promised and data.strip() and not is_pdf(data):
        raise DocumentError("content_mismatch", f"{url} should be a PDF and has no %PDF- at its start")
    return _body(sniff(data, media_type=media_type), data, url, charset[1].lower() if charset else None, final_url=url)


def sniff(data: bytes, *, media_type: str = "", suffix: str = "") -> Kind:
    """What bytes are: PDF or picture by their magic, else by label, else by how they begin.

    Raises:
        DocumentError: `empty_body`, `unsupported_type`.
    """
    if not data.strip():
        raise DocumentError("empty_body", "the body is empty")
    if is_pdf(data):
        return "pdf"
    if data.startswith(GIT_LFS_POINTER):
        raise DocumentError("unsupported_type", "a Git LFS pointer, not the file itself; run git lfs pull")
    if data.startswith(_ZIP):
        raise DocumentError("unsupported_type", "an office document or another ZIP file; save it as PDF, HTML or text")
    if data.startswith(_RICH_TEXT):
        raise DocumentError("unsupported_type", "an RTF document; save it as PDF, HTML or text")
    if suffix == ".pdf":
        raise DocumentError("pdf_damaged", "the file is called .pdf and has no %PDF- at its start")
    # What is labelled as text shows its source, be it a drawing's.
    if media_type == _SVG_TYPE or suffix == ".svg" or image_type(data) not in (None, _SVG_TYPE):
        return "image"
    if media_type in _HTML_TYPES or suffix in _HTML_SUFFIXES:
        return "html"
    if media_type == _MARKDOWN_TYPE or suffix in _MARKDOWN_SUFFIXES:
        return "markdown"
    if media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+json", "+xml")):
        return "text"
    if media_type in _UNSTATED_TYPES and _HTML_START.match(data[:4096]):
        return "html"
    if media_type in _UNSTATED_TYPES and image_type(data) is not None:
        return "image"
    if media_type in _UNSTATED_TYPES and b"\0" not in data:
        return "text"
    raise DocumentError(
        "unsupported_type", f"neither PDF nor HTML, text or picture: {media_type or suffix or 'binary data'}"
    )


def image_type(data: bytes) -> str | None:
    """The media type of a picture that a browser shows, by how its bytes begin; None for anything else."""
    for media_type, start in _IMAGE_STARTS.items():
        if start.match(data):
            return media_type
    return _SVG_TYPE if _SVG_START.match(data[:4096]) else None


def decode_text(body: Body) -> str:
    """Plain text as a string, without a byte order mark; bytes that its charset does not know are U+FFFD."""
    charset = "utf-8-sig" if body.charset in (None, "utf-8") else body.charset
    try:
        return body.data.decode(charset, "replace")
    except (LookupError, UnicodeError):  # no charset, or one of Python's own that cannot be used: `undefined`, `idna`
        return body.data.decode("utf-8-sig", "replace")


def _body(
    kind: Kind, data: bytes, url: str, charset: str | None, *, folder: Path | None = None, final_url: str | None = None
) -> Body:
    flags: tuple[str, ...] = ()
    states_itself = kind == "html" and charset is None and _META_CHARSET.search(data[:_META_WITHIN_BYTES]) is not None
    if kind in ("html", "markdown", "text") and not states_itself:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            charset = "utf-16"
        elif charset in (None, "utf-8", "utf8"):
            # A browser would take an unlabelled page for windows-1252, and most of them are UTF-8.
            labelled, charset = charset, _utf8_or_windows(data)
            flags = ("charset_repaired",) if labelled and charset != "utf-8" else ()
    return Body(kind, data, url, charset, folder, final_url, flags)


def _utf8_or_windows(data: bytes) -> str:
    """The likelier of the two; saved pages of real sites hold a few broken sequences among thousands of good ones."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return "windows-1252" if broken and 2 * broken > sum(not char.isascii() for char in text) else "utf-8"
