"""How a question names its documents (URLs, ids of a table, names or globs of files, texts) and where these are.

Each kind of link is tried on the sample values; only one that finds documents is proposed. A `Target` knows which
values name its documents, and what benchmark.yaml has to contain for questions to find them.
"""

import glob
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.corpus.naming import document_key
from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.scaffold.columns import Column, is_html
from rag_eval_pipeline.scaffold.headers import named_columns, normalised
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile, Origin
from rag_eval_pipeline.scaffold.roles import ListForm, list_forms
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, context
from rag_eval_pipeline.text.folding import composed

URL = re.compile(r"https?://[^\s<>\"\\]+")
FILE_SCHEME = "file://"
_SEGMENT = re.compile(r"([^/\\?#]+)(?:[?#].*)?$")  # the last of a path or URL, Windows' too, without query and fragment
# A file and a page of it, in RE2 as in Python: `dock.pdf, p. 3`, `dock.pdf (S. 3-4)`, `dock.pdf#page=3`.
_PAGED = re.compile(
    r"^\s*(\S.*?\.[A-Za-z0-9]{2,5})\s*[,;:#(\[|–—-]*\s*(?:pages?|pp?|pgs?|pags?|pág|página|seiten?|s|str|blz|стр|第)\W{0,3}"
    r"([0-9]{1,6})(?:[^0-9A-Za-z]+[0-9]*|ff?|bis|to|und|and)*(?:ページ|頁|页)?\W*$",
    re.IGNORECASE,
)
# Where one link leads: `[Dock](dock.md)`, Notion's `Dock (../Pages/Dock%201a2b.md)`.
_BRACKETED = re.compile(r"^[^()]*\(([^()]+)\)\W*$")
LINKED_SHARE = 0.5  # of the values have to name a document; a benchmark may have a few dead links
MIRROR_SHARE = 0.9  # of a mirror's rows have a URL and a file that exists
TRIED_VALUES = 2_000

CORPUS_NAMES = frozenset("corpus document documents docs passages articles".split())  # of files with all documents
SEPARATORS = ("\n", ";", "|", ",")

# --- Documents


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents as the keys `tables`, `documents` and `on_missing_document` of benchmark.yaml state them."""

    tables: dict[str, Origin] = field(default_factory=dict)
    documents: str | None = None
    on_missing_document: str | None = None
    guesses: tuple[Guess, ...] = ()


class Target(NamedTuple):
    """A set of documents that values can name."""

    field: str  # of a context that names one: `document` or `file`
    named: Callable[[str], str]  # makes the SQL of that field from the SQL of a value
    share: Callable[[Sequence[str]], float]  # of the values that it knows
    corpus: Callable[[Sequence[str]], Corpus]  # its documents, given the values that name some
    shown: str  # the values, for users
    page: Callable[[str], str] | None = None  # makes the SQL of a context's page from the SQL of a value


class DocumentTable(NamedTuple):
    """A relation with one document a row, named by its id or URL; `body_column` is `text`, `html` or `file`."""

    name: str
    file: DataFile
    key: Column
    body_column: str
    body_sql: str


def find_target(profile: FolderProfile, file: DataFile, values: Iterable[str]) -> Target | None:
    """Return the target that knows most of the values: half of them, or some that are names of files."""
    tried = list(dict.fromkeys(values))[:TRIED_VALUES]
    found = [(target.share(tried), target) for target in targets(profile, file)] if tried else []
    best = max(found, key=lambda item: item[0], default=None)
    if best is not None and best[0] < LINKED_SHARE:
        some = [item for item in found if item[0] > 0 and item[1].field == "file" and not any(map(URL.match, tried))]
        best = max(some, key=lambda item: item[0], default=None)
    return None if best is None else best[1]


def targets(profile: FolderProfile, file: DataFile) -> Iterator[Target]:
    """Yield everything that a column of a file can name."""
    for table in document_tables(profile, file):
        yield _table_target(table)
    if profile.documents:
        yield from _file_targets(profile)


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


def files_corpus(profile: FolderProfile, matched: Sequence[str] = (), *, unmatched: int = 0) -> Corpus:
    """Return the folder's documents, or those in the folders and with the suffixes of the matched ones.

    Args:
        unmatched: How many names in the questions have no file.
    """
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
    text = f"documents: all {counted(len(names), 'file')} of {pattern}, whether a question names them or not."
    if unmatched:
        total = len(matched) + unmatched
        text += f" {unmatched} of the {total} names in the questions have no file: questions with one are quarantined."
    return Corpus({"docs": Origin(files=pattern)}, documents, None, (Guess("documents", text),))


def mirror_corpus(profile: FolderProfile, questions: DataFile, urls: Sequence[str], urls_sql: str) -> Corpus:
    """Return the pages of URLs that the folder has; the others are fetched."""
    wanted = {document_key(url) for url in urls}
    for table in mirrors(profile, questions):
        mirrored = {document_key(url) for url in table.file.table.column(table.key.name).to_pylist() if url}
        if not wanted & mirrored:
            continue
        key = identifier(table.key.name)
        selected = f"SELECT {key} AS url, {table.body_sql} AS {table.body_column} FROM {table.name}"
        is_complete = wanted <= mirrored
        missing = None if is_complete else "keep"
        rest = "." if is_complete else "; the others are fetched, and a context whose page is unavailable is dropped."
        if table.name in CORPUS_NAMES:
            text = (
                f"documents: the {counted(table.file.rows, 'row')} of {table.file.origin.shown}, among them "
                f"{len(wanted & mirrored)} of the {len(wanted)} pages that questions name{rest}"
            )
            return Corpus({table.name: table.file.origin}, selected, missing, (Guess("documents", text),))
        documents = f"""\
{selected}
WHERE {_page_sql(key)} IN (
  SELECT {_page_sql("page")}
  FROM (SELECT {urls_sql} AS page FROM source)
)"""
        text = (
            f"documents: {table.file.origin.shown} has {len(wanted & mirrored)} of the {len(wanted)} pages that "
            f"questions name{rest} Remove the WHERE to use all its pages as documents."
        )
        return Corpus({table.name: table.file.origin}, documents, missing, (Guess("documents", text),))
    text = f"documents: none are in the folder; the pages of {len(wanted)} URLs are fetched during the conversion."
    return Corpus(guesses=(Guess("documents", text),))


def _table_target(table: DocumentTable) -> Target:
    shown = table.file.origin.shown
    corpus = table_corpus(table)
    return Target(
        "document",
        lambda value: value,
        lambda values: table.file.share_known(table.key, values),
        lambda _: corpus,
        f"values of {table.key.name!r} in {shown}",
    )


def _file_targets(profile: FolderProfile) -> Iterator[Target]:
    """Yield the ways to name the folder's files, the plainest first."""
    ends = [("/".join(path.split("/")[n:]), path) for path in profile.documents for n in range(path.count("/"))]
    times = Counter(end for end, _ in ends)
    names = {end: path for end, path in ends if times[end] == 1}  # of a path that ends like others, its folder decides
    names |= {known: path for path in profile.documents for known in (PurePosixPath(path).name, path)}
    yield _paged_target(profile, names)
    yield _file_target(profile, names, "{}", "names of files")
    for suffix in sorted({PurePosixPath(path).suffix for path in profile.documents}):
        stems = {PurePosixPath(path).stem: path for path in profile.documents if path.endswith(suffix)}
        shown = f"names of {suffix} files without the suffix"
        yield _file_target(profile, stems, f"{{}} || {literal(suffix)}", shown)
        joined = f"replace({{}}, ' ', '_') || {literal(suffix)}"
        yield _file_target(profile, stems, joined, f"{shown}, with spaces", lambda value: value.replace(" ", "_"))
    segment = f"regexp_extract({{}}, {literal(_SEGMENT.pattern)}, 1)"
    decoded = f"coalesce(try(url_decode({segment})), {segment})"
    yield _file_target(profile, names, decoded, "paths or URLs that end in names of files", _last_segment)
    inner = segment.replace("{}", f"regexp_extract({{}}, {literal(_BRACKETED.pattern)}, 1)")
    linked = f"coalesce(try(url_decode({inner})), {inner})"
    yield _file_target(profile, names, linked, "links to files", _linked_segment)
    path = f"replace({{}}, {literal(FILE_SCHEME)}, '')"
    yield _file_target(profile, names, path, f"paths after {FILE_SCHEME}", lambda v: v.removeprefix(FILE_SCHEME))
    for folder in sorted({str(parent) for path in profile.documents for parent in PurePosixPath(path).parents}):
        inside = {path.removeprefix(f"{folder}/"): path for path in profile.documents if path.startswith(f"{folder}/")}
        yield _file_target(profile, inside, f"{literal(f'{folder}/')} || {{}}", f"paths of files in {folder}")


def _paged_target(profile: FolderProfile, names: dict[str, str]) -> Target:
    """Return the target of names of files with a page behind them, which is kept of PDFs: others have none."""

    def part(value: str, number: int) -> str:
        return f"regexp_extract({value}, {literal(f'(?i){_PAGED.pattern}')}, {number})"

    def known(value: str) -> str:
        return found[1] if (found := _PAGED.match(value)) else value

    whole = f"coalesce(nullif({part('{}', 1)}, ''), {{}})"
    target = _file_target(profile, names, whole, "names of files, with pages (counted from 1)", known)

    def page(value: str) -> str:
        return f"CASE WHEN {part(value, 1)} ILIKE '%.pdf' THEN TRY_CAST({part(value, 2)} AS BIGINT) END"

    return target._replace(
        share=lambda values: target.share(values) if any(map(_PAGED.match, values)) else 0.0,
        page=page if any(name.lower().endswith(".pdf") for name in profile.documents) else None,
    )


def no_documents(column: str) -> str:
    """Return what has to be filled in if the documents that a column names were not found."""
    return (
        f"documents: the documents that {column!r} names were not found. Add them as a table of ids and texts "
        "(`tables`, and `documents: SELECT id AS name, text FROM ...`) or as files."
    )


def _last_segment(value: str) -> str:
    found = _SEGMENT.search(value)
    return unquote(found[1]) if found else ""


def _linked_segment(value: str) -> str:
    found = _BRACKETED.search(value)
    return _last_segment(found[1]) if found else ""


def table_corpus(table: DocumentTable) -> Corpus:
    """Return the rows of a table as documents."""
    sql = f"SELECT {table.key.as_text} AS name, {table.body_sql} AS {table.body_column} FROM {table.name}"
    text = (
        f"documents: the {counted(table.file.rows, 'row')} of {table.file.origin.shown}, named by {table.key.name!r}."
    )
    return Corpus({table.name: table.file.origin}, sql, None, (Guess("documents", text),))


def _file_target(
    profile: FolderProfile,
    names: dict[str, str],
    template: str,
    shown: str,
    known: Callable[[str], str] = str,
) -> Target:
    """Return the target of files by name; `template` is the SQL of a file's name, `known` makes that of a sample."""
    composed_names = {composed(name): path for name, path in names.items()}
    times = Counter(name.casefold() for name in composed_names)
    # A word may be a file's stem in another case, and mean something else.
    folded = {name.casefold(): path for name, path in composed_names.items() if PurePosixPath(name).suffix}
    folded = {name: path for name, path in folded.items() if times[name] == 1}

    # By its name without the suffix the conversion finds a file, too; but such a word alone shows no column of names.
    times = Counter(PurePosixPath(name).stem for name in {path: name for name, path in composed_names.items()}.values())
    stems = {stem: path for name, path in composed_names.items() if times[stem := PurePosixPath(name).stem] == 1}

    def path_of(value: str) -> str | None:
        name = composed(known(value))
        return composed_names.get(name) or folded.get(name.casefold())

    def corpus(values: Sequence[str]) -> Corpus:
        distinct = set(values)
        paths = (path_of(value) or stems.get(composed(value)) for value in distinct)
        matched = [path for path in paths if path is not None]
        return files_corpus(profile, matched, unmatched=len(distinct) - len(matched))

    return Target(
        "file",
        lambda value: template.replace("{}", value),
        lambda values: sum(path_of(value) is not None for value in values) / len(values),
        corpus,
        shown,
    )


def _document_table(profile: FolderProfile, file: DataFile, key: Column, name: str) -> DocumentTable | None:
    """Return a table whose content is files that exist, or else its texts with their titles; None without any."""
    stem = normalised(file.origin.root or PurePosixPath(file.origin.first).name.split(".")[0])
    if stem in CORPUS_NAMES or stem in {"pages", "mirror"}:
        name = stem
    existing = set(profile.files)
    for column in file.columns:
        paths = column.present if column is not key and column.kind == "text" else []
        if paths and sum(path in existing for path in paths) >= MIRROR_SHARE * len(paths):
            return DocumentTable(name, file, key, "file", column.sql)
    others = [column for column in file.columns if column is not key]
    texts, titles = (named_columns(others, role, lambda column: column.kind == "text") for role in ("body", "title"))
    text, title = (next(iter(columns), None) for columns in (texts, titles))
    if text is None or not text.present:
        return None
    sql = text.sql
    if is_html(text.present):
        return DocumentTable(name, file, key, "html", sql)
    if title is not None:
        sql = f"concat_ws(chr(10) || chr(10), nullif({identifier(title.name)}, ''), nullif({sql}, ''))"
    return DocumentTable(name, file, key, "text", sql)


def _top_folder(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _is_url(column: Column) -> bool:
    texts = column.present if column.kind == "text" else []
    return bool(texts) and sum(map(bool, map(URL.fullmatch, texts))) >= MIRROR_SHARE * len(texts)


def _page_sql(url: str) -> str:
    """Return SQL that is equal for two URLs of one page: no scheme, no fragment, nothing percent-encoded."""
    plain = f"regexp_replace({url}, '^https?://|#.*$', '', 'g')"
    return f"lower(coalesce(try(url_decode({plain})), {plain}))"


# --- Links


@dataclass(frozen=True, slots=True)
class Link:
    """A way from questions to documents."""

    exprs: dict[str, ColumnExpr] = field(default_factory=dict)  # `urls` or `contexts`; empty if questions name none
    used: frozenset[str] = frozenset()  # columns of the file that the expressions read
    corpus: Corpus = field(default_factory=Corpus)
    guesses: tuple[Guess, ...] = ()
    scalar: dict[str, str] | None = None  # a context's fields in SQL if each row names one document
    texts: str | None = None  # the SQL of a list, if contexts are bare texts
    unfound: str | None = None  # the column that names documents which are not there
    doubts: tuple[tuple[Column, ColumnExpr], ...] = ()  # the columns that may as well be meant, with their `exprs`


def column_link(column: Column, target: Target, word: str, least: float = LINKED_SHARE) -> Link | None:
    """Return the link from a column to a target; None if fewer than this share of its values name a document there."""
    form = best_form(column, target.share, least)
    if form is None:
        return None
    fields = {target.field: target.named(form.item or word)}
    if target.page is not None:
        fields["page"] = target.page(form.item or word)
    named = context(fields)
    sql = f"list_transform({form.sql}, lambda {word}: {named})"
    if form.item is not None:
        sql = form.sql.replace(f"[{form.item}]", f"[{named}]")
    text = f"contexts: {column.name!r} ({form.shown}) holds {target.shown}."
    scalar = None if form.item is None else fields
    guesses = (Guess("questions", text),)
    return Link({"contexts": ColumnExpr(sql)}, frozenset({column.name}), target.corpus(form.distinct), guesses, scalar)


def grouped_documents(pairs: str, *, name: str = "name", body: str = "text") -> str:
    """Return the SQL of one document for each title, made of its different paragraphs in order.

    Args:
        name: What the titles are: `name`; or `url`, of which the bodies are joined and counted when they are read.
        body: What the paragraphs are: `text` or `html`.
    """
    if name == "url":
        return f"""\
SELECT title AS url, paragraph AS {body}, source_row
FROM (
  {pairs}
)
WHERE title <> '' AND paragraph <> ''"""
    return f"""\
SELECT title AS name, string_agg(paragraph, chr(10) || chr(10) ORDER BY first_row) AS {body},
       min(first_row) AS source_row
FROM (
  SELECT title, paragraph, min(source_row) AS first_row
  FROM (
    {pairs}
  )
  WHERE title <> '' AND paragraph <> ''
  GROUP BY title, paragraph
)
GROUP BY title"""


def free_word(word: str, columns: Iterable[Column]) -> str:
    """Return a name for a lambda's parameter that no column has: DuckDB would use the column."""
    names = {column.name.casefold() for column in columns}
    while word in names:
        word += "_"
    return word


def best_form(column: Column, share: Callable[[Sequence[str]], float], least: float = LINKED_SHARE) -> ListForm | None:
    """Return the way to read a column in which most values name documents; None if fewer than `least` do in any."""
    tried = [(form, form.distinct[:TRIED_VALUES]) for form in list_forms(column, separators=SEPARATORS)]
    found = [(share(values), form) for form, values in tried if values]
    best = max(found, key=lambda item: item[0], default=None)
    return best[1] if best is not None and best[0] > 0 and best[0] >= least else None
