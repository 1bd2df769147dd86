"""Rows that hold more than a question: a question in several languages, and offsets into a document of the row."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.scaffold.columns import Column, Field
from rag_eval_pipeline.scaffold.links import BODIES, free_word
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import find_roles, is_gold, normalised
from rag_eval_pipeline.scaffold.structs import Structs, as_structs
from rag_eval_pipeline.scaffold.writer import Draft, Guess, context, struct

LANGUAGE = re.compile(r"[a-z]{2}([_-][A-Za-z]{2,4})?")
QUESTION_WORDS = frozenset("question questions query queries prompt prompts".split())
ANSWER_WORDS = frozenset("answer answers ground_truth ground_truths reference references".split())
ANSWER_TEXTS = ("text", "value", "answer")
ANSWER_LISTS = ("aliases", "answers")

BYTE_FIELDS = (re.compile(r"(.*_)?(start_byte|byte_start)"), re.compile(r"(.*_)?(end_byte|byte_end)"))
YES_NO = frozenset("yes_no_answer yes_no yesno".split())
BODY_WORDS = frozenset(BODIES.split()) | {"document_plaintext", "plaintext", "document_text", "full_text"}
NAMES = "document_title title page_title article document_id doc_id document_url url".split()
INSIDE_SHARE = 0.95  # of the offsets lie in the text


# --- A question in several languages


def translated(profile: FolderProfile) -> Draft | None:
    """Draft rows whose question and answers are objects with a key a language: each translation is a question."""
    for file in profile.data:
        question = next((c for c in file.columns if normalised(c.name) in QUESTION_WORDS and _languages(c)), None)
        if question is None or not all(field.kind == "text" for field in question.fields):
            continue
        answers = [c for c in file.columns if normalised(c.name) in ANSWER_WORDS and c is not question]
        for answer in answers:
            languages = [name for name in _languages(question) if name in _languages(answer)]
            if len(languages) > 1:
                return _draft_translated(file, question, answer, languages)
    return None


def _languages(column: Column) -> list[str]:
    names = [field.name for field in column.fields] if column.kind == "struct" else []
    return names if len(names) > 1 and all(map(LANGUAGE.fullmatch, names)) else []


def _draft_translated(file: DataFile, question: Column, answer: Column, languages: Sequence[str]) -> Draft:
    roles = find_roles(file, (question.name, answer.name))
    kinds = {field.name: field for field in answer.fields}
    word = free_word("part", file.columns)
    lines = ",\n".join(
        "    "
        + struct(
            {
                "language": f"'{name}'",
                "question": f"{question.sql}.{identifier(name)}",
                "answers": _answers_sql(f"{answer.sql}.{identifier(name)}", kinds[name], word),
            }
        )
        for name in languages
    )
    key = roles.exprs.get("source_id")
    source_id = f"CAST({key.sql} AS VARCHAR) || '-' || asked.language AS source_id, " if key is not None else ""
    questions = f"""\
SELECT {source_id}asked.question AS question, asked.answers AS answers,
       len(asked.answers) = 0 AS is_impossible, {struct({"language": "asked.language"})} AS metadata
FROM (
  SELECT *, unnest([
{lines}
  ]) AS asked
  FROM source
)"""
    empty = (
        f"is_impossible: where {answer.name!r} has no text. If the answers of some are only missing, leave these rows "
        "out with `where`."
    )
    text = (
        f"question: {question.name!r} in {len(languages)} languages ({', '.join(languages)}), each a question of its "
        "own with its language as metadata. Remove the lines of languages that you do not want."
    )
    no_documents = "documents: none were found, so the corpus is empty. Add `tables` and `documents`, or `urls`."
    used = {question.name, answer.name, *roles.columns.values()}
    return Draft(
        shape=f"questions in {len(languages)} languages",
        source=file.origin,
        questions=questions,
        guesses=(Guess("questions", text), Guess("questions", empty), Guess("documents", no_documents)),
        unused=tuple(column.described for column in file.columns if column.name not in used),
    )


def _answers_sql(sql: str, field: Field, word: str) -> str:
    """Return the SQL of the accepted answers of one language, without NULL."""
    if field.kind == "text":
        listed = f"[{sql}]"
    elif field.kind == "structs":
        names = {item.name: item.kind for item in field.fields}
        text = next((name for name in ANSWER_TEXTS if names.get(name) == "text"), None)
        more = next((name for name in ANSWER_LISTS if names.get(name) == "texts"), None)
        parts = [f"[{word}.{identifier(text)}]"] if text is not None else []
        parts += [f"coalesce({word}.{identifier(more)}, [])"] if more is not None else []
        listed = f"flatten(list_transform({sql}, lambda {word}: list_concat({', '.join(parts)})))" if parts else "[]"
    else:
        listed = sql
    return f"list_filter(CAST(coalesce({listed}, []) AS VARCHAR[]), lambda {word}: trim({word}) <> '')"


# --- Offsets in bytes


class _Spans(NamedTuple):
    """Offsets in bytes: the objects that have them, the two fields, and the text that they point into."""

    found: Structs
    start: str
    end: str
    body: Column


def byte_offsets(profile: FolderProfile) -> Draft | None:
    """Draft rows whose answers are offsets, in bytes of UTF-8, into a document that the row holds."""
    for file in profile.data:
        spans = next(_byte_spans(file), None)
        roles = find_roles(file)
        if spans is not None and "question" in roles.exprs and "answer" not in roles.exprs:
            return _draft_byte_offsets(file, spans)
    return None


def _byte_spans(file: DataFile) -> Iterator[_Spans]:
    bodies = [c for c in file.columns if c.kind == "text" and normalised(c.name) in BODY_WORDS]
    for column in filter(is_gold, file.columns):
        found = as_structs(column) if column.kind == "structs" else None
        if found is None:
            continue
        start, end = (
            next((name for name in found.kinds if pattern.fullmatch(normalised(name.rpartition(".")[2]))), None)
            for pattern in BYTE_FIELDS
        )
        for body in bodies:
            if start is not None and end is not None and _point_into(column, start, end, body):
                yield _Spans(found, start, end, body)


def _point_into(column: Column, start: str, end: str, body: Column) -> bool:
    """Return whether nearly all offsets that are not negative lie in the text of their row."""
    inside = total = 0
    for cell, text in zip(column.values, body.values, strict=True):
        size = len((text or "").encode())
        for item in cell or ():
            first, last = _at(item, start), _at(item, end)
            if first is None or last is None or first < 0:
                continue
            total += 1
            inside += first < last <= size
    return total > 0 and inside >= INSIDE_SHARE * total


def _at(item: object, path: str) -> int | None:
    for part in path.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item if isinstance(item, int) else None


def _draft_byte_offsets(file: DataFile, spans: _Spans) -> Draft:
    found, start, end, body = spans
    name = _document_name(file, body)
    named = name.as_text if name is not None else f"'document-' || left(md5({body.sql}), 12)"
    word = free_word("part", file.columns)
    roles = find_roles(file, (found.column.name, body.name, *([name.name] if name is not None else [])))
    first, last = found.of(word, start), found.of(word, end)
    fields = {
        "document": named,
        "text": f"byte_slice({body.sql}, {first}, {last})",
        "start": f"char_offset({body.sql}, {first})",
        "end": f"char_offset({body.sql}, {last})",
    }
    contexts = f"""list_transform(
           list_filter({found.sql}, lambda {word}: {first} >= 0),
           lambda {word}: {context(fields)}
         )"""
    yes_no = next((n for n in found.kinds if normalised(n.rpartition(".")[2]) in YES_NO), None)
    said = "[]"
    if yes_no is not None:
        said = f"list_transform({found.sql}, lambda {word}: lower({found.of(word, yes_no)}))"
        said = f"list_filter({said}, lambda {word}: {word} IN ('yes', 'no'))"
    kept = ",\n         ".join(f"{roles.exprs[role].sql} AS {role}" for role in roles.exprs if role != "is_impossible")
    columns = [role for role in roles.exprs if role != "is_impossible"]
    metadata = f",\n         {struct(roles.metadata)} AS metadata" if roles.metadata else ""
    questions = f"""\
SELECT {", ".join(columns)},
       list_concat(list_transform(contexts, lambda {word}: {word}.text), said) AS answers,
       len(contexts) = 0 AND len(said) = 0 AS is_impossible, contexts{", metadata" if metadata else ""}
FROM (
  SELECT {kept},
         {contexts} AS contexts,
         CAST({said} AS VARCHAR[]) AS said{metadata}
  FROM source
)"""
    documents = f"""\
SELECT {named} AS name, {body.sql} AS text, min(source_row) AS source_row
FROM source
GROUP BY ALL"""
    answer = (
        f"answers: the parts of {body.name!r} that {start!r} and {end!r} of {found.column.name!r} mark, in bytes of "
        "UTF-8; negative offsets mean none"
    )
    answer += f". {yes_no!r}, where it is yes or no, is an answer too." if yes_no is not None else "."
    text = f"documents: {body.name!r}, named by {name.name!r}." if name is not None else f"documents: {body.name!r}."
    used = {found.column.name, body.name, *roles.used, *([name.name] if name is not None else [])}
    return Draft(
        shape="answers by offsets in bytes",
        source=file.origin,
        questions=questions,
        documents=documents,
        guesses=(
            *roles.guesses,
            Guess("questions", answer),
            Guess(
                "questions",
                "is_impossible: where no offset is given. If such rows have a longer answer elsewhere, leave them out "
                "with `where`.",
            ),
            Guess("documents", text),
        ),
        unused=tuple(column.described for column in file.columns if column.name not in used),
    )


def _document_name(file: DataFile, body: Column) -> Column | None:
    """Return the column that names the documents: each of its values has one text."""
    names = {normalised(column.name): column for column in file.columns if column is not body}
    for column in (names[word] for word in NAMES if word in names and names[word].kind == "text"):
        pairs = {(key, text) for key, text in zip(column.values, body.values, strict=True) if text}
        if len({key for key, _ in pairs}) == len(pairs) and all(key for key, _ in pairs):
            return column
    return None
