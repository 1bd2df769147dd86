"""How a question names its documents (URLs, ids of a table, names or globs of files, texts) and where these are.

Each kind of link is tried on the sample values; only one that finds documents is proposed. A `Target` knows which
values name its documents, and what benchmark.yaml has to contain for questions to find them.
"""

import fnmatch
import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.corpus.naming import document_key
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile, Origin
from rag_eval_pipeline.scaffold.roles import ROLES, ListForm, as_column, is_gold, list_forms, normalised
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, context
from rag_eval_pipeline.text.normalise import composed

URL = re.compile(r"https?://[^\s<>\"\\]+")
LINKED_SHARE = 0.5  # of the values have to name a document; a benchmark may have a few dead links
MIRROR_SHARE = 0.9  # of a mirror's rows have a URL and a file that exists
TRIED_VALUES = 2_000

BODIES = (
    "text contents content body passage_text passage document_text document html article page_content chunk context "
    "summary abstract"
)
CORPUS_NAMES = frozenset("corpus document documents docs passages articles".split())  # of files with all documents
TITLES = "title heading headline"
SEPARATORS = ("\n", ";", "|", ",")

# A column with one of these words in its name may name the document of a question.
DOCUMENT_WORDS = frozenset(
    "article articles chunk chunks context contexts corpus doc docid docids docs document documents evidence file "
    "files filename gold page pages passage passages pid relevant retrieval source sources support supporting "
    "quelle quellen dokument dokumente datei dateien beleg belege fundstelle fichier fuente documento documentos "
    "archivo fonte arquivo bron bestand źródło dokumenty plik zdroj kaynak belge dosya источник документ файл 来源 "
    "文档 文件 出典 文書 출처 문서".split()
)
URL_WORDS = frozenset("url urls link links source sources".split())
NOT_DOCUMENTS = frozenset("image images img picture thumbnail logo license licence".split())  # names of URL columns
GOLD_TEXTS = (
    "reference_contexts gold_contexts ground_truth_context ground_truth_contexts gold_passage gold_passages evidence "
    "evidences evidence_text context contexts passage passages supporting_text supporting_texts support paragraph "
    "snippet snippets quote quotes gold_context reference_context source_text excerpt positive positives "
    "positive_passages positive_texts"
).split()
_STARTS_WITH_URL = re.compile(r"\s*[\[(]?\s*['\"]?https?://")
_ONE_SITE = re.compile(r"\s*https?://[^/\s]+/?\s*")
_ONE_URL = re.compile(r"https?://[^\s<>\"\\,;|]+")  # excludes what may separate two URLs
_NUMBERED = re.compile(r"(.*?)(\d+)\W*")


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
    text = f"documents: all {len(names)} files of {pattern}, whether a question names them or not."
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
                f"documents: the {table.file.rows} rows of {table.file.origin.shown}, among them "
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
    names = {known: path for path in profile.documents for known in (PurePosixPath(path).name, path)}
    yield _file_target(profile, names, "{}", "names of files")
    for suffix in sorted({PurePosixPath(path).suffix for path in profile.documents}):
        stems = {PurePosixPath(path).stem: path for path in profile.documents if path.endswith(suffix)}
        shown = f"names of {suffix} files without the suffix"
        yield _file_target(profile, stems, f"{{}} || {literal(suffix)}", shown)
        joined = f"replace({{}}, ' ', '_') || {literal(suffix)}"
        yield _file_target(profile, stems, joined, f"{shown}, with spaces", lambda value: value.replace(" ", "_"))
    segment = "regexp_extract({}, '([^/?#]+)(?:[?#].*)?$', 1)"
    decoded = f"coalesce(try(url_decode({segment})), {segment})"
    yield _file_target(profile, names, decoded, "URLs that end in names of files", _last_segment)
    for folder in sorted({str(parent) for path in profile.documents for parent in PurePosixPath(path).parents}):
        inside = {path.removeprefix(f"{folder}/"): path for path in profile.documents if path.startswith(f"{folder}/")}
        yield _file_target(profile, inside, f"{literal(f'{folder}/')} || {{}}", f"paths of files in {folder}")


def no_documents(column: str) -> str:
    """Return what has to be filled in if the documents that a column names were not found."""
    return (
        f"documents: the documents that {column!r} names were not found. Add them as a table of ids and texts "
        "(`tables`, and `documents: SELECT id AS name, text FROM ...`) or as files."
    )


def _last_segment(value: str) -> str:
    return unquote(urlsplit(value).path).rpartition("/")[2] if URL.fullmatch(value) else ""


def table_corpus(table: DocumentTable) -> Corpus:
    """Return the rows of a table as documents."""
    sql = f"SELECT {table.key.as_text} AS name, {table.body_sql} AS {table.body_column} FROM {table.name}"
    text = f"documents: the {table.file.rows} rows of {table.file.origin.shown}, named by {table.key.name!r}."
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

    def path_of(value: str) -> str | None:
        return composed_names.get(composed(known(value)))

    def corpus(values: Sequence[str]) -> Corpus:
        distinct = set(values)
        matched = [path for path in map(path_of, distinct) if path is not None]
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
    stem = normalised(file.origin.root or PurePosixPath(file.origin.path or "").name.split(".")[0])
    if stem in CORPUS_NAMES or stem in {"pages", "mirror"}:
        name = stem
    existing = set(profile.files)
    for column in file.columns:
        paths = column.present if column is not key and column.kind == "text" else []
        if paths and sum(path in existing for path in paths) >= MIRROR_SHARE * len(paths):
            return DocumentTable(name, file, key, "file", column.sql)
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


def find_link(profile: FolderProfile, file: DataFile, taken: Iterable[str] = ()) -> Link | None:
    """Return the first kind of link that finds documents: mirrored URLs, a table, files, globs, other URLs."""
    every = (*file.columns, *file.nested)
    columns = [column for column in every if column.name not in set(taken) and is_gold(column)]
    by_url = _url_link(profile, file, columns)
    if by_url is not None and by_url.corpus.documents is not None:
        return by_url
    complete = _target_link(profile, file, columns, LINKED_SHARE) or _glob_link(profile, file, columns) or by_url
    return complete or _target_link(profile, file, [column for column in columns if names_documents(column)], 0.0)


def column_link(column: Column, target: Target, word: str, least: float = LINKED_SHARE) -> Link | None:
    """Return the link from a column to a target; None if fewer than this share of its values name a document there."""
    form = _best_form(column, target.share, least)
    if form is None:
        return None
    named = context({target.field: target.named(form.item or word)})
    sql = f"list_transform({form.sql}, lambda {word}: {named})"
    if form.item is not None:
        sql = form.sql.replace(f"[{form.item}]", f"[{named}]")
    text = f"contexts: {column.name!r} ({form.shown}) holds {target.shown}."
    scalar = None if form.item is None else {target.field: target.named(form.item)}
    guesses = (Guess("questions", text),)
    return Link({"contexts": ColumnExpr(sql)}, frozenset({column.name}), target.corpus(form.distinct), guesses, scalar)


def text_link(file: DataFile, taken: Iterable[str], link: Link | None) -> Link | None:
    """Return a link with gold texts, in the document that `link` finds for each row; None without texts."""
    taken = set(taken)
    free = [column for column in reversed(file.columns) if column.name not in taken]
    columns = {normalised(column.name.rpartition(".")[2]): column for column in free}
    columns |= {normalised(column.name): column for column in free}
    for column in (columns[name] for name in GOLD_TEXTS if name in columns):
        if not is_gold(column) or column.kind not in {"text", "texts", "text lists"} or not column.present:
            continue
        if column.kind == "text" and all(URL.fullmatch(value) for value in column.present):
            continue
        form = next(list_forms(column))
        text = f"contexts: gold texts from {column.described}"
        if link is not None and link.scalar is not None and form.item is not None:
            (named, place), *page = link.scalar.items()
            quote = column.sql
            sql = f"[{context({named: place, **dict(page), 'text': quote})}]"
            if not all(c.is_full for c in file.columns if c is column or c.name in link.used):
                place, quote = f"nullif({place}, '')", f"nullif({quote}, '')"
                body = context({named: place, **dict(page), "text": quote})
                sql = f"CASE WHEN coalesce({place}, {quote}) IS NULL THEN [] ELSE [{body}] END"
            guesses = (Guess("questions", f"{text}, in the document of the same row."), *link.guesses)
            return Link({"contexts": ColumnExpr(sql)}, link.used | {column.name}, link.corpus, guesses)
        if link is not None and link.scalar is not None:
            word = free_word("part", file.columns)
            expr = ColumnExpr(f"list_transform({form.sql}, lambda {word}: {context({**link.scalar, 'text': word})})")
            guesses = (Guess("questions", f"{text}, in the document of the same row."), *link.guesses)
            return Link({"contexts": expr}, link.used | {column.name}, link.corpus, guesses)
        if link is not None:
            return None
        is_plain = column.kind == "texts" or (form.item is not None and column.is_full)
        expr = as_column(column) if is_plain else ColumnExpr(form.sql)
        guesses = (Guess("questions", f"{text}."),)
        return Link({"contexts": expr}, frozenset({column.name}), guesses=guesses, texts=form.sql)
    return None


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


def _best_form(column: Column, share: Callable[[Sequence[str]], float], least: float = LINKED_SHARE) -> ListForm | None:
    """Return the way to read a column in which most values name documents; None if fewer than `least` do in any."""
    tried = [(form, form.distinct[:TRIED_VALUES]) for form in list_forms(column, separators=SEPARATORS)]
    found = [(share(values), form) for form, values in tried if values]
    best = max(found, key=lambda item: item[0], default=None)
    return best[1] if best is not None and best[0] > 0 and best[0] >= least else None


def names_documents(column: Column) -> bool:
    """Return whether a column's name says that it may name documents."""
    return not DOCUMENT_WORDS.isdisjoint(normalised(column.name).split("_"))


def _target_link(profile: FolderProfile, file: DataFile, columns: Sequence[Column], least: float) -> Link | None:
    """Return the first link of a column whose values name documents; with a lower share, only files are documents."""
    # Integers count from 0 or 1 everywhere, so the number of a question would be found among the ids of any table.
    likely = sorted(columns, key=lambda column: not names_documents(column))
    found = [target for target in targets(profile, file) if least == LINKED_SHARE or target.field == "file"]
    for column in likely:
        if not names_documents(column) and (column.kind == "integer" or normalised(column.name) in ROLES["source_id"]):
            continue
        for target in found:
            link = column_link(column, target, free_word("part", file.columns), least)
            if link is not None:
                return link
    return None


def _glob_link(profile: FolderProfile, file: DataFile, columns: Sequence[Column]) -> Link | None:
    names = {path: PurePosixPath(path).name for path in profile.documents}

    def share(patterns: Sequence[str]) -> float:
        matching = (p for p in patterns if "*" in p and any(fnmatch.fnmatchcase(n, p) for n in names.values()))
        return sum(1 for _ in matching) / len(patterns)

    for column in columns if names else ():
        form = _best_form(column, share)
        if form is None:
            continue
        matched = [p for p, name in names.items() if any(fnmatch.fnmatchcase(name, each) for each in form.distinct)]
        corpus = files_corpus(profile, matched)
        # The question's column may itself be called name or file, which in the subquery would be the table's column.
        if column.path is not None:
            continue
        outer = f"source.{column.sql}"
        condition = f"name GLOB {outer}"
        if form.item is None:
            word = free_word("pattern", file.columns)
            listed = form.sql.replace(column.sql, outer)
            condition = f"list_contains(list_transform({listed}, lambda {word}: name GLOB {word}), true)"
        sql = f"(SELECT list({context({'file': 'file'})} ORDER BY file) FROM docs WHERE {condition})"
        text = f"contexts: {column.name!r} holds globs of file names, such as {column.present[0]!r}."
        return Link({"contexts": ColumnExpr(sql)}, frozenset({column.name}), corpus, (Guess("questions", text),))
    return None


def _url_link(profile: FolderProfile, file: DataFile, columns: Sequence[Column]) -> Link | None:
    """Return the link of the column with the most URLs; numbered columns such as link_1 to link_10 are one list."""
    holding = [column for column in columns if holds_urls(column)]
    if not holding:
        return None
    column = min(holding, key=lambda c: (-len(_sample_urls(c)), URL_WORDS.isdisjoint(normalised(c.name).split("_"))))
    series = _numbered_series(column, holding)
    if len(series) > 1:
        expr = ColumnExpr(f"url_split(concat_ws(' ', {', '.join(part.sql for part in series)}))")
        remark = f"urls: columns {series[0].name!r} to {series[-1].name!r}, joined and split into URLs"
    else:
        expr, how = _split_urls(column)
        remark = f"urls: column {column.described}{how}"
    others = [part.name for part in holding if part not in series]
    remark += f"; {', '.join(others)} were left out because they hold URLs too." if others else "."
    found = list(dict.fromkeys(url for part in series for url in _sample_urls(part)))
    is_single = len(series) == 1 and expr.column is not None and column.kind == "text"
    corpus = mirror_corpus(profile, file, found, expr.sql if is_single else f"unnest({expr.sql})")
    used = frozenset(part.name for part in holding)
    return Link({"urls": expr}, used, corpus, (Guess("questions", remark),), {"url": expr.sql} if is_single else None)


def holds_urls(column: Column) -> bool:
    """Return whether most cells begin with the URL of a page; the address of a whole site is no document."""
    if not NOT_DOCUMENTS.isdisjoint(normalised(column.name).split("_")):
        return False
    cells = column.present if column.kind in {"text", "texts"} else []
    starts = [bool(_STARTS_WITH_URL.match(str(next(iter(c), "") if isinstance(c, list) else c))) for c in cells]
    return bool(starts) and 2 * sum(starts) >= len(starts) and not all(map(_ONE_SITE.fullmatch, map(str, cells)))


def _numbered_series(column: Column, columns: Sequence[Column]) -> list[Column]:
    match = _NUMBERED.fullmatch(column.name)
    if match is None:
        return [column]
    numbered = [(other, _NUMBERED.fullmatch(other.name)) for other in columns]
    same = [(int(found[2]), other.name, other) for other, found in numbered if found and found[1] == match[1]]
    return [other for _, _, other in sorted(same, key=lambda item: item[:2])]


def _split_urls(column: Column) -> tuple[ColumnExpr, str]:
    """Return the column unchanged if each cell is one URL or a list of such, or else its cells split into URLs."""
    cells = column.present if column.kind == "texts" else [[cell] for cell in column.values if cell]
    if all(value is not None and _ONE_URL.fullmatch(value) for cell in cells for value in cell):
        return as_column(column), ""
    form = next(list_forms(column))
    if form.item is not None:
        return ColumnExpr(f"url_split({column.sql})"), ", split before each http"
    how = f" ({form.shown})" if column.kind == "text" else ""
    return ColumnExpr(f"url_split(array_to_string({form.sql}, ', '))"), f"{how}, joined and split before each http"


def _sample_urls(column: Column) -> list[str]:
    cells = next(list_forms(column)).values
    parts = [part for cell in cells for value in cell for part in re.split(r"(?=https?://)", value)]
    return [url for part in parts if URL.fullmatch(url := part.strip(" ,;|\t\r\n"))]
