"""Where the documents are: tables with one document a row, mirrors of web pages, and the files of the folder.

A `Target` knows which values name its documents, and what benchmark.yaml has to say for questions to find them.
"""

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from rag_eval_pipeline.corpus.naming import document_key
from rag_eval_pipeline.scaffold.profile import Column, DataFile, FolderProfile, Origin, identifier, literal
from rag_eval_pipeline.scaffold.roles import normalised
from rag_eval_pipeline.scaffold.writer import Guess

URL = re.compile(r"https?://[^\s<>\"\\]+")
LINKED_SHARE = 0.5  # of the values have to name a document; a benchmark may have a few dead links
MIRROR_SHARE = 0.9  # of a mirror's rows have a URL and a file that exists
TRIED_VALUES = 2_000

BODIES = "text contents content body passage_text passage document_text document html article page_content chunk"
TITLES = "title heading headline"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents as the keys `tables`, `documents` and `on_missing_document` of benchmark.yaml state them."""

    tables: dict[str, Origin] = field(default_factory=dict)
    documents: str | None = None
    on_missing_document: str | None = None
    guesses: tuple[Guess, ...] = ()


class Target(NamedTuple):
    """A set of documents that values can name.

    Args:
        field: The field of a context that names one: `document` or `file`.
        named: Makes the SQL of that field from the SQL of a value.
        share: Returns the share of the values that it knows.
        corpus: Returns its documents, given the values that name some.
        shown: A description of the values for users.
    """

    field: str
    named: Callable[[str], str]
    share: Callable[[Sequence[str]], float]
    corpus: Callable[[Sequence[str]], Corpus]
    shown: str


class DocumentTable(NamedTuple):
    """A relation with one document a row, named by its id or URL; `body_column` is `text`, `html` or `file`."""

    name: str
    file: DataFile
    key: Column
    body_column: str
    body_sql: str


def find_target(profile: FolderProfile, file: DataFile, values: Iterable[str]) -> Target | None:
    """Return the target that knows most of the values; None if none knows half of them."""
    tried = list(dict.fromkeys(values))[:TRIED_VALUES]
    found = [(target.share(tried), target) for target in targets(profile, file)] if tried else []
    best = max(found, key=lambda item: item[0], default=None)
    return best[1] if best is not None and best[0] >= LINKED_SHARE else None


def targets(profile: FolderProfile, file: DataFile) -> Iterator[Target]:
    """Yield everything that a column of a file can name."""
    for table in document_tables(profile, file):
        yield _table_target(table)
    if profile.documents:
        names = {known: path for path in profile.documents for known in (PurePosixPath(path).name, path)}
        yield _file_target(profile, names, "", "names of files")
        for suffix in sorted({PurePosixPath(path).suffix for path in profile.documents}):
            stems = {PurePosixPath(path).stem: path for path in profile.documents if path.endswith(suffix)}
            yield _file_target(profile, stems, suffix, f"names of {suffix} files without the suffix")


def document_tables(profile: FolderProfile, questions: DataFile) -> list[DocumentTable]:
    """Return the tables of documents, once for each column of unique ids."""
    # A table with URLs is a mirror: URLs are compared as pages, not as texts.
    return [
        table
        for file in profile.data
        if file is not questions
        for key in file.columns
        if key.is_unique and not _is_url(key) and (table := _document_table(profile, file, key, "documents"))
    ]


def mirrors(profile: FolderProfile, questions: DataFile) -> list[DocumentTable]:
    """Return the tables that map URLs to documents."""
    keys = [(file, next(filter(_is_url, file.columns), None)) for file in profile.data if file is not questions]
    found = [_document_table(profile, file, key, "mirror") for file, key in keys if key is not None]
    return [table for table in found if table is not None]


def files_corpus(profile: FolderProfile, matched: Sequence[str] = ()) -> Corpus:
    """Return the folder's documents, or those in the folders and with the suffixes of the matched ones."""
    mine = matched or profile.documents
    if not mine:
        return Corpus()
    tops = {_top_folder(name) for name in mine}
    suffixes = sorted({PurePosixPath(name).suffix for name in mine})
    top = tops.pop() if len(tops) == 1 else None

    def is_inside(name: str) -> bool:
        return PurePosixPath(name).suffix in suffixes and (top is None or _top_folder(name) == top)

    names = [name for name in profile.documents if is_inside(name)]
    depth = 1 if top else 0
    is_deep = top is None or any(name.count("/") > depth for name in names)
    ending = suffixes[0] if len(suffixes) == 1 else ""
    pattern = f"{glob.escape(top)}/" if top else ""
    pattern += f"{'**/' if is_deep else ''}*{glob.escape(ending)}"
    any_suffix = f"({'|'.join(map(re.escape, suffixes))})$"
    conditions = [] if ending else [f"regexp_matches(file, {literal(any_suffix)})"]
    stray = [n for n in profile.files if is_inside(n) and n not in names and (is_deep or n.count("/") == depth)]
    if stray:
        conditions.append(f"file NOT IN ({', '.join(map(literal, stray))})")
    documents = "SELECT file FROM docs" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
    text = f"documents: all {len(names)} files of {pattern}, whether a question names them or not."
    return Corpus({"docs": Origin(files=pattern)}, documents, None, (Guess("documents", text),))


def mirror_corpus(profile: FolderProfile, questions: DataFile, urls: Sequence[str], urls_sql: str) -> Corpus:
    """Return the pages of URLs that the folder has; the others are fetched.

    Args:
        profile: The folder.
        questions: The relation with the URLs.
        urls: The URLs of its sample.
        urls_sql: SQL of one URL or of an unnested list, over `source`.
    """
    wanted = {document_key(url) for url in urls}
    for table in mirrors(profile, questions):
        mirrored = {document_key(url) for url in table.file.table.column(table.key.name).to_pylist() if url}
        if not wanted & mirrored:
            continue
        key = identifier(table.key.name)
        documents = f"""\
SELECT {key} AS url, {table.body_sql} AS {table.body_column} FROM {table.name}
WHERE {_page_sql(key)} IN (
  SELECT {_page_sql("page")}
  FROM (SELECT {urls_sql} AS page FROM source)
)"""
        is_complete = wanted <= mirrored
        rest = "." if is_complete else "; the others are fetched, and a context whose page is unavailable is dropped."
        text = (
            f"documents: {table.file.origin.shown} has {len(wanted & mirrored)} of the {len(wanted)} pages that "
            f"questions name{rest} Remove the WHERE to use all its pages as documents."
        )
        missing = None if is_complete else "keep"
        return Corpus({table.name: table.file.origin}, documents, missing, (Guess("documents", text),))
    text = f"documents: none are in the folder; the pages of {len(wanted)} URLs are fetched during the conversion."
    return Corpus(guesses=(Guess("documents", text),))


def _table_target(table: DocumentTable) -> Target:
    shown = table.file.origin.shown
    sql = f"SELECT {table.key.as_text} AS name, {table.body_sql} AS {table.body_column} FROM {table.name}"
    text = f"documents: the {table.file.rows} rows of {shown}, named by {table.key.name!r}."
    corpus = Corpus({table.name: table.file.origin}, sql, None, (Guess("documents", text),))
    return Target(
        "document",
        lambda value: value,
        lambda values: table.file.share_known(table.key, values),
        lambda _: corpus,
        f"values of {table.key.name!r} in {shown}",
    )


def _file_target(profile: FolderProfile, names: dict[str, str], suffix: str, shown: str) -> Target:
    return Target(
        "file",
        lambda value: f"{value} || {literal(suffix)}" if suffix else value,
        lambda values: sum(value in names for value in values) / len(values),
        lambda values: files_corpus(profile, [names[value] for value in values if value in names]),
        shown,
    )


def _document_table(profile: FolderProfile, file: DataFile, key: Column, name: str) -> DocumentTable | None:
    """Return a table whose content is files that exist, or else its texts with their titles; None without any."""
    stem = normalised(file.origin.root or PurePosixPath(file.origin.path or "").name.split(".")[0])
    if re.fullmatch(r"corpus|documents?|docs|passages|pages|mirror|articles", stem):
        name = stem
    existing = set(profile.files)
    for column in file.columns:
        paths = column.present if column is not key and column.kind == "text" else []
        if paths and sum(path in existing for path in paths) >= MIRROR_SHARE * len(paths):
            return DocumentTable(name, file, key, "file", identifier(column.name))
    names = {normalised(column.name): column for column in reversed(file.columns) if column.kind == "text"}
    text, title = (
        next((names[word] for word in words.split() if word in names and names[word] is not key), None)
        for words in (BODIES, TITLES)
    )
    if text is None or not text.present:
        return None
    sql = identifier(text.name)
    if sum(value.lstrip()[:1] == "<" and "</" in value for value in text.present) * 2 > len(text.present):
        return DocumentTable(name, file, key, "html", sql)
    if title is not None:
        sql = f"concat_ws(chr(10) || chr(10), nullif({identifier(title.name)}, ''), nullif({sql}, ''))"
    return DocumentTable(name, file, key, "text", sql)


def _top_folder(name: str) -> str:
    return PurePosixPath(name).parts[0] if "/" in name else ""


def _is_url(column: Column) -> bool:
    texts = column.present if column.kind == "text" else []
    return bool(texts) and sum(map(bool, map(URL.fullmatch, texts))) >= MIRROR_SHARE * len(texts)


def _page_sql(url: str) -> str:
    """Return SQL that is equal for two URLs of one page: no scheme, no fragment, nothing percent-encoded."""
    plain = f"regexp_replace({url}, '^https?://|#.*$', '', 'g')"
    return f"lower(coalesce(try(url_decode({plain})), {plain}))"
