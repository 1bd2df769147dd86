"""A document on its way into the corpus: what it is called, where its body comes from, what became of it.

`PlannedDocument` is made by conversion without touching the network; `CorpusDocument` is a row of the manifest,
made when the document was rendered, kept or could not be had (`DocumentError`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

BodyKind = Literal["url", "file", "html", "markdown", "text"]
Drift = Literal["changed", "gone", "unchecked"]


class DocumentError(Exception):
    """A document that could not be had; the others are not concerned.

    Args:
        code: One cause, one code (`http_404`, `egress_blocked`, `pdf_damaged`).
        message: The same in one line for a person.
        body_sha256: Of a body that is not to be tried again as long as it and the browser are the same.
    """

    def __init__(self, code: str, message: str, body_sha256: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.body_sha256 = body_sha256

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class FileName:
    """One name of a document in the corpus folder.

    Args:
        name: Exact basename, `.pdf` included.
        url: The URL as written in the source, fragment included; None for documents without URL.
        flags: What the naming rule had to do beyond the plain stem (`collision`, `truncated`, `escaped`,
            `empty_segment`, ...).
    """

    name: str
    url: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """One document: fetched and rendered once, stored under each of its names.

    Args:
        key: Its identity; of a URL: lower-case host, percent-decoded path, params and query; else the name.
        names: One or more; URLs that differ in their fragment only give one document several names.
        body: Where the bytes come from.
        url: The URL to fetch, or the address a local body is shown under; None for documents without URL.
        path: The local file, absolute; only with `body="file"`.
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
        key: Identity of the document; rows of one document share it, its hashes and its page count.
        file_name: Exact basename in the corpus folder.
        url: As written in the source; None for documents without URL.
        final_url: After redirects; None when nothing was fetched.
        flags: Of the name and of the rendering (`collision`, `load_timeout`, `js_off`, `moved_by_script`, ...).
        origin: `kept` is a publisher's PDF byte for byte, `rendered` a page printed by the browser, `missing` a
            document that could not be had; then `error` says why and the file does not exist.
        body_sha256: Of the bytes that were fetched or read; None when missing, but for a page that hangs while it is
            printed and so is not tried again.
        pdf_sha256: Of the file in the corpus; None when missing.
        renderer: Fingerprint of browser, fonts and options; None unless rendered, or hanging.
        pages: Number of sheets; 0 when missing.
        images_expected: Images the page asked for.
        images_drawn: Images that had arrived when it was printed.
        words_seen: Words that a person can see on the page; 0 when it was not rendered from HTML or Markdown.
        words_printed: Those of them that the PDF has.
        shown_url: The address that the page was rendered under, because its links are printed with it; None unless
            rendered from a local body.
        resources: Files beside the body that the page asked for, each as `<sha256> <relative path>`, with `-` for one
            that was not there.
        seconds: Time it took to fetch and render; 0.0 when taken over from an earlier conversion. Not in the manifest,
            whose bytes depend on the inputs only.
        etag: Of the version that was fetched, to ask whether there is another; None when the server named none. This
            and the next four are about the page on the web and not about the file: they are kept in `web.json`.
        last_modified: Of that version.
        drift: What became of the page since it was accepted: its text has `changed`, it is `gone`, or the last look at
            it failed, `unchecked`; None when the file still says what the page says.
        drift_sha256: Of the changed body.
        drift_reason: In one line for a person.
        error_code: `http_404`, `egress_blocked`, ...; None when the file is there.
        error: The same in one line for a person.
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
