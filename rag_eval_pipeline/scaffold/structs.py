"""Contexts that are a list of objects: structs, JSON in a cell, or a struct of parallel lists.

Each object may name its document, quote it, say where the quote is, and say whether it supports the answer at all.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.conversion.questions import SPEAKERS
from rag_eval_pipeline.scaffold.columns import Column, Field, Kind, is_html, read_cell
from rag_eval_pipeline.scaffold.headers import ROLES, bare, is_gold, normalised
from rag_eval_pipeline.scaffold.links import (
    Corpus,
    Link,
    find_target,
    free_word,
    grouped_documents,
    mirror_corpus,
)
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import is_history
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, as_column, context, struct

GOLD_FLAGS = frozenset(
    "is_supporting is_support is_gold gold is_relevant relevant is_evidence supporting is_selected selected".split()
)
CONTEXT_FIELDS: dict[str, tuple[tuple[Kind, ...], str]] = {  # our field: kinds and names of theirs
    "url": (("text",), "url link source_url page_url doc_url"),
    "file": (("text",), "file filename file_name doc_name document_name file_path path doc_uri"),
    "document": (
        ("text", "integer"),
        "document doc_id document_id docid passage_id doc title page_title doc_title page_name",
    ),
    "text": (
        ("text",),
        "text content contents quote passage paragraph_text evidence_text evidence sentence fact snippet context "
        "paragraph span excerpt passage_text highlight body answer",
    ),
    "page": (("integer",), "page page_number page_no page_num"),
    "start": (("integer",), "start start_index start_char char_start begin offset_start start_offset start_position"),
    "end": (("integer",), "end end_index end_char char_end stop offset_end end_offset end_position"),
}
GRADES = frozenset("relevance relevance_grade relevance_label query_relevance_label grade judgment judgement".split())
TITLE_WORDS = 12
SCORES = frozenset("score rank similarity distance".split())
RESULT_NAMES = frozenset("docs documents passages ctxs hits chunks sources".split())

_SQL_TYPES: dict[Kind, str] = {"text": "VARCHAR", "integer": "BIGINT", "boolean": "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class Structs:
    """A column whose cells are lists of objects."""

    column: Column
    sql: str  # of the list
    items: list[dict[str, Any]]  # the objects of the sample, with nested names joined by dots
    kinds: dict[str, Kind]  # of their fields
    paths: dict[str, str]  # the SQL of their fields, after the object
    is_native: bool = False  # the column is a list of structs, and can be used unchanged

    @property
    def fields(self) -> dict[str, str]:
        """Our field <- their field, by names and kinds."""
        names = _names(self.column, self.kinds)
        found: dict[str, str] = {}
        for ours, (kinds, words) in CONTEXT_FIELDS.items():
            for word in words.split():
                theirs = names.get(word)
                if theirs is not None and self.kinds[theirs] in kinds and theirs not in found.values():
                    found[ours] = theirs
                    break
        return found

    @property
    def gold(self) -> str | None:
        """The field that marks the objects that support the answer; None if all do."""
        for name, kind in self.kinds.items():
            values = self.values(name)
            is_flag = kind == "boolean" or (kind == "integer" and set(values) <= {0, 1})
            if is_flag and values and normalised(name.rpartition(".")[2]) in GOLD_FLAGS:
                return name
        return None

    @property
    def grade(self) -> str | None:
        """The field with the grades of judged documents, whole numbers from 0; None without any."""
        for name, kind in self.kinds.items():
            values = self.values(name)
            if kind == "integer" and values and min(values) >= 0 and normalised(name.rpartition(".")[2]) in GRADES:
                return name
        return None

    @property
    def is_ranking(self) -> bool:
        """Whether these are results of a search: they have scores, and neither a mark nor the name calls them gold."""
        has_score = any(normalised(name) in SCORES and kind == "number" for name, kind in self.kinds.items())
        return has_score and self.gold is None and normalised(self.column.name) in RESULT_NAMES

    @property
    def asks(self) -> bool:
        """Whether the objects have questions of their own."""
        return any(normalised(name) in {"question", "query"} for name in self.kinds)

    @property
    def speaks(self) -> bool:
        """Whether the objects are messages of a conversation."""
        names = [name for name in self.kinds if normalised(name) in {"role", "speaker"}]
        return any(str(value).casefold() in SPEAKERS for name in names for value in self.values(name))

    @property
    def html(self) -> str | None:
        """The field with the longest HTML."""
        found = [name for name, kind in self.kinds.items() if kind == "text" and is_html(self.values(name))]
        return max(found, key=lambda name: sum(map(len, self.values(name))), default=None)

    def values(self, name: str) -> list[Any]:
        """Return a field's values in the sample, without NULL."""
        return [item[name] for item in self.items if item.get(name) not in (None, "")]

    def of(self, word: str, name: str) -> str:
        """Return the SQL of a field of the object that a lambda calls `word`."""
        return f"{word}{self.paths[name]}"


def find_structs(file: DataFile) -> Structs | None:
    """Return the first gold column whose objects have a text, a URL, a file or a document."""
    for column in filter(is_gold, (*file.columns, *file.nested)):
        # Pairs of texts may be titles with texts as well as questions with answers: their name decides.
        is_said = (column.kind != "text lists" or bare(column.name) in ROLES["history"]) and is_history(column)
        found = None if bare(column.name) in ROLES["facts"] or is_said else as_structs(column)
        found = None if found is not None and (found.is_ranking or found.asks or found.speaks) else found
        fields = set() if found is None else set(found.fields)
        is_answer = not {"answer", "answers"}.isdisjoint(normalised(column.name).split("_"))
        if found is not None and {"url", "file", "document", *([] if is_answer else ["text"])} & fields:
            return found
    return None


def find_pages(file: DataFile) -> Structs | None:
    """Return the first column whose objects are whole documents, but not those that support the answer."""
    for column in (*file.columns, *file.nested):
        found = as_structs(column)
        found = None if found is None or (is_gold(column) and not found.is_ranking) else found
        if (
            found is not None
            and {"url", "file", "document"} & set(found.fields)
            and (found.html or "text" in found.fields)
        ):
            return found
    return None


def as_structs(column: Column) -> Structs | None:
    """Return a column's lists of objects; None if it has none."""
    return _native(column) or _parallel(column) or _pairs(column) or _json(column)


def struct_link(profile: FolderProfile, file: DataFile, found: Structs, scalar: Link | None) -> Link:
    """Return contexts from objects, with the documents that they name, or else that the row names."""
    word = free_word("part", file.columns)
    used, guesses = frozenset({found.column.name}), []
    named = _named_documents(profile, file, found, word)
    is_made = False
    if named is not None and named[1].documents is not None:
        place, corpus = named
    elif scalar is not None and scalar.scalar is not None:
        place, corpus, used, guesses = scalar.scalar, scalar.corpus, used | scalar.used, list(scalar.guesses)
    else:
        own = _own_documents(found, word)
        is_made = own is not None
        place, corpus = own or named or ({}, Corpus())
    # Offsets are kept only if the document is in the folder: those in a page to be fetched could not be checked.
    # Pages and offsets are those of the real document, which one that is made from quotations does not have.
    kept = ["text"] if is_made else ["text", "page"]
    if corpus.documents and not is_made and "url" not in place and {"start", "end"} <= set(found.fields):
        kept += ["start", "end"]
    fields = {**place, **{ours: found.of(word, found.fields[ours]) for ours in kept if ours in found.fields}}
    if found.grade is not None:
        fields["relevance"] = found.of(word, found.grade)
    base = ""
    if "page" in fields:
        starts_at_zero = 0 in found.values(found.fields["page"])
        base = "; pages count from 0 in the file, so 1 is added" if starts_at_zero else "; pages count from 1"
        fields["page"] += " + 1" if starts_at_zero else ""
    listed = gold_sql(found, word)
    is_same = found.is_native and set(found.kinds) == set(fields) and listed == found.sql
    expr = ColumnExpr(f"list_transform({listed}, lambda {word}: {context(fields)})")
    if is_same and all(sql == f"{word}.{identifier(name)}" for name, sql in fields.items()):
        expr = as_column(found.column)
    fields_from = ", ".join(f"{ours} from {theirs!r}" for ours, theirs in found.fields.items() if ours in fields)
    text = f"contexts: {found.column.name!r}" + (f", with {fields_from}" if fields_from else "")
    text += f", where {found.gold!r} is true" if found.gold is not None else ""
    text += f", with grades from {found.grade!r}" if found.grade is not None else ""
    is_lost = corpus.documents is None and not {"document", "file"}.isdisjoint(place)
    unfound = found.column.name if is_lost else None
    return Link({"contexts": expr}, used, corpus, (Guess("questions", f"{text}{base}."), *guesses), unfound=unfound)


def gold_sql(found: Structs, word: str) -> str:
    """Return the SQL of the objects that support the answer."""
    if found.gold is None:
        return found.sql
    flag = found.of(word, found.gold) + (" = 1" if found.kinds[found.gold] == "integer" else "")
    return f"list_filter({found.sql}, lambda {word}: {flag})"


def pages_corpus(file: DataFile, found: Structs) -> Corpus:
    """Return the documents that a column's objects are: their HTML, or else their texts, by name."""
    chosen = next(ours for ours in ("url", "file", "document") if ours in found.fields)
    return _embedded(found, free_word("part", file.columns), chosen)


def _named_documents(
    profile: FolderProfile, file: DataFile, found: Structs, word: str
) -> tuple[dict[str, str], Corpus] | None:
    """Return the field that names an object's document, with the folder's documents if it names these."""
    unfound = None
    for ours in ("url", "file", "document"):
        if ours not in found.fields:
            continue
        sql = _name_sql(found, word, ours)
        values = list(dict.fromkeys(str(value) for value in found.values(found.fields[ours])))
        target = find_target(profile, file, values)
        if target is not None:
            return {target.field: target.named(sql)}, target.corpus(values)
        corpus = Corpus()
        if ours == "url":
            urls = f"unnest(list_transform({found.sql}, lambda {word}: {sql}))"
            corpus = mirror_corpus(profile, file, values, urls)
            if corpus.documents is not None:
                return {"url": sql}, corpus
        unfound = unfound or ({"url" if ours == "url" else "document": sql}, corpus)
    return unfound


def _own_documents(found: Structs, word: str) -> tuple[dict[str, str], Corpus] | None:
    """Return the field that names an object's document, with documents made from the objects; None if they hold none.

    Texts beside a URL are quotations of a page, unless some of them are marked as those that support the answer.
    """
    ours = next((ours for ours in ("url", "file", "document") if ours in found.fields), None)
    if ours is None or (found.html is None and "text" not in found.fields):
        return None
    if ours == "url" and found.html is None and found.gold is None:
        return None
    place = {"url" if ours == "url" else "document": _name_sql(found, word, ours)}
    return place, _embedded(found, word, ours)


def _name_sql(found: Structs, word: str, ours: str) -> str:
    sql = found.of(word, found.fields[ours])
    return f"CAST({sql} AS VARCHAR)" if found.kinds[found.fields[ours]] == "integer" else sql


def _embedded(found: Structs, word: str, ours: str) -> Corpus:
    body = found.html or found.fields["text"]
    pairs = struct({"title": _name_sql(found, word, ours), "paragraph": found.of(word, body)})
    documents = grouped_documents(
        f"""\
SELECT source_row, pair.title AS title, pair.paragraph AS paragraph
    FROM (SELECT source_row, unnest(list_transform({found.sql}, lambda {word}: {pairs})) AS pair FROM source)""",
        name="url" if ours == "url" else "name",
        body="html" if found.html else "text",
    )
    what = "HTML" if found.html else "texts"
    is_quoted = found.gold is None and found.html is None and is_gold(found.column)
    text = (
        f"documents: made from the {what} in {found.column.name!r} ({body!r}), which come with the questions, grouped "
        f"by {found.fields[ours]!r}. If the documents are elsewhere, add them as `tables`, and change this query."
    )
    text += " They hold only what is quoted, which makes retrieval easy." if is_quoted else ""
    return Corpus(documents=documents, guesses=(Guess("documents", text),))


def _names(column: Column, kinds: dict[str, Kind]) -> dict[str, str]:
    """Return their fields by normalised name; then without the column's name before it; then by the last part."""
    prefix = normalised(column.name.rpartition(".")[2])
    prefixes = tuple(f"{word}_" for word in (prefix, prefix.removesuffix("s")))
    names: dict[str, str] = {}
    for name in kinds:
        names.setdefault(normalised(name), name)
    for name in kinds:
        for start in prefixes:
            if normalised(name).startswith(start):
                names.setdefault(normalised(name).removeprefix(start), name)
        names.setdefault(normalised(name.rpartition(".")[2]), name)
    for name in kinds:
        names.setdefault(normalised(name).rpartition("_")[2], name)
    return names


def _native(column: Column) -> Structs | None:
    if column.kind != "structs":
        return None
    fields = list(_flat_fields(column.fields))
    items = [
        {name: _get(item, path) for name, path, _ in fields}
        for cell in column.present
        for item in cell
        if item is not None
    ]
    return Structs(
        column,
        column.sql,
        items,
        {name: kind for name, _, kind in fields},
        {name: "".join(f".{identifier(part)}" for part in path) for name, path, _ in fields},
        is_native=column.path is None,
    )


def _flat_fields(fields: Iterable[Field], before: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...], Kind]]:
    """Yield name, path and kind of each field, and of those of structs in structs."""
    for item in fields:
        path = (*before, item.name)
        yield ".".join(path), path, item.kind
        yield from _flat_fields(item.fields, path) if item.kind == "struct" else ()


def _get(item: Any, path: Sequence[str]) -> Any:
    for part in path:
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _parallel(column: Column) -> Structs | None:
    """Return the lists in a struct as a list of structs, if they are of equal length in each row."""
    if column.kind != "struct":
        return None
    cells = column.present
    names = [item.name for item in column.fields if any(isinstance(cell.get(item.name), list) for cell in cells)]
    if len(names) < 2 or not cells or any(len({len(cell.get(name) or ()) for name in names}) > 1 for cell in cells):
        return None
    items = [
        dict(zip(names, row, strict=True))
        for cell in cells
        for row in zip(*(cell[n] or () for n in names), strict=True)
    ]
    kinds = {name: _json_kind([item[name] for item in items]) for name in names}
    lists = ", ".join(f"{column.sql}.{identifier(name)}" for name in names)
    return Structs(
        column, f"list_zip({lists})", items, kinds, {name: f"[{place}]" for place, name in enumerate(names, start=1)}
    )


def _pairs(column: Column) -> Structs | None:
    """Return the pairs of a title and a text in a list of lists."""
    pairs = [pair for cell in column.present for pair in cell or ()] if column.kind == "text lists" else []
    if not pairs or not all(pair and len(pair) == 2 and None not in pair for pair in pairs):
        return None
    are_titles = all(len(title.split()) <= TITLE_WORDS and len(title) < len(text) for title, text in pairs)
    sentences = sum(len(text.split()) > 3 or not text.isascii() for _, text in pairs)
    if not are_titles or 2 * sentences < len(pairs):
        return None
    names = ("title", "text")
    items = [dict(zip(names, pair, strict=True)) for pair in pairs]
    return Structs(column, column.sql, items, dict.fromkeys(names, "text"), {"title": "[1]", "text": "[2]"})


def _json(column: Column) -> Structs | None:
    """Return the objects of a text column in which each cell is a JSON list of objects."""
    items: list[dict[str, Any]] = []
    for cell in column.present if column.kind == "text" else ():
        found = read_cell(json.loads, cell) if cell.lstrip().startswith("[") else None
        if found is None or not all(isinstance(item, dict) for item in found):
            return None
        items.extend(found)
    if not items:
        return None
    kinds = {
        key: _json_kind([item.get(key) for item in items]) for key in dict.fromkeys(k for item in items for k in item)
    }
    unread = Structs(column, column.sql, items, kinds, {key: f".{identifier(key)}" for key in kinds})
    wanted = [*dict.fromkeys((*unread.fields.values(), *filter(None, (unread.gold, unread.grade, unread.html))))]
    types = json.dumps([{name: _SQL_TYPES[kinds[name]] for name in wanted}])
    return replace(unread, sql=f"from_json(nullif(trim({column.sql}), ''), {literal(types)})")


def _json_kind(values: Sequence[Any]) -> Kind:
    kinds = {type(value) for value in values if value is not None}
    kind: dict[type, Kind] = {str: "text", int: "integer", bool: "boolean"}
    return kind.get(next(iter(kinds)), "other") if len(kinds) == 1 else "other"
