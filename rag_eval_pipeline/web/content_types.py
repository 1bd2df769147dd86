"""Bodies of documents and their content types.

The bytes decide first and their label second, in the same way for files and for responses. A UTF-8 label that the
bytes contradict is replaced by the likely charset.
"""

import codecs
import re
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from rag_eval_pipeline.errors import DocumentError

Kind = Literal["pdf", "html", "markdown", "text", "image"]

_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_TEXT_TYPES = {"application/json", "application/xml", "application/x-ndjson", "application/yaml"}
_TABLE_TYPES = {"text/csv", "text/tab-separated-values", "application/json", "application/x-ndjson"}
_TABLE_SUFFIXES = {".csv", ".tsv", ".json", ".jsonl"}
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
DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})  # the encodings of a response that `inflated` decodes
_GZIP_MAGIC = b"\x1f\x8b"
GIT_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_ZIP = b"PK\x03\x04"
_RICH_TEXT = b"{\\rtf"
_PDF_MAGIC = b"%PDF-"
_PDF_MAGIC_WITHIN_BYTES = 1024  # the specification allows bytes in front of it, and servers do send them
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset", re.I)
_META_WITHIN_BYTES = 1024  # as far as a browser looks for it


class TruncatedBody(Exception):
    """A compressed body ended before its end."""


async def inflated(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Decode gzip or zlib, at most a byte more than the limit at a time; gzip may have members (RFC 1952, 2.2).

    A body that is neither is a `zlib.error`, one without its end a `TruncatedBody`.
    """
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
    begun = False
    async for chunk in chunks:
        while chunk:
            if decoder.eof:
                while len(chunk) < len(_GZIP_MAGIC) and (more := await anext(chunks, b"")):
                    chunk += more
                if not chunk.startswith(_GZIP_MAGIC):
                    return  # padding behind the body, which browsers ignore as well
                decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
            begun = True
            yield decoder.decompress(chunk, limit + 1)
            chunk = decoder.unconsumed_tail or decoder.unused_data
    if begun and not decoder.eof:
        raise TruncatedBody


@dataclass(frozen=True, slots=True)
class Body:
    """What a document is made from.

    Args:
        url: The address that the page is shown at; links are printed relative to it.
        charset: For the browser; None if the bytes state it themselves.
        folder: Its files are served to the page; None if the body was fetched or is not a file.
    """

    kind: Kind
    data: bytes
    url: str
    charset: str | None = None
    folder: Path | None = None
    final_url: str | None = None
    flags: tuple[str, ...] = ()


def file_body(data: bytes, path: Path, url: str) -> Body:
    """Return the body of a local file, which is shown under a URL together with the files beside it."""
    return _body(sniff(data, suffix=path.suffix.lower()), data, url, None, folder=path.parent)


def fetched_body(data: bytes, content_type: str, url: str) -> Body:
    """Return the body of a response."""
    media_type, _, parameters = content_type.partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    media_type = media_type.strip().lower()
    # A page may be about a file: `wiki/File:X.pdf`.
    suffix = "" if media_type in _HTML_TYPES else PurePosixPath(urlsplit(url).path).suffix.lower()
    if (media_type == "application/pdf" or suffix == ".pdf") and data.strip() and not is_pdf(data):
        raise DocumentError("content_mismatch", f"{url} should be a PDF and has no %PDF- at its start")
    if (media_type in _TABLE_TYPES or suffix in _TABLE_SUFFIXES) and _HTML_START.match(data[:4096]):
        raise DocumentError("content_mismatch", f"{url} should be {media_type or suffix} and is an HTML page")
    return _body(sniff(data, media_type=media_type), data, url, charset[1].lower() if charset else None, final_url=url)


def sniff(data: bytes, *, media_type: str = "", suffix: str = "") -> Kind:
    """Return what bytes are: PDF or picture by their magic, else by label, else by how they begin.

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
    # A drawing that is labelled as text is shown as source.
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


def is_pdf(data: bytes) -> bool:
    """Whether bytes are a PDF by their magic."""
    return _PDF_MAGIC in data[:_PDF_MAGIC_WITHIN_BYTES]


def image_type(data: bytes) -> str | None:
    """Return the media type of a picture that browsers show, by how its bytes begin; None for anything else."""
    for media_type, start in _IMAGE_STARTS.items():
        if start.match(data):
            return media_type
    return _SVG_TYPE if _SVG_START.match(data[:4096]) else None


def decode_text(body: Body) -> str:
    """Return plain text as a string, without a byte order mark; undecodable bytes become U+FFFD."""
    charset = "utf-8-sig" if body.charset in (None, "utf-8") else body.charset
    try:
        return body.data.decode(charset, "replace")
    except (LookupError, UnicodeError):  # unknown, or a codec of Python's own that cannot decode: `undefined`, `idna`
        return body.data.decode(_utf8_or_windows(body.data), "replace").removeprefix("\ufeff")


def _body(
    kind: Kind, data: bytes, url: str, charset: str | None, *, folder: Path | None = None, final_url: str | None = None
) -> Body:
    flags: tuple[str, ...] = ()
    states_itself = kind == "html" and charset is None and _META_CHARSET.search(data[:_META_WITHIN_BYTES]) is not None
    if kind in ("html", "markdown", "text") and not states_itself:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            charset = "utf-16"
        elif charset in (None, "utf-8", "utf8"):
            # A browser would read an unlabelled page as windows-1252, and most of them are UTF-8.
            labelled, charset = charset, _utf8_or_windows(data)
            flags = ("charset_repaired",) if labelled and charset != "utf-8" else ()
        elif not (_is_known(charset) or data.isascii()) and _utf8_or_windows(data) == "utf-8":
            charset, flags = "utf-8", ("charset_repaired",)  # a browser would take it for windows-1252
    return Body(kind, data, url, charset, folder, final_url, flags)


def _is_known(charset: str) -> bool:
    try:
        return codecs.lookup(charset) is not None
    except LookupError:
        return False


def _utf8_or_windows(data: bytes) -> str:
    """Return the likelier of the two; real pages have a few broken sequences among thousands of good ones."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return "windows-1252" if broken and 2 * broken > sum(not char.isascii() for char in text) else "utf-8"
