"""Which document of a corpus a foreign name means: a file name, a path, a URL, or an id or a title that a map explains.

This is the only place that decides it. Names are compared percent-decoded, without case, and composed (NFC).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

from rag_eval_pipeline.corpus.naming import SUFFIX, document_key, folded, last_segment, parse_url, url_host, url_stem
from rag_eval_pipeline.errors import InputError, did_you_mean
from rag_eval_pipeline.storage.csv_tables import read_csv_table
from rag_eval_pipeline.web.urls import route_of

SOURCE_ENDINGS = frozenset({"md", "markdown", "txt", "html", "htm", "xhtml"})  # of files that are printed to PDF
MAP_COLUMNS = 2

_WEB = re.compile(r"(https?:)?//(?=.)", re.IGNORECASE)
# `en.wikipedia.org/wiki/Ada`, but not `../docs/Ada` or `C:/docs/Ada`.
_BARE_HOST = re.compile(r"([a-z0-9-]+\.)+[a-z]{2,}(:\d+)?/", re.IGNORECASE)


class DocumentNames:
    """The documents of a corpus by every name that a system may use for them.

    Args:
        aliases: Every exact name of a document -> its file name.
        sources: Path of each document that was made from a file -> its file name.
        urls: File name -> URL, of each document that has one.
        mapped: Id or title -> file name, as a user's map states.
    """

    def __init__(
        self,
        aliases: Mapping[str, str],
        *,
        sources: Mapping[str, str] | None = None,
        urls: Mapping[str, str] | None = None,
        mapped: Mapping[str, str] | None = None,
    ) -> None:
        self._aliases = aliases
        self._sources = sources or {}
        self._urls = urls or {}
        self._mapped = {folded(name.strip()): file for name, file in (mapped or {}).items()}
        self.exact = frozenset(aliases) | (mapped or {}).keys()

    def find(self, name: str) -> str | None:
        """Return the file name of the document that a name means; None if there is none or not only one.

        A mapped id counts first, whole or before its `#`. A web address means the document that was made from it, else
        the one on the same host that its last segment names; a document without URL by its last segment alone.
        `notes` means `notes.md.pdf`, unless the corpus has another `notes`. Of several files of one name, a path means
        the one whose own path has the same end.
        """
        if (mapped := self._mapped_file(name)) is not None:
            return mapped
        if (found := self.by_path(name)) is not None or (found := self._aliases.get(name)) is not None:
            return found
        if _WEB.match(name) or _BARE_HOST.match(name):
            return self._by_url(name if _WEB.match(name) else f"//{name}")
        # A file name in a corpus may contain a backslash and `%2F`, but never a slash.
        for text in dict.fromkeys((name, unquote(name))):
            last = text.rsplit("/", 1)[-1]
            if (found := self._by_name((text, last, last.rsplit("\\", 1)[-1]))) is not None:
                return found
        return None

    def by_path(self, name: str) -> str | None:
        """Return the document whose source's path ends like a name; None unless names of files are not enough."""
        if not self._namesakes or not ("/" in name or "\\" in name):
            return None
        *folders, last = _path_parts(name)
        ends = [
            (_common_end(folders, own), last == own_last, file)
            for (*own, own_last), file in self._namesakes.get(_bare(last), ())
        ]
        best = max((end[:2] for end in ends), default=(0, False))
        found = {file for *end, file in ends if tuple(end) == best}
        return found.pop() if best[0] and len(found) == 1 else None

    def namesakes(self, name: str) -> frozenset[str]:
        """Return the documents made from files of several folders that have this name."""
        if not self._namesakes:
            return frozenset()
        return frozenset(file for _, file in self._namesakes.get(_bare(_path_parts(name)[-1]), ()))

    def _mapped_file(self, name: str) -> str | None:
        if not self._mapped:
            return None
        key = folded(name.strip())
        found = self._mapped.get(key)
        return self._mapped.get(key.partition("#")[0].strip()) if found is None else found

    def _by_url(self, url: str) -> str | None:
        if (found := self._aliases.get(document_key(url))) is not None:
            return found
        segment = folded_name(last_segment(url))
        here = {file for own, file in self._by_segment.get(segment, ()) if _is_view_of(url, own)}
        if here:
            return here.pop() if len(here) == 1 else None
        found = self._by_name((url_stem(url), last_segment(url)))
        # `Ada.pdf`, where the corpus made the ending, can only be its own file, wherever that was copied to.
        is_copy = found is not None and segment == folded_name(found)
        url_of_found = self._urls.get(found or "")
        is_own_name = url_of_found is not None and folded_name(last_segment(url_of_found)) == segment
        return found if url_of_found is None or (is_copy and not is_own_name) else None

    def _by_name(self, candidates: Sequence[str]) -> str | None:
        for candidate in candidates:
            if (found := self._aliases.get(candidate)) is not None:
                return found
        keys = [folded_name(text) for text in candidates]
        files = {self._by_folded_name[key] for key in keys if key in self._by_folded_name}
        if not files:
            stems = [key.removesuffix(SUFFIX) for key in keys]
            files = {self._by_source_stem[stem] for stem in stems if stem in self._by_source_stem}
        return files.pop() if len(files) == 1 else None

    @cached_property
    def _namesakes(self) -> dict[str, list[tuple[list[str], str]]]:
        """Name of a file without its ending -> paths and documents, where files of several folders have it."""
        found: dict[str, list[tuple[list[str], str]]] = {}
        for path, file in self._sources.items():
            parts = _path_parts(path)
            found.setdefault(_bare(parts[-1]), []).append((parts, file))
        return {name: files for name, files in found.items() if len({file for _, file in files}) > 1}

    @cached_property
    def _by_segment(self) -> dict[str, list[tuple[str, str]]]:
        """Folded last segment -> URLs and documents."""
        found: dict[str, list[tuple[str, str]]] = {}
        for file, url in self._urls.items():
            found.setdefault(folded_name(last_segment(url)), []).append((url, file))
        return found

    @cached_property
    def _by_folded_name(self) -> dict[str, str]:
        """Folded name -> file name, for names that differ from all others by more than case and encoding."""
        return _unambiguous((folded_name(name), file) for name, file in self._aliases.items())

    @cached_property
    def _by_source_stem(self) -> dict[str, str]:
        """`notes` -> `notes.md.pdf`, for names without the ending of a source file that only one document has."""
        wholes = ((folded_name(name).removesuffix(SUFFIX), file) for name, file in self._aliases.items())
        return _unambiguous((stem, file) for whole, file in wholes if (stem := _bare(whole)) != whole)


def read_name_map(path: Path, files: DocumentNames) -> dict[str, str]:
    """Read a user's map: CSV with a header and two columns, an id or a title and the file of the corpus that it means.

    Raises:
        InputError: `missing_file`, `bad_csv`; `unknown_document`, `duplicate_id` with the row.
    """
    table = read_csv_table(path)
    if len(table.columns) != MAP_COLUMNS or files.find(table.columns[1]) is not None:
        expected = "a header, such as name,file, and two columns: an id or a title, and a file of the corpus"
        raise InputError("bad_csv", path, expected, found=",".join(table.columns))
    names: dict[str, str] = {}
    rows: dict[str, int] = {}
    id_column, file_column = table.columns
    for row in table.rows:
        name, file = row.cells[id_column].strip(), row.cells[file_column].strip()
        earlier = rows.setdefault(folded(name), row.number)
        if not name or earlier != row.number:
            expected = f"an id or a title that row {earlier} does not have" if name else "an id or a title"
            raise InputError("duplicate_id", path, expected, row=row.number, field=id_column, found=name)
        document = files.find(file)
        if document is None:
            expected = "a file of the benchmark's corpus"
            hint = did_you_mean(file, sorted(files.exact)) or 'For a map of each benchmark: names: "{benchmark}.csv".'
            raise InputError(
                "unknown_document", path, expected, row=row.number, field=file_column, found=file, hint=hint
            )
        names[name] = document
    return names


def folded_name(name: str) -> str:
    """Return a name without what differs between a URL, a file system and a framework: case and percent signs."""
    return folded(unquote(name))


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for name, file in pairs:
        found.setdefault(name, set()).add(file)
    return {name: next(iter(files)) for name, files in found.items() if len(files) == 1}


def _is_view_of(url: str, own: str) -> bool:
    """Return whether a URL may be another one of a document's page: on its host, with its query and route."""
    if url_host(url).removeprefix("www.") != url_host(own).removeprefix("www."):
        return False
    parts, own_parts = parse_url(url), parse_url(own)
    return own_parts.query in ("", parts.query) and route_of(own_parts.fragment) == route_of(parts.fragment)


def _path_parts(name: str) -> list[str]:
    """Return the folded parts of a path, the last one without the ending of the corpus."""
    parts = [part for part in folded_name(name).replace("\\", "/").split("/") if part] or [""]
    return [*parts[:-1], parts[-1].removesuffix(SUFFIX)]


def _bare(name: str) -> str:
    """Return a folded name without `.pdf` also without the ending of a source file."""
    stem, dot, ending = name.rpartition(".")
    return stem if stem and dot and ending in SOURCE_ENDINGS else name


def _common_end(parts: Sequence[str], others: Sequence[str]) -> int:
    same = (one == other for one, other in zip(reversed(parts), reversed(others), strict=False))
    return sum(1 for _ in takewhile(bool, same))
