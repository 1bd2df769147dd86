"""Documents of the corpus: `PlannedDocument` before it is made, `CorpusDocument` as a row of the manifest."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rag_eval_pipeline.errors import MACHINE_ERRORS, DocumentError
from rag_eval_pipeline.web.content_types import Body, Kind, file_body

BodyKind = Literal["url", "file", "html", "markdown", "text"]
Drift = Literal["changed", "gone", "unchecked"]


@dataclass(frozen=True, slots=True)
class FileName:
    """One name of a document in the corpus folder.

    Args:
        url: As written in the source, fragment included; None for documents without URL.
        flags: How the name differs from the plain stem: `naming.NAME_FLAGS`.
    """

    name: str
    url: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document that is fetched and rendered once, and stored under each of its names.

    Args:
        key: `naming.document_key` of its URL, else its name.
        names: URLs that differ only in their fragment give one document several names.
        url: The URL to fetch, or the address a local body is shown under; None for documents without URL.
        path: Absolute; only with `body="file"`.
        content: HTML, Markdown or plain text; only with `body="html"`, `"markdown"` or `"text"`.
    """

    key: str
    names: tuple[FileName, ...]
    body: BodyKind
    url: str | None = None
    path: Path | None = None
    content: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A row of the manifest `documents.parquet`: one file name, and what is known of the file.

    Args:
        key: As of its `PlannedDocument`.
        url: As written in the source; None for documents without URL.
        final_url: After redirects; None if nothing was fetched.
        flags: What naming or rendering had to do (`collision`, `load_timeout`, `js_off`, `moved_by_script`, ...).
        origin: `kept` is a publisher's PDF byte for byte, `rendered` a page printed by the browser, `missing` a
            document without file; then `error_code` and `error` say why.
        body_sha256: Of the bytes that were fetched or read. A missing document has it only if its page hangs while it
            is printed, so that it is not tried again.
        pdf_sha256: None if missing.
        renderer: Fingerprint of browser, fonts and options; None unless rendered, or timed out.
        images_drawn: Requested images that had arrived when the page was printed.
        words_seen: Words that a person can see on the page; 0 unless rendered from HTML or Markdown.
        words_printed: How many of them the PDF has.
        shown_url: The address that a local body was rendered under, because its links are printed with it.
        resources: Files beside the body that the page requested, each as `<sha256> <relative path>`, with `-` for an
            absent one.
        seconds: Time to fetch and render; 0.0 if unchanged. Not in the manifest, whose bytes depend on the inputs only.
        etag: This field and the next four describe the page on the web and not the file; they are stored in `web.json`.
        drift: Whether the page's text has `changed` since it was accepted, the page is `gone`, or the last check
            failed, `unchecked`.
        drift_sha256: Of the changed body.
    """

    key: str
    file_name: str
    url: str | None
    final_url: str | None
    flags: tuple[str, ...]
    origin: Literal["rendered", "kept", "missing"]
    body_sha256: str | None
    pdf_sha256: str | None
    renderer: str | None
    pages: int
    images_expected: int = 0
    images_drawn: int = 0
    words_seen: int = 0
    words_printed: int = 0
    shown_url: str | None = None
    resources: tuple[str, ...] = ()
    seconds: float = 0.0
    etag: str | None = None
    last_modified: str | None = None
    drift: Drift | None = None
    drift_sha256: str | None = None
    drift_reason: str | None = None
    error_code: str | None = None
    error: str | None = None


def local_body(document: PlannedDocument) -> Body:
    """Return the body of a document that need not be fetched.

    Raises:
        DocumentError: `file_missing`, `empty_body`, `unsupported_type`.
        OSError: An error of the machine and not of the document.
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
        return file_body(data, document.path, url)
    data = (document.content or "").encode("utf-8", "replace")
    if not data.strip():
        raise DocumentError("empty_body", "the document has no content")
    kind: Kind = document.body if document.body in ("html", "markdown") else "text"
    return Body(kind, data, url, charset="utf-8")


NO_TEXT = "pdf_no_text"  # a flag and no error: a system that reads images may answer from a scanned document


HIDDEN_SHOWN = "hidden_text_shown"  # of tabs, or of what a script would have shown


WORDS_SHARE = 0.9  # of a page's words; a page whose PDF has fewer is tried at a smaller scale, and is listed
