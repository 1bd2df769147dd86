"""Text files that are not UTF-8, and JSON with NaN: both are read where it is clear how, and counted where not."""

import re
from typing import Any

import pyarrow as pa

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.headers import role_of
from rag_eval_pipeline.sources.relations import Relation, read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.workspace import BenchmarkPaths

# Tried in this order: in one of them, a column's name beyond ASCII is a word for a question, an answer or the like.
_ENCODINGS = ("cp1252", "cp1250", "cp1251", "cp1254", "cp932", "gb18030", "cp949", "big5")
_FOREIGN = re.compile("[^\x00-\x7f]{3}|[ÂÃâ][^a-zA-ZÀ-ÿ]")  # as cp1252: text of another script, or UTF-8

_NAN = "`allow_nan: true`"  # what the message of a row with NaN offers


def read_text(
    paths: BenchmarkPaths, name: str, stated: dict[str, Any]
) -> tuple[Relation, dict[str, Any], tuple[str, ...]]:
    """Return a relation, the keys of `source` with which it was read, and notes.

    `encoding` is added if the file is not UTF-8: the one in which the names of its columns are known words, or cp1252
    if its letters beyond ASCII mostly stand alone, as they do not in other scripts, nor in UTF-8 that is read as
    cp1252; `quote: none` if quotes would swallow rows; `allow_nan`
    where rows of JSON have NaN.

    Raises:
        InputError: The relation cannot be read; `bad_encoding` if its header is in an unknown encoding.
    """
    try:
        relation = _read(paths, name, stated)
    except InputError as error:
        if error.code == "quotes_as_text":
            relation, stated, notes = read_text(paths, name, {**stated, "quote": "none"})
            return relation, stated, (f"quote: quotes in {name} are text, not around cells.", *notes)
        if _NAN in error.expected and "allow_nan" not in stated:
            return _read_nan(paths, name, stated)
        if error.code != "bad_encoding" or (found := _read_encoded(paths, name, stated)) is None:
            raise
        return found
    if any(_NAN in row.expected for row in relation.rejected) and "allow_nan" not in stated:
        return _read_nan(paths, name, stated)
    unread = _badly_encoded(relation)
    if not unread:
        return relation, stated, ()
    text = (
        f"encoding: rows of {name} that are not UTF-8 and were not read: {unread}. Save the file as UTF-8, or state "
        "`encoding` in `source`."
    )
    return _read_encoded(paths, name, stated) or (relation, stated, (text,))


def _read_nan(
    paths: BenchmarkPaths, name: str, stated: dict[str, Any]
) -> tuple[Relation, dict[str, Any], tuple[str, ...]]:
    relation, stated, notes = read_text(paths, name, {**stated, "allow_nan": True})
    return relation, stated, (f"allow_nan: {name} has NaN, which JSON does not know and which is read as null.", *notes)


def _read(paths: BenchmarkPaths, name: str, stated: dict[str, Any]) -> Relation:
    # A name with glob characters that exists is read as that file, as the conversion does.
    return read_relation(paths, SourceSpec.model_validate({"path": name, **stated}))


def _read_encoded(
    paths: BenchmarkPaths, name: str, stated: dict[str, Any]
) -> tuple[Relation, dict[str, Any], tuple[str, ...]] | None:
    read = {}
    for encoding in _ENCODINGS:
        try:
            relation = _read(paths, name, {**stated, "encoding": encoding})
        except InputError:
            continue
        if not _badly_encoded(relation):
            read[encoding] = relation
    named = (code for code, found in read.items() if any(not n.isascii() and role_of(n) for n in found.schema.names))
    encoding = next(named, "cp1252")
    words = _words_beyond_ascii(read[encoding].table) if encoding in read else []
    foreign = sum(bool(_FOREIGN.search(word)) for word in words) if encoding == "cp1252" else 0
    if encoding not in read or foreign * 10 > len(words):
        return None
    shown = ", ".join(map(repr, dict.fromkeys(words[:3])))
    note = f"encoding: {name} is not UTF-8 and was read as {encoding} (Windows), which gives {shown}."
    return read[encoding], {**stated, "encoding": encoding}, (note,)


def _badly_encoded(relation: Relation) -> int:
    return sum(row.code == "bad_encoding" for row in relation.rejected)


def _words_beyond_ascii(table: pa.Table) -> list[str]:
    texts = [name for name in table.column_names if not name.isascii()]
    for column in table.columns:
        if pa.types.is_string(column.type):
            texts += [value for value in column.to_pylist() if value and not value.isascii()]
    return [word for text in texts for word in text.split() if not word.isascii()]
