"""The documents of a benchmark by every way in which a question may name them: URL, name, file.

A document is known from its row in the `documents` query, from a folder that a `files:` table lists, or from its URL
alone. Documents that an accepted question uses are planned, and those that have a row with a body.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from rag_eval_pipeline.conversion.mapping import MappedRow
from rag_eval_pipeline.conversion.questions import (
    ESCAPED_AMPERSAND,
    NamedContext,
    check_url,
    unescaped_url,
)
from rag_eval_pipeline.corpus.documents import BodyKind, FileName, PlannedDocument
from rag_eval_pipeline.corpus.naming import NameIdentity, NameRequest, assign_names, document_key
from rag_eval_pipeline.corpus.text.alignment import fold
from rag_eval_pipeline.errors import DocumentError, InputError, counted, did_you_mean
from rag_eval_pipeline.sources.archive import is_wanted
from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.sources.source_files import SourceFiles
from rag_eval_pipeline.text.folding import WHOLE_DOUBLE, composed, scalar_text
from rag_eval_pipeline.web.content_types import decode_text, file_body

BODIES: tuple[BodyKind, ...] = ("file", "html", "markdown", "text")
WILDCARDS = re.compile(r"[*?]")  # of a glob in `contexts.file`; brackets alone are part of a name
SUGGESTIONS_MAX = 20  # unknown names for which like ones are looked for


@dataclass(slots=True)
class Document:
    """A document before it has file names."""

    key: str  # unique; becomes `PlannedDocument.key`
    body: BodyKind
    name: str | None = None  # of documents without URL
    url: str | None = None  # its own, or the first that a question used
    path: Path | None = None
    content: str | None = None
    given: dict[str, None] = field(default_factory=dict)  # URLs by which rows of `documents` name it
    used: dict[str, None] = field(default_factory=dict)  # URLs by which questions name it, as written
    more: dict[str, None] = field(default_factory=dict)  # further bodies, of other rows with the same URL
    is_planned: bool = True
    is_read: bool = False  # whether `content` is the text of the file, if it has one

    def text(self) -> str | None:
        """Return the source's own text, in which its offsets count; None for HTML, PDF and pages to be fetched."""
        if self.content is None and not self.is_read:
            self.content = text_of_file(self.body, self.path)
            self.is_read = True
        return self.content if self.body != "html" else None


def text_of_file(body: BodyKind, path: Path | None) -> str | None:
    """Return the characters of a text file as they are printed, line ends included; None for other bodies."""
    if body != "file" or path is None or not path.is_file():
        return None
    try:
        read = file_body(path.read_bytes(), path, path.as_uri())
    except DocumentError:  # it is reported when the document is made
        return None
    return decode_text(read) if read.kind in ("text", "markdown") else None


class DocumentIndex:
    """Documents by key, in the order in which they get their names.

    With `fetch_unnamed`, documents that are to be fetched are planned although no question names them.
    """

    def __init__(self, *, fetch_unnamed: bool = False) -> None:
        self._fetch_unnamed = fetch_unnamed
        self.documents: dict[str, Document] = {}
        self._urls: dict[str, str] = {}  # `document_key` of a URL -> key of its document
        self._used_urls: dict[str, Document] = {}  # by URL as written
        self._names: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}
        self._stems: dict[str, list[str]] = {}  # names without their ending
        self._folded: dict[str, list[str]] = {}  # files by their names without case; made when one is not found
        self._composed: dict[str, str] = {}  # names in NFC -> key, for those that are spelled otherwise
        self._globs: dict[str, list[str]] = {}  # the paths that a glob fits
        self._suggestions = 0
        self.escaped_urls = 0  # rows of `documents` whose URL had `&amp;`

    def add_row(self, origins: SourceFiles, row: MappedRow) -> None:
        """Add a row of the `documents` query.

        Raises:
            RowError: `bad_document`, `bad_url`, `path_outside`, `duplicate_document`.
        """
        if row.error is not None:
            raise row.error
        values = {name: value for name, value in row.values.items() if value is not None}
        bodies = [name for name in BODIES if name in values]
        if len(bodies) > 1:
            expected = "url or name, or both, and at most one of file, html, markdown, text"
            raise RowError("bad_document", "documents", expected, sorted(values))
        for name in ("url", "name", *bodies):
            if name in values and not scalar_text(values[name]):
                raise RowError("bad_document", f"documents.{name}", "text", values[name])
        values = {name: scalar_text(value) or "" for name, value in values.items()}
        if ESCAPED_AMPERSAND in values.get("url", ""):
            values["url"] = unescaped_url(values["url"])
            self.escaped_urls += 1
        document = self._document_of(origins, values, bodies[0] if bodies else "url")
        document.is_planned = document.body != "url" or self._fetch_unnamed
        known = self._known(document.key, is_url=document.url is not None)
        if known is None:
            self._add(document)
        elif (known.body, known.path, known.content) == (document.body, document.path, document.content):
            if document.url is not None:
                known.given.setdefault(document.url)
        elif document.url is not None and document.content and known.content and known.body == document.body:
            known.given.setdefault(document.url)
            known.more.setdefault(document.content)
        else:
            raise RowError("duplicate_document", "documents", "one body for a document", document.key)
        alias = values.get("name")
        if document.url is not None and alias is not None:
            key = (known or document).key
            self._composed.setdefault(composed(alias), key)
            if self._names.setdefault(alias, key) != key:
                raise RowError("duplicate_document", "documents.name", "one document for a name", alias)

    def add_files(self, files: Mapping[str, Path]) -> None:
        """Add the files of a `files:` table; they become documents if a question names them."""
        for file, path in files.items():
            if file not in self._names:
                self._add(Document(file, "file", name=PurePosixPath(file).name, path=path, is_planned=False))

    def plan_files(self) -> None:
        """Plan all files of `files:` tables, although no question names them; each file once."""
        known = {document.path for document in self.documents.values() if document.is_planned}
        for document in self.documents.values():
            if document.body == "file" and document.path not in known:
                document.is_planned = True
                known.add(document.path)

    def resolve(self, context: NamedContext) -> tuple[NamedContext, Document | None]:
        """Return a context with its gold text and its document; a URL without a row is a document to be fetched.

        Raises:
            RowError: `unknown_document`, `ambiguous_file`, `span_mismatch`, `bad_span`.
        """
        if context.url is not None:
            document = self._url_document(context.url)
        elif context.document is not None:
            name = composed(context.document)
            key = self._names.get(context.document) or self._composed.get(name)
            if key is None and (whole := WHOLE_DOUBLE.fullmatch(name)) is not None:
                key = self._names.get(whole[1])
            if key is not None:
                document = self.documents[key]
            else:
                document = self._by_file(context.document, "contexts.document", "the name of a document")
        elif context.file is not None:
            expected = "a file of the `documents` query or of a `files:` table"
            document = self._by_file(context.file, "contexts.file", expected)
        else:
            return context, None
        return (context if context.start is None else _with_text(context, document)), document

    def expanded(self, context: NamedContext) -> list[NamedContext]:
        """Return a context for each file that a glob fits; the context itself if its file is no glob.

        Raises:
            RowError: `ambiguous_file`, for a gold text and several files.
        """
        glob = context.file
        if glob is None or composed(glob) in self._files or not WILDCARDS.search(glob):
            return [context]
        if glob not in self._globs:
            paths = sorted({str(d.path) for d in self.documents.values() if d.path is not None})
            self._globs[glob] = [path for path in paths if is_wanted(path, f"**/{glob}")]
        found = self._globs[glob]
        if len(found) > 1 and (context.text is not None or context.page is not None):
            expected = f"a glob that fits one file, because the context has a place in it; it fits {len(found)}"
            raise RowError("ambiguous_file", "contexts.file", expected, glob)
        return [msgspec.structs.replace(context, file=path) for path in found] or [context]

    def use_url(self, url: str) -> None:
        """Plan the document that an accepted question names by its URL."""
        if url in self._used_urls:
            return
        found = self._url_document(url)
        document = self.documents.setdefault(found.key, found)
        document.is_planned = True
        document.used.setdefault(url)
        self._urls.setdefault(document_key(url), document.key)
        self._used_urls[url] = document

    def planned(
        self, pinned: Mapping[NameIdentity, str] | None, *, strict: bool
    ) -> tuple[list[PlannedDocument], Mapping[tuple[str, str | None], str]]:
        """Return the documents with their file names, and the name of each (key, URL as written).

        A document is stored under the URLs by which questions name it; one that no question names, under its own.
        """
        chosen = [document for document in self.documents.values() if document.is_planned]
        urls: list[Sequence[str | None]] = [list(document.used or document.given) or [None] for document in chosen]
        requests = [NameRequest(d.key, url, d.name) for d, own in zip(chosen, urls, strict=True) for url in own]
        assigned = assign_names(requests, pinned, strict=strict)
        names = {(request.key, request.url): name for request, name in zip(requests, assigned, strict=True)}
        planned = []
        for document, own in zip(chosen, urls, strict=True):
            distinct: dict[str, FileName] = {}
            for url in own:
                name = names[document.key, url]
                distinct.setdefault(name.name, name)
            is_inline = document.body in {"html", "markdown", "text"}
            content = "\n\n".join([document.content or "", *document.more]) if is_inline else None
            place = (document.body, document.url, document.path)
            planned.append(PlannedDocument(document.key, tuple(distinct.values()), *place, content))
        return planned, {request: name.name for request, name in names.items()}

    @property
    def unnamed_urls(self) -> int:
        """The number of documents in `documents` that would have to be fetched and that no question uses."""
        return sum(document.body == "url" and not document.is_planned for document in self.documents.values())

    def joined_note(self) -> str | None:
        """Return how many URLs have several bodies; None without any."""
        joined = [document for document in self.documents.values() if document.more]
        if not joined:
            return None
        bodies = sum(1 + len(document.more) for document in joined)
        urls = counted(len(joined), "URL")
        return (
            f"documents: rows have {bodies} different bodies for {urls}; the bodies of one URL are "
            f"joined in their order. The first is {joined[0].url}."
        )

    def own_urls(self) -> dict[str, str | None]:
        """Return by key the URL under which a document is stored when a question names it in another way."""
        return {key: next(iter(document.used), document.url) for key, document in self.documents.items()}

    def _document_of(self, origins: SourceFiles, values: Mapping[str, str], body: BodyKind) -> Document:
        url, name, file = values.get("url"), values.get("name"), values.get("file")
        path = _body_path(origins, file) if file is not None else None
        if url is not None:
            check_url(url, "documents.url")
            content = None if body == "file" else values.get(body)
            return Document(document_key(url), body, None, url, path, content, {url: None})
        if file is not None:
            # The row's own name is how contexts may call it; the file on disk keeps the basename it had.
            return Document(name or file, "file", PurePosixPath(file).name, None, path)
        if name is None or body == "url":
            expected = "a url, or a name with html, markdown or text, or a file"
            raise RowError("bad_document", "documents", expected, sorted(values))
        return Document(name, body, name, None, None, values.get(body))

    def _url_document(self, url: str) -> Document:
        if url in self._used_urls:
            return self._used_urls[url]
        key = document_key(url)
        known = self._known(key, is_url=True)
        return known or Document(self._free_key(key, is_url=True), "url", url=url, is_planned=False)

    def _known(self, value: str, *, is_url: bool) -> Document | None:
        key = (self._urls if is_url else self._names).get(value)
        return None if key is None else self.documents[key]

    def _free_key(self, value: str, *, is_url: bool) -> str:
        """Return a key for a new document; if a name is spelled like a URL, the later of the two gets a prefix."""
        while value in self.documents:
            value = f"{'//' if is_url else './'}{value}"
        return value

    def _add(self, document: Document) -> None:
        value, is_url = document.key, document.url is not None
        document.key = self._free_key(value, is_url=is_url)
        self.documents[document.key] = document
        (self._urls if is_url else self._names)[value] = document.key
        if not is_url:
            self._composed.setdefault(composed(value), document.key)
        if document.path is not None:
            for name in {composed(document.path.name), composed(document.path.as_posix())}:
                self._files.setdefault(name, []).append(document.key)
            self._stems.setdefault(composed(document.path.stem), []).append(document.key)

    def _by_file(self, file: str, field: str, expected: str) -> Document:
        """Return the document with this path or basename, or with this basename and an ending."""
        name = composed(file)
        keys = self._files.get(name) or [
            key
            for key in self._files.get(PurePosixPath(name).name, ())
            if composed(str(self.documents[key].path)).endswith(f"/{name}")
        ]
        keys = keys or self._stems.get(name) or self._in_other_case(name)
        bodies = {self.documents[key].path for key in keys}
        if not keys:
            raise RowError("unknown_document", field, f"{expected}{self._suggestion(name)}", file)
        if len(bodies) > 1:
            raise RowError("ambiguous_file", field, "a name that only one file has", file)
        return self.documents[keys[0]]

    def _in_other_case(self, name: str) -> list[str]:
        """Return the documents whose path or name is this but for its case, as Windows and a Mac compare names."""
        if not self._folded:
            for known, keys in self._files.items():
                self._folded.setdefault(known.casefold(), []).extend(keys)
        return self._folded.get(name.casefold(), [])

    def _suggestion(self, name: str) -> str:
        """Return which known names are like an unknown one, for the first few: a search takes long among thousands."""
        self._suggestions += 1
        known = {*self._names, *self._files} if self._suggestions <= SUGGESTIONS_MAX else ()
        question = did_you_mean(name, known)
        return f". {question}" if question is not None else ""


def _body_path(origins: SourceFiles, file: str) -> Path:
    """Return the file, which need not exist: then the corpus lists the document as missing."""
    try:
        return origins.local(file)
    except InputError as error:
        if error.code == "missing_file":
            return origins.paths.source / file
        raise RowError(error.code, "documents.file", error.expected, file) from None


def _with_text(context: NamedContext, document: Document) -> NamedContext:
    """Return the context with its text: its own, or the one that its offsets cut from the source's body."""
    body = document.text() if context.start is not None else None
    if document.more:
        raise RowError("bad_span", "contexts.start", "no offsets into a document that several rows make", context.start)
    if body is None or context.start is None or context.end is None:
        return context
    if context.end > len(body):
        raise RowError("bad_span", "contexts.end", f"at most {len(body)}, the length of the body", context.end)
    cut = body[context.start : context.end]
    # White space, case, quotes and the like may differ.
    folded = "" if context.text is None else fold(context.text).text
    if context.text not in (None, cut) and not (folded and folded == fold(cut).text):
        expected = f"the body's text from {context.start} to {context.end}, {cut!r}"
        raise RowError("span_mismatch", "contexts.text", expected, context.text)
    return context if context.text is not None else msgspec.structs.replace(context, text=cut)
