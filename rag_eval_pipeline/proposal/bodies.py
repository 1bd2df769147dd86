"""Where documents are: tables with a body a row, mirrors of URLs, and folders of files; each with its SQL."""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from rag_eval_pipeline.proposal.columns import Column, DataFile
from rag_eval_pipeline.proposal.draft import Origin, identifier, literal
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.words import BODIES, TITLES, normalised

URL = re.compile(r"https?://[^\s<>\"\\]+")
MIRROR_SHARE = 0.9  # of a mirror's rows that have a URL and a file that exists


class Body(NamedTuple):
    """What a table has as the content of documents: `kind` is the column of `documents` that it becomes."""

    kind: str
    sql: str


@dataclass(frozen=True, slots=True)
class BodyTable:
    """A table with a document a row.

    Args:
        name: What the relation is to be called.
        key: Its id, or its URL.
    """

    name: str
    file: DataFile
    key: Column
    body: Body

    @property
    def documents(self) -> str:
        """SQL of its documents, named by their id."""
        return f"SELECT {self.key.as_text} AS name, {self.body.sql} AS {self.body.kind} FROM {self.name}"


@dataclass(frozen=True, slots=True)
class FileTable:
    """Files of a folder that can be documents.

    Args:
        names: Their paths.
        where: Condition that leaves out what the glob finds besides; None when it finds nothing else.
    """

    name: str
    glob: str
    names: tuple[str, ...]
    where: str | None = None

    @property
    def documents(self) -> str:
        """SQL of its documents."""
        return f"SELECT file FROM {self.name}" + (f" WHERE {self.where}" if self.where else "")

    @property
    def origin(self) -> Origin:
        """How `tables:` says it."""
        return Origin(files=self.glob)


def body_tables(seen: Seen, without: DataFile) -> list[BodyTable]:
    """Tables of documents with an id, a table for each id column that they may be called by."""
    found = []
    for file in seen.data:
        if file is without:
            continue
        for key in file.columns:
            # What is called by URL is a mirror: URLs are compared as pages, not as texts.
            body = _body(file, key, seen) if key.is_unique and not _is_url(key) else None
            if body is not None:
                found.append(BodyTable(_table_name(file, "documents"), file, key, body))
    return found


def mirrors(seen: Seen, without: DataFile) -> list[BodyTable]:
    """Tables that give a URL's document: a file that exists, HTML or text."""
    found = []
    for file in seen.data:
        if file is without:
            continue
        url = next((column for column in file.columns if _is_url(column)), None)
        body = _body(file, url, seen) if url is not None else None
        if url is not None and body is not None:
            found.append(BodyTable(_table_name(file, "mirror"), file, url, body))
    return found


def file_table(seen: Seen, matched: Sequence[str] = ()) -> FileTable | None:
    """The folder's documents: all, or all of the folders and kinds that the matched ones are of; None without any."""
    mine = matched or seen.documents
    if not mine:
        return None
    tops = {PurePosixPath(name).parts[0] if "/" in name else "" for name in mine}
    suffixes = sorted({PurePosixPath(name).suffix for name in mine})
    top = next(iter(tops)) if len(tops) == 1 else None
    names = tuple(
        name for name in seen.documents if PurePosixPath(name).suffix in suffixes and (top is None or _top(name) == top)
    )
    prefix = f"{glob.escape(top)}/" if top else ""
    deep = top is None or any(name.count("/") > (1 if top else 0) for name in names)
    ending = suffixes[0] if len(suffixes) == 1 else ""
    pattern = f"{prefix}{'**/' if deep else ''}*{glob.escape(ending)}"
    ends = "|".join(re.escape(suffix) for suffix in suffixes)
    conditions = [] if ending else [f"regexp_matches(file, {literal(f'({ends})$')})"]
    stray = [name for name in seen.files if name not in names and _caught(name, top, ending, deep=deep)]
    stray = [name for name in stray if PurePosixPath(name).suffix in suffixes]
    if stray:
        conditions.append(f"file NOT IN ({', '.join(map(literal, stray))})")
    return FileTable("docs", pattern, names, " AND ".join(conditions) or None)


def _top(name: str) -> str:
    return PurePosixPath(name).parts[0] if "/" in name else ""


def _caught(name: str, top: str | None, ending: str, *, deep: bool) -> bool:
    """Whether the glob finds a file besides the documents."""
    inside = top is None or _top(name) == top
    return inside and name.endswith(ending) and (deep or name.count("/") == (1 if top else 0))


def _table_name(file: DataFile, role: str) -> str:
    """A name for a relation: the file's own where that is a plain word, else what it is for."""
    stem = file.origin.root or PurePosixPath(file.origin.path or "").name.split(".")[0]
    word = normalised(stem)
    return word if re.fullmatch(r"(corpus|documents?|docs|passages|pages|mirror|articles)", word) else role


def _body(file: DataFile, key: Column, seen: Seen) -> Body | None:
    """What a table has to show: files that exist, else its texts with their titles."""
    existing = set(seen.files)
    for column in file.columns:
        if column is not key and column.kind == "text" and column.present:
            there = sum(value in existing for value in column.present)
            if there >= MIRROR_SHARE * len(column.present):
                return Body("file", identifier(column.name))
    names = {normalised(column.name): column for column in reversed(file.columns) if column.kind == "text"}
    text = next((names[word] for word in BODIES if word in names and names[word] is not key), None)
    if text is None or not text.present:
        return None
    sql = identifier(text.name)
    if sum(value.lstrip()[:1] == "<" and "</" in value for value in text.present) * 2 > len(text.present):
        return Body("html", sql)
    title = next((names[word] for word in TITLES if word in names and names[word] is not key), None)
    if title is not None:
        sql = f"concat_ws(chr(10) || chr(10), nullif({identifier(title.name)}, ''), nullif({sql}, ''))"
    return Body("text", sql)


def _is_url(column: Column) -> bool:
    texts = column.present if column.kind == "text" else []
    return bool(texts) and sum(map(bool, map(URL.fullmatch, texts))) >= MIRROR_SHARE * len(texts)
