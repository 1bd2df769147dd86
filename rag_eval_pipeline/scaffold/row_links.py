"""Which column of a row names its documents, and which quotes them.

Each kind of link is tried on the sample values; only one that finds documents is proposed.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.headers import (
    ROLES,
    bare,
    is_gold,
    is_numeric,
    leaf,
    named_columns,
    names_documents,
    normalised,
    role_of,
)
from rag_eval_pipeline.scaffold.links import (
    FILE_SCHEME,
    LINKED_SHARE,
    URL,
    Link,
    best_form,
    column_link,
    files_corpus,
    free_word,
    mirror_corpus,
    targets,
)
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import list_forms
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, as_column, context

NOT_DOCUMENTS = frozenset("image images img picture thumbnail logo license licence".split())  # names of URL columns
_STARTS_WITH_URL = re.compile(r"\s*[\[(]?\s*['\"]?https?://")
_ONE_SITE = re.compile(r"\s*https?://[^/\s]+/?\s*")
_ONE_URL = re.compile(r"https?://[^\s<>\"\\,;|]+")  # excludes what may separate two URLs
_NUMBERED = re.compile(r"(.*?)(\d+)\W*")


def find_link(profile: FolderProfile, file: DataFile, taken: Iterable[str] = ()) -> Link | None:
    """Return the first kind of link that finds documents: mirrored URLs, a table, files, globs, other URLs."""
    every = (*file.columns, *file.nested)
    columns = [column for column in every if column.name not in set(taken) and is_gold(column)]
    by_url = _url_link(profile, file, columns)
    if by_url is not None and by_url.corpus.documents is not None:
        return by_url
    complete = _target_link(profile, file, columns, LINKED_SHARE) or _glob_link(profile, file, columns) or by_url
    return complete or _target_link(profile, file, [column for column in columns if names_documents(column)], 0.0)


def text_link(file: DataFile, taken: Iterable[str], link: Link | None) -> Link | None:
    """Return a link with gold texts, in the document that `link` finds for each row; None without texts."""
    if link is not None and link.scalar is None:
        return None
    taken = set(taken)
    free = [column for column in file.columns if column.name not in taken and is_gold(column)]
    for column in named_columns(free, "passage", _quotes):
        form = next(list_forms(column))
        text = f"contexts: gold texts from {column.described}"
        if link is not None and link.scalar is not None:
            (named, place), *page = link.scalar.items()
            quote = column.sql
            if form.item is None:
                word = free_word("part", file.columns)
                sql = f"list_transform({form.sql}, lambda {word}: {context({**link.scalar, 'text': word})})"
            elif all(c.is_full for c in file.columns if c is column or c.name in link.used):
                sql = f"[{context({**link.scalar, 'text': quote})}]"
            else:
                place, quote = f"nullif({place}, '')", f"nullif({quote}, '')"
                body = context({named: place, **dict(page), "text": quote})
                sql = f"CASE WHEN coalesce({place}, {quote}) IS NULL THEN [] ELSE [{body}] END"
            guesses = (Guess("questions", f"{text}, in the document of the same row."), *link.guesses)
            return Link({"contexts": ColumnExpr(sql)}, link.used | {column.name}, link.corpus, guesses)
        is_plain = column.kind == "texts" or (form.item is not None and column.is_full)
        expr = as_column(column) if is_plain else ColumnExpr(form.sql)
        guesses = (Guess("questions", f"{text}."),)
        return Link({"contexts": expr}, frozenset({column.name}), guesses=guesses, texts=form.sql)
    return None


def _quotes(column: Column) -> bool:
    """Return whether a column holds texts, not URLs; sentences, if only a word of its name calls them passages."""
    if column.kind not in {"text", "texts", "text lists"} or not column.present:
        return False
    texts = [value for cell in next(list_forms(column)).values for value in cell]
    if column.kind == "text" and all(URL.fullmatch(text) or text.startswith(FILE_SCHEME) for text in texts):
        return False
    sentences = sum(len(text.split()) >= 4 or (not text.isascii() and len(text) >= 10) for text in texts)
    return bare(leaf(column.name)) in ROLES["passage"] or 2 * sentences > len(texts)


def _target_link(profile: FolderProfile, file: DataFile, columns: Sequence[Column], least: float) -> Link | None:
    """Return the first link of a column whose values name documents; with a lower share, only files are documents."""
    # Numbers count from 0 or 1 everywhere, so the number of a question would be found among the ids of any table.
    likely = sorted(columns, key=lambda column: not names_documents(column))
    found = [target for target in targets(profile, file) if least == LINKED_SHARE or target.field == "file"]
    for column in likely:
        if not names_documents(column) and (is_numeric(column) or normalised(column.name) in ROLES["source_id"]):
            continue
        for target in found:
            link = column_link(column, target, free_word("part", file.columns), least)
            if link is not None:
                rivals = [
                    (other, same.exprs["contexts"])
                    for other in columns
                    if names_documents(other) == names_documents(column) and other.values != column.values
                    if not is_numeric(other) and normalised(other.name) not in ROLES["source_id"]
                    if (same := column_link(other, target, free_word("part", file.columns))) is not None
                ]
                used = link.used.union(other.name for other, _ in rivals)
                return replace(link, used=used, doubts=((column, link.exprs["contexts"]), *rivals) if rivals else ())
    return None


def _glob_link(profile: FolderProfile, file: DataFile, columns: Sequence[Column]) -> Link | None:
    names = {path: PurePosixPath(path).name for path in profile.documents}

    def share(patterns: Sequence[str]) -> float:
        matching = (p for p in patterns if "*" in p and any(fnmatch.fnmatchcase(n, p) for n in names.values()))
        return sum(1 for _ in matching) / len(patterns)

    for column in columns if names else ():
        form = best_form(column, share)
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
    column = min(holding, key=lambda c: (-len(_sample_urls(c)), not _says_link(c)))
    series = _numbered_series(column, holding)
    if len(series) > 1:
        expr = ColumnExpr(f"url_split(concat_ws(' ', {', '.join(part.sql for part in series)}))")
        remark = f"urls: columns {series[0].name!r} to {series[-1].name!r}, joined and split into URLs"
    else:
        expr, how = _split_urls(column)
        remark = f"urls: column {column.described}{how}"
    others = [part for part in holding if part not in series]
    left_out = ", ".join(part.name for part in others)
    remark += f"; {left_out} were left out because they hold URLs too." if others else "."
    found = list(dict.fromkeys(url for part in series for url in _sample_urls(part)))
    is_single = len(series) == 1 and expr.column is not None and column.kind == "text"
    corpus = mirror_corpus(profile, file, found, expr.sql if is_single else f"unnest({expr.sql})")
    used = frozenset(part.name for part in holding)
    rivals = [c for c in others if _says_link(c) == _says_link(column) and not {*_sample_urls(c)} <= {*found}]
    doubts = tuple((c, _split_urls(c)[0]) for c in (column, *rivals)) if rivals and len(series) == 1 else ()
    scalar = {"url": expr.sql} if is_single else None
    return Link({"urls": expr}, used, corpus, (Guess("questions", remark),), scalar, doubts=doubts)


def _says_link(column: Column) -> bool:
    return role_of(column.name) in {"link", "document"}


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
