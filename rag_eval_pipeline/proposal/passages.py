"""Contexts that a question brings along: structs with text, document and offsets, or plain gold texts."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_eval_pipeline.proposal.bodies import URL
from rag_eval_pipeline.proposal.columns import Column, DataFile, Field, Kind
from rag_eval_pipeline.proposal.draft import Guess, Piece, context, identifier, literal, struct
from rag_eval_pipeline.proposal.links import Link, free_word
from rag_eval_pipeline.proposal.lists import list_forms
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.roles import is_gold
from rag_eval_pipeline.proposal.targets import Corpus, find_target, mirror_corpus
from rag_eval_pipeline.proposal.words import CONTEXT_FIELDS, GOLD_FLAGS, GOLD_TEXTS, normalised

_FIELD_KINDS: dict[str, tuple[Kind, ...]] = {
    "document": ("text", "integer"),
    "page": ("integer",),
    "start": ("integer",),
    "end": ("integer",),
}
_SQL_TYPES: dict[Kind, str] = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class Structs:
    """A column of lists of structs.

    Args:
        sql: The list.
        fields: Our field <- their field.
        values: Of the sample, flat.
        gold: Their field that says which structs support the answer; None when all do.
    """

    column: Column
    sql: str
    fields: dict[str, Field]
    values: list[dict[str, Any]] = field(repr=False)
    is_json: bool = False
    gold: str | None = None


def find_structs(file: DataFile, taken: Iterable[str] = ()) -> Structs | None:
    """The first gold column whose structs have a text, a URL, a file or a document."""
    taken = set(taken)
    for column in file.columns:
        if column.name in taken or not is_gold(column):
            continue
        found = _structs(column) or _json_structs(column)
        if found is not None and not {"text", "url", "file", "document"}.isdisjoint(found.fields):
            return found
    return None


def struct_link(seen: Seen, file: DataFile, found: Structs, scalar: Link | None) -> Link:
    """Contexts from structs, and the documents that they, or another column of their row, name.

    Args:
        seen: What lies beside the file.
        file: That of the structs.
        found: The structs.
        scalar: A link whose `scalar` names the document of all of a row's structs.
    """
    word = free_word("part", file.columns)
    fields = {ours: f"{word}.{identifier(theirs.name)}" for ours, theirs in found.fields.items()}
    named = [name for name in ("url", "file", "document") if name in fields]
    place: dict[str, str] = {}
    corpus, used, guesses = Corpus(), frozenset({found.column.name}), []
    if scalar is not None and scalar.scalar is not None:
        place, corpus, used, guesses = scalar.scalar, scalar.corpus, used | scalar.used, list(scalar.guesses)
    elif named:
        place, corpus = _place(seen, file, found, word, fields, named[0])
    # Offsets count in a body that is here; those of a page that is fetched would be checked against nothing.
    kept = ("text", "page", "start", "end") if corpus.documents and "url" not in place else ("text", "page")
    kept = kept if {"start", "end"} <= set(fields) else ("text", "page")
    ordered = {**place, **{name: fields[name] for name in kept if name in fields}}
    gold = found.sql
    if found.gold is not None:
        gold = f"list_filter({found.sql}, lambda {word}: {word}.{identifier(found.gold)})"
    is_column = not found.is_json and {part.name for part in found.column.fields} == set(ordered)
    is_column = is_column and all(sql == f"{word}.{identifier(name)}" for name, sql in ordered.items())
    piece = Piece(identifier(found.column.name), found.column.name)
    if not is_column:
        piece = Piece(f"list_transform({gold}, lambda {word}: {context(ordered)})")
    text = f"contexts: {found.column.name!r}, with {', '.join(f'{o} from {f.name!r}' for o, f in found.fields.items())}"
    if found.gold is not None:
        text += f", where {found.gold!r} is true"
    if "page" in ordered:
        text += "; its pages are taken to count from 1"
    return Link({"contexts": piece}, used, corpus, (Guess("questions", f"{text}."), *guesses))


def _place(
    seen: Seen, file: DataFile, found: Structs, word: str, fields: dict[str, str], chosen: str
) -> tuple[dict[str, str], Corpus]:
    """The field that names a struct's document, and the documents: the folder's, else the structs' own texts."""
    theirs = found.fields[chosen]
    values = [str(item[theirs.name]) for item in found.values if item.get(theirs.name) not in (None, "")]
    sql = f"CAST({fields[chosen]} AS VARCHAR)" if theirs.kind == "integer" else fields[chosen]
    if chosen == "url":
        listed = f"unnest(list_transform({found.sql}, lambda {word}: {sql}))"
        return {"url": sql}, mirror_corpus(seen, file, list(dict.fromkeys(values)), listed)
    target = find_target(seen, file, values)
    if target is not None:
        return {target.field: target.named(sql)}, target.corpus(list(dict.fromkeys(values)))
    if "text" not in fields:
        return {"document": sql}, Corpus()
    text = "documents: the texts that questions bring along, grouped by the name that they give."
    documents = _own_documents(found, word, sql, fields["text"])
    return {"document": sql}, Corpus(documents=documents, guesses=(Guess("documents", text),))


def text_link(file: DataFile, taken: Iterable[str], scalar: Link | None) -> Link | None:
    """Gold texts, with the document of another column where each row names one; None without gold texts."""
    taken = set(taken)
    columns = {normalised(column.name): column for column in reversed(file.columns) if column.name not in taken}
    for name in GOLD_TEXTS:
        column = columns.get(name)
        if column is None or not is_gold(column) or column.kind not in {"text", "texts"} or not column.present:
            continue
        if column.kind == "text" and all(re.fullmatch(URL, value) for value in column.present):
            continue
        form = next(list_forms(column, separators=()))
        text = f"contexts: gold texts from {column.described}"
        if scalar is not None and scalar.scalar is not None and form.is_single:
            [(field, named)] = scalar.scalar.items()
            sql = f"[{context({field: named, 'text': identifier(column.name)})}]"
            if not column.is_full or not all(linked.is_full for linked in file.columns if linked.name in scalar.used):
                place, quote = f"nullif({named}, '')", f"nullif({identifier(column.name)}, '')"
                body = context({field: place, "text": quote})
                sql = f"CASE WHEN coalesce({place}, {quote}) IS NULL THEN [] ELSE [{body}] END"
            guesses = (Guess("questions", f"{text}, beside the document."), *scalar.guesses)
            used = scalar.used | {column.name}
            return Link({"contexts": Piece(sql)}, used, scalar.corpus, guesses)
        if scalar is not None:
            return None
        plain = column.kind == "texts" or (form.is_single and column.is_full)
        piece = Piece(identifier(column.name), column.name) if plain else Piece(form.sql)
        return Link({"contexts": piece}, frozenset({column.name}), guesses=(Guess("questions", f"{text}."),))
    return None


def _structs(column: Column) -> Structs | None:
    if column.kind != "structs":
        return None
    values = [item for cell in column.present for item in cell if item is not None]
    flags = [item.name for item in column.fields if item.kind == "boolean" and normalised(item.name) in GOLD_FLAGS]
    return Structs(column, identifier(column.name), _fields(column.fields), values, gold=flags[0] if flags else None)


def _json_structs(column: Column) -> Structs | None:
    """A text column of which each cell is a JSON list of objects."""
    if column.kind != "text" or not column.present:
        return None
    values: list[dict[str, Any]] = []
    for cell in column.present:
        if not cell.lstrip().startswith("["):
            return None
        try:
            items = json.loads(cell)
        except (ValueError, RecursionError):
            return None
        if not all(isinstance(item, dict) for item in items):
            return None
        values.extend(items)
    fields = _fields([Field(name, _kind([item.get(name) for item in values])) for name in _keys(values)])
    if not values:
        return None
    wanted = json.dumps([{theirs.name: _SQL_TYPES[theirs.kind] for theirs in fields.values()}])
    sql = f"from_json(nullif(trim({identifier(column.name)}), ''), {literal(wanted)})"
    return Structs(column, sql, fields, values, is_json=True)


def _keys(values: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for item in values for key in item))


def _kind(values: Sequence[Any]) -> Kind:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str}:
        return "text"
    if kinds == {int}:
        return "integer"
    return "other"


def _fields(fields: Sequence[Field]) -> dict[str, Field]:
    """Our field <- their field, by names and kinds."""
    names = {normalised(item.name): item for item in reversed(fields)}
    found: dict[str, Field] = {}
    for ours, listed in CONTEXT_FIELDS.items():
        wanted = _FIELD_KINDS.get(ours, ("text",))
        for word in listed:
            if word in names and names[word].kind in wanted and names[word] not in found.values():
                found[ours] = names[word]
                break
    return found


def _own_documents(found: Structs, word: str, name: str, text: str) -> str:
    """SQL of documents made of the structs' own texts."""
    pairs = struct({"title": name, "paragraph": text})
    return grouped_documents(
        f"SELECT source_row, pair.title AS title, pair.paragraph AS paragraph\n"
        f"    FROM (SELECT source_row, unnest(list_transform({found.sql}, lambda {word}: {pairs})) AS pair FROM source)"
    )


def grouped_documents(pairs: str) -> str:
    """SQL of one document a title, made of all its different paragraphs in their order.

    Args:
        pairs: A SELECT of source_row, title, paragraph.
    """
    return (
        "SELECT title AS name, string_agg(paragraph, chr(10) || chr(10) ORDER BY first_row) AS text,\n"
        "       min(first_row) AS source_row\n"
        "FROM (\n"
        "  SELECT title, paragraph, min(source_row) AS first_row\n"
        f"  FROM (\n    {pairs}\n  )\n"
        "  WHERE title <> '' AND paragraph <> ''\n"
        "  GROUP BY title, paragraph\n"
        ")\n"
        "GROUP BY title"
    )
