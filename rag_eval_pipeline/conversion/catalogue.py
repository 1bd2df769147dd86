"""The documents of a benchmark by every way in which a question may name them: URL, name, file.

A document is known by its row in the `documents` query, by being in a folder that a `files:` table lists, or by its
URL alone. Documents that an accepted question uses are planned, and those that have a row with a body. A document that
no question uses is fetched only if the benchmark sets `unnamed_urls: fetch`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rag_eval_pipeline.conversion.mapped import MappedRow
from rag_eval_pipeline.conversion.row_fault import RowFault
from rag_eval_pipeline.conversion.validation import NamedContext, check_url, scalar_text
from rag_eval_pipeline.corpus.documents import BodyKind, FileName, PlannedDocument
from rag_eval_pipeline.corpus.naming import NameIdentity, NameRequest, assign_names, document_key
from rag_eval_pipeline.corpus.text.folding import fold
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.origins import Origins

BODIES: tuple[BodyKind, ...] = ("file", "html", "markdown", "text")
# Files whose text is their body, so that source offsets can be checked against it.
TEXT_SUFFIXES = frozenset({".txt", ".md", ".markdown"})


@dataclass(slots=True)
class Entry:
    """A document before it has file names.

    Args:
        key: `PlannedDocument.key`, which no other document has.
        name: Of documents without URL.
        url: Its own, or the first that a question used.
        given: URLs by which rows of `documents` name it; a page listed under two fragments has two.
        used: URLs by which questions name it, as written, in order of appearance.
    """

    key: str
    body: BodyKind
    name: str | None = None
    url: str | None = None
    path: Path | None = None
    content: str | None = None
    given: dict[str, None] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    is_planned: bool = True

    def same_body(self, other: "Entry") -> bool:
        """Whether both have the same bytes to show for it."""
        return (self.body, self.path, self.content) == (other.body, other.path, other.content)

    def text(self) -> str | None:
        """The source's own text, in which its offsets count; None for HTML, PDF and what is still to be fetched."""
        if self.content is None:
            self.content = text_of_file(self.body, self.path)
        return self.content if self.body != "html" else None


def text_of_file(body: BodyKind, path: Path | None) -> str | None:
    """The text of a local body that is plain text; None for other files and for none."""
    if body != "file" or path is None or path.suffix not in TEXT_SUFFIXES or not path.is_file():
        return None
    return path.read_text("utf-8-sig", errors="replace")  # as it is printed


@dataclass(frozen=True, slots=True)
class Found:
    """A context and the document it is of; None for a gold text without document."""

    context: NamedContext
    entry: Entry | None


class Catalogue:
    """Documents by key, in the order in which they get their names.

    Args:
        fetch_unnamed: Whether documents that are to be fetched are planned although no question names them.
    """

    def __init__(self, *, fetch_unnamed: bool = False) -> None:
        self._fetch_unnamed = fetch_unnamed
        self.entries: dict[str, Entry] = {}
        self._urls: dict[str, str] = {}  # `document_key` of a URL -> key of its entry
        self._names: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}

    def add_row(self, origins: Origins, row: MappedRow) -> None:
        """A row of the `documents` query.

        Raises:
            RowFault: `bad_document`, `bad_url`, `path_outside`, `duplicate_document`.
        """
        if row.fault is not None:
            raise row.fault
        values = {name: value for name, value in row.values.items() if value is not None}
        bodies = [name for name in BODIES if name in values]
        if len(bodies) > 1 or ("url" in values and "name" in values):
            expected = "one of url, name and at most one of file, html, markdown, text"
            raise RowFault("bad_document", "documents", expected, sorted(values))
        for name in ("url", "name", *bodies):
            if name in values and not scalar_text(values[name]):
                raise RowFault("bad_document", f"documents.{name}", "text", values[name])
        values = {name: scalar_text(value) or "" for name, value in values.items()}
        entry = self._entry(origins, values, bodies[0] if bodies else "url")
        entry.is_planned = entry.body != "url" or self._fetch_unnamed
        known = self._known(entry.key, is_url=entry.url is not None)
        if known is None:
            self._add(entry)
        elif not known.same_body(entry):
            raise RowFault("duplicate_document", "documents", "one body for a document", entry.key)
        elif entry.url is not None:
            known.given.setdefault(entry.url)

    def add_files(self, files: Mapping[str, Path]) -> None:
        """Files of a `files:` table: documents if a question names them."""
        for file, path in files.items():
            if file not in self._names:
                self._add(Entry(file, "file", name=PurePosixPath(file).name, path=path, is_planned=False))

    def find(self, context: NamedContext) -> Found:
        """The document that a context names; a URL without a row is a document to be fetched.

        Raises:
            RowFault: `unknown_document`, `ambiguous_file`, `span_mismatch`, `bad_span`.
        """
        if context.url is not None:
            value = document_key(context.url)
            entry = self._known(value, is_url=True) or Entry(
                self._free_key(value, is_url=True), "url", url=context.url, is_planned=False
            )
        elif context.document is not None:
            if context.document not in self._names:
                raise RowFault("unknown_document", "contexts.document", "the name of a document", context.document)
            entry = self.entries[self._names[context.document]]
        elif context.file is not None:
            entry = self._by_file(context.file)
        else:
            return Found(context, None)
        return Found(_with_text(context, entry), entry)

    def use(self, found: Found) -> None:
        """Plans the document that an accepted question names."""
        if found.entry is None:
            return
        entry = self.entries.setdefault(found.entry.key, found.entry)
        entry.is_planned = True
        if found.context.url is not None:
            entry.used.setdefault(found.context.url)
            self._urls.setdefault(document_key(found.context.url), entry.key)

    def planned(
        self, pinned: Mapping[NameIdentity, str] | None, *, strict: bool
    ) -> tuple[list[PlannedDocument], Mapping[tuple[str, str | None], str]]:
        """Documents with their file names, and the name of each (key, URL as written).

        A document is stored under the URLs by which questions name it; one that no question names, under its own.

        Raises:
            InputError: `stem_collision`, only with `strict`.
        """
        entries = [entry for entry in self.entries.values() if entry.is_planned]
        urls: list[Sequence[str | None]] = [list(entry.used or entry.given) or [None] for entry in entries]
        requests = [
            NameRequest(entry.key, url, entry.name) for entry, own in zip(entries, urls, strict=True) for url in own
        ]
        names = dict(
            zip(
                ((request.key, request.url) for request in requests),
                assign_names(requests, pinned, strict=strict),
                strict=True,
            )
        )
        documents = []
        for entry, own in zip(entries, urls, strict=True):
            distinct: dict[str, FileName] = {}
            for url in own:
                name = names[entry.key, url]
                distinct.setdefault(name.name, name)
            content = entry.content if entry.body in {"html", "markdown", "text"} else None
            documents.append(
                PlannedDocument(entry.key, tuple(distinct.values()), entry.body, entry.url, entry.path, content)
            )
        return documents, {request: name.name for request, name in names.items()}

    @property
    def unnamed_urls(self) -> int:
        """Number of documents of the `documents` query that would have to be fetched and that no question uses."""
        return sum(entry.body == "url" and not entry.is_planned for entry in self.entries.values())

    def own_urls(self) -> dict[str, str | None]:
        """URL under which a document is stored when a question names it in another way, by key."""
        return {key: next(iter(entry.used), entry.url) for key, entry in self.entries.items()}

    def _entry(self, origins: Origins, values: Mapping[str, str], body: BodyKind) -> Entry:
        url, name, file = values.get("url"), values.get("name"), values.get("file")
        if url is not None:
            check_url(url, "documents.url")
        path = _body_path(origins, file) if file is not None else None
        if url is not None:
            return Entry(document_key(url), body, None, url, path, values.get(body), {url: None})
        if file is not None:
            # The row's own name is how contexts may call it; the file on disk keeps the basename it had.
            return Entry(name or file, "file", PurePosixPath(file).name, None, path)
        if name is None or body == "url":
            expected = "a url, or a name with html, markdown or text, or a file"
            raise RowFault("bad_document", "documents", expected, sorted(values))
        return Entry(name, body, name, None, None, values.get(body))

    def _known(self, value: str, *, is_url: bool) -> Entry | None:
        key = (self._urls if is_url else self._names).get(value)
        return None if key is None else self.entries[key]

    def _free_key(self, value: str, *, is_url: bool) -> str:
        """A key for a new document; where a name is spelt like a URL, the later of the two gets a prefix."""
        while value in self.entries:
            value = f"{'//' if is_url else './'}{value}"
        return value

    def _add(self, entry: Entry) -> None:
        value, is_url = entry.key, entry.url is not None
        entry.key = self._free_key(value, is_url=is_url)
        self.entries[entry.key] = entry
        (self._urls if is_url else self._names)[value] = entry.key
        if entry.path is not None:
            for name in {entry.path.name, entry.path.as_posix()}:
                self._files.setdefault(name, []).append(entry.key)

    def _by_file(self, file: str) -> Entry:
        """A document by the path or the basename of its file."""
        keys = self._files.get(file) or [
            key
            for key in self._files.get(PurePosixPath(file).name, ())
            if str(self.entries[key].path).endswith(f"/{file}")
        ]
        bodies = {self.entries[key].path for key in keys}
        if not keys:
            raise RowFault(
                "unknown_document", "contexts.file", "a file of the `documents` query or of a `files:` table", file
            )
        if len(bodies) > 1:
            raise RowFault("ambiguous_file", "contexts.file", "a file name that only one folder has", file)
        return self.entries[keys[0]]


def _body_path(origins: Origins, file: str) -> Path:
    """The file, which need not exist: then the corpus lists the document as missing."""
    try:
        return origins.local(file)
    except InputError as error:
        if error.code == "missing_file":
            return origins.paths.source / file
        raise RowFault(error.code, "documents.file", error.expected, file) from None


def _with_text(context: NamedContext, entry: Entry) -> NamedContext:
    """The context with its text; without one, the text that its offsets cut from the source's body.

    Raises:
        RowFault: `bad_span` beyond the body, `span_mismatch` when offsets and text disagree.
    """
    body = entry.text() if context.start is not None else None
    if body is None or context.start is None or context.end is None:
        return context
    if context.end > len(body):
        raise RowFault("bad_span", "contexts.end", f"at most {len(body)}, the length of the body", context.end)
    cut = body[context.start : context.end]
    if context.text is not None and not _is_same_text(context.text, cut):
        raise RowFault(
            "span_mismatch",
            "contexts.text",
            f"the body's text from {context.start} to {context.end}, {cut!r}",
            context.text,
        )
    return context if context.text is not None else context._replace(text=cut)


def _is_same_text(text: str, cut: str) -> bool:
    """Whether two texts differ in no more than white space, case, quotes and the like."""
    folded = fold(text).text
    return text == cut or (folded != "" and folded == fold(cut).text)
