"""Questions inside the rows: each row is a document with a list of questions about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.headers import ROLES, normalised
from rag_eval_pipeline.scaffold.links import Corpus, Link, free_word, grouped_documents
from rag_eval_pipeline.scaffold.nesting import nested_columns
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.rows import draft_linked
from rag_eval_pipeline.scaffold.selection import score_file
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Draft, Guess, context

QUESTION_FIELDS = frozenset(ROLES["question"][:8])
BODY_NAMES = (*ROLES["body"], "story", "full_text", "sections", "paragraphs", "abstract")
NAMES = "title name id doc_id document_id source_key url".split()
SECTION_FIELDS = ("paragraphs", "sentences")  # lists of texts in a list of sections


def inner_questions(profile: FolderProfile) -> Draft | None:
    """Draft documents with lists of questions: each question becomes a row, and its document is the outer row's."""
    if any(score_file(file).points for file in profile.data):
        return None
    for file in profile.data:
        for column in file.columns:
            names = {normalised(field.name) for field in column.fields if field.kind == "text"}
            if column.kind == "structs" and names & QUESTION_FIELDS:
                return _draft(file, column)
    return None


def _draft(file: DataFile, column: Column) -> Draft:
    word = free_word("asked", file.columns)
    inner = _unnested(file, column, word)
    link = _document_link(file, column)
    draft = draft_linked(FolderProfile(()), inner, link)
    text = f"question: each object in {column.name!r} is a question about the document of its row."
    return replace(
        draft,
        shape="documents with questions inside",
        relation=f"(SELECT *, unnest({column.sql}) AS {word} FROM source)",
        guesses=(Guess("questions", text), *draft.guesses),
    )


def _unnested(file: DataFile, column: Column, word: str) -> DataFile:
    """Return the rows that SQL's `unnest` makes of a list of structs, with the fields as columns."""
    objects = [item for cell in column.values for item in cell or () if item is not None]
    columns = []
    for field in column.fields:
        values = tuple(item.get(field.name) for item in objects)
        is_unique = _is_unique(values) and file.sampled == file.rows
        path = f"{word}.{identifier(field.name)}"
        columns.append(Column(field.name, field.kind, values, field.fields, is_unique, path))
    return replace(file, columns=tuple(columns), nested=nested_columns(columns, len(objects)))


def _is_unique(values: Sequence[Any]) -> bool:
    is_key = all(isinstance(value, str | int) for value in values)
    return is_key and bool(values) and len(set(values)) == len(values)


def _document_link(file: DataFile, questions: Column) -> Link:
    """Return the link from each question to the document of its row, made of the row's longest text or sections."""
    found = {normalised(column.name): column for column in reversed(file.columns) if column is not questions}
    bodies = [found[word] for word in BODY_NAMES if word in found and _body_sql(found[word]) is not None]
    body = max(bodies, key=lambda column: len(str(column.present[:50])), default=None)
    sql = None if body is None else _body_sql(body)
    names = (found[word] for word in NAMES if word in found)
    name = next((column for column in names if column.is_unique and column.kind in {"text", "integer"}), None)
    if body is None or sql is None:
        return Link()
    named = name.as_text if name is not None else f"'document-' || left(md5({sql}), 12)"
    documents = grouped_documents(f"SELECT source_row, {named} AS title, {sql} AS paragraph FROM source")
    shown = f"{body.name!r}, named by {name.name!r}" if name is not None else f"{body.name!r}"
    corpus = Corpus(documents=documents, guesses=(Guess("documents", f"documents: {shown}."),))
    expr = ColumnExpr(f"[{context({'document': named})}]")
    return Link({"contexts": expr}, frozenset(), corpus)


def _body_sql(column: Column) -> str | None:
    """Return the SQL of a document's text: of a text, of a list of texts, or of sections with paragraphs."""
    if column.kind == "text":
        return column.sql
    if column.kind == "texts":
        return f"array_to_string({column.sql}, chr(10) || chr(10))"
    lists = {field.name for field in column.fields if field.kind == "texts"}
    inner = next((name for name in SECTION_FIELDS if name in lists), None)
    if column.kind != "structs" or inner is None:
        return None
    paragraphs = f"flatten(list_transform({column.sql}, lambda section: section.{identifier(inner)}))"
    return f"array_to_string({paragraphs}, chr(10) || chr(10))"
