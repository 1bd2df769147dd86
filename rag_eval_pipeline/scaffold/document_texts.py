"""What the documents beside a table say: which of its columns are answers, and which name documents by their titles."""

import contextlib
import html
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from rag_eval_pipeline.conversion.mapping import literal
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.profile import FolderProfile

READ_SUFFIXES = frozenset({".md", ".txt", ".html", ".htm", ".xhtml"})
READ_BYTES = 20_000_000  # of all documents together
ANSWER_CHARACTERS = (3, 200)
CLEAR_SHARE = 0.5  # of the texts found for the best column that another one may have
READ_PDFS = 5  # the smallest of the folder
FOUND_SHARE = 0.3  # of the texts of a column of answers occur in a document
TITLE_SHARE = 0.5  # of the values of a column are titles

_SITE = re.compile(r"\s+[:|–—-]\s+")  # between the title of a page and the name of its site
_MARKUP = re.compile(r"<[^>]*>")
_TITLES = (
    re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE),
    re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL | re.IGNORECASE),
    re.compile(r"^#{1,2}\s+(.+?)\s*#*$", re.MULTILINE),
    re.compile(r"^\s*(\S.{0,150}?)\s*$", re.MULTILINE),
)


def find_answers(
    profile: FolderProfile, columns: Sequence[Column], tables: Sequence[Column]
) -> tuple[Column, int] | None:
    """Return the column of short, different texts of which many occur in the documents, and how many of them do.

    Args:
        tables: The columns of texts in tables of documents.

    Returns:
        None, too, if another column has nearly as many.
    """
    found: list[tuple[Column, int]] = []
    bodies = (str(text) for column in tables for text in column.present)
    texts = [_plain(text) for text in (*_read(profile).values(), *_read_pdfs(profile), *bodies)] if columns else []
    for column in columns if texts else ():
        least, most = ANSWER_CHARACTERS
        values = column.present if column.kind == "text" else []
        distinct = {plain for value in values if least <= len(plain := _plain(value)) <= most}
        known = sum(any(value in text for text in texts) for value in distinct if re.search(r"[^\W\d_]", value))
        if 2 * len(distinct) > len(values) and known and known >= FOUND_SHARE * len(distinct):
            found.append((column, known))
    found.sort(key=lambda item: -item[1])
    return None if not found or (len(found) > 1 and found[1][1] > CLEAR_SHARE * found[0][1]) else found[0]


def titles_offer(profile: FolderProfile, columns: Sequence[Column]) -> tuple[str, tuple[str, ...]] | None:
    """Return a sentence and SQL for a column that names documents by their titles; None if no column does."""
    titles: dict[str, list[str]] = {}
    for name, text in _read(profile).items():
        title = _title(PurePosixPath(name).suffix, text) or ""
        for part in {_plain(one) for one in (title, *_SITE.split(title)) if one}:
            titles.setdefault(part, []).append(name)
    for column in columns:
        values = list(dict.fromkeys(column.present)) if column.kind == "text" else []
        named = {value: titles[_plain(value)][0] for value in values if len(titles.get(_plain(value), ())) == 1}
        if named and len(named) >= TITLE_SHARE * len(values):
            cases = [f"  WHEN {literal(value)} THEN {literal(file)}" for value, file in named.items()]
            text = (
                f"contexts: {len(named)} of the {len(values)} values of {column.name!r} are titles of documents. If "
                "these have the answers, write `questions` as SQL (SELECT ... FROM source) with the column below it."
            )
            head = f"CASE WHEN trim({column.sql}) <> '' THEN [{{file: CASE {column.sql}"
            return text, (head, *cases, f"  ELSE {column.sql} END}}] ELSE [] END AS contexts")
    return None


def _read(profile: FolderProfile) -> dict[str, str]:
    """Return the texts of documents that are text, by name."""
    texts: dict[str, str] = {}
    size = 0
    for name in profile.documents:
        path = Path(profile.folder, name)
        if PurePosixPath(name).suffix.lower() not in READ_SUFFIXES or (size := size + path.stat().st_size) > READ_BYTES:
            continue
        texts[name] = path.read_bytes().decode("utf-8-sig", "replace")
    return texts


def _read_pdfs(profile: FolderProfile) -> list[str]:
    paths = [Path(profile.folder, name) for name in profile.documents if name.lower().endswith(".pdf")]
    texts = []
    for path in sorted(paths, key=lambda path: path.stat().st_size)[:READ_PDFS]:
        with contextlib.suppress(DocumentError):
            texts.append(" ".join(read_texts(path)))
    return texts


def _title(suffix: str, text: str) -> str | None:
    patterns = {".md": _TITLES[2:3], ".txt": _TITLES[3:]}.get(suffix.lower(), _TITLES[:2])
    found = (match for pattern in patterns if (match := pattern.search(text)))
    return next((match[1] for match in found), None)


def _plain(text: str) -> str:
    """Return a text without markup, case, repeated white space and a full stop at its end."""
    text = html.unescape(_MARKUP.sub(" ", text)).replace("*", "")
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removesuffix(".")
