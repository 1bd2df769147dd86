"""Which format a benchmark's files have: a known one by its recipe, any other by a guess.

The first shape in `SHAPES` that fits is used, so special ones come before general ones. Two are here: traces, which
look like questions with answers, but whose outputs are what a system answered, never the truth; and documents with a
list of questions in each row.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.scaffold.columns import Column, are_keys, nested_columns
from rag_eval_pipeline.scaffold.headers import ROLES, normalised
from rag_eval_pipeline.scaffold.joined_files import with_joined_files
from rag_eval_pipeline.scaffold.judgements import qrels
from rag_eval_pipeline.scaffold.links import Corpus, Link, free_word, grouped_documents
from rag_eval_pipeline.scaffold.multiple_choice import with_chosen_answers
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.recipe import Recipe
from rag_eval_pipeline.scaffold.recipe_draft import draft_by_recipe
from rag_eval_pipeline.scaffold.roles import SYSTEM_OUTPUTS, find_roles
from rag_eval_pipeline.scaffold.row_links import find_link
from rag_eval_pipeline.scaffold.rows import FILL_IN_COLUMN, draft_linked, rows, skeleton
from rag_eval_pipeline.scaffold.selection import file_guesses, score_file
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Draft, Guess, context

# Columns of exported traces and runs: where two of them are, an output is what a system answered.
TRACE = frozenset(
    "run_type parent_run_id parent_id trace_id session_id span_kind span_id start_time end_time latency total_tokens "
    "prompt_tokens completion_tokens total_cost observation_count feedback_stats first_token_time dotted_order".split()
)
REFERENCES = frozenset((*ROLES["answer"], *ROLES["answers"], "reference_outputs", "expectations")) - SYSTEM_OUTPUTS
QUESTION_FIELDS = frozenset(ROLES["question"][:8])
BODY_NAMES = (*ROLES["body"], "story", "full_text", "sections", "paragraphs", "abstract")
NAMES = "title name id doc_id document_id source_key url".split()
TALKS = frozenset("turns conversation conversation_turns dialog dialogue exchanges rounds utterances messages".split())
SECTION_FIELDS = ("paragraphs", "sentences")  # lists of texts in a list of sections


class Recognised(NamedTuple):
    """A draft with the profile that it is of, in which options are chosen answers unless a recipe read them."""

    draft: Draft | None
    profile: FolderProfile
    notes: list[str]


def recognise(profile: FolderProfile, recipes: Mapping[str, Recipe]) -> Recognised:
    """Return the draft of the most special recipe that fits, else a guess.

    The guess is a skeleton for unknown columns, and None without any rows.
    """
    profile = with_joined_files(profile)
    draft, notes = draft_by_recipe(profile, recipes)
    if draft is not None:
        return Recognised(_with_files(profile, draft), profile, notes)
    profile = replace(profile, data=tuple(map(with_chosen_answers, profile.data)))
    for shape in SHAPES:
        draft = shape(profile)
        if draft is not None:
            return Recognised(_with_files(profile, draft), profile, notes)
    filled = [file for file in profile.data if file.columns]
    draft = _with_files(profile, skeleton(max(filled, key=lambda file: file.rows))) if filled else None
    return Recognised(draft, profile, notes)


def _with_files(profile: FolderProfile, draft: Draft) -> Draft:
    return replace(draft, guesses=(*file_guesses(profile, draft), *draft.guesses))


def traces(profile: FolderProfile) -> Draft | None:
    """Draft a folder with traces: its other files, or else one in which the user names the truth; None without any."""
    found = [file for file in profile.data if _is_traces(file)]
    if not found:
        return None
    draft = rows(replace(profile, data=tuple(file for file in profile.data if file not in found)))
    if draft is not None:
        return draft
    draft = skeleton(found[0])
    remark = (
        "answer: the file holds traces, whose outputs are what a system answered, not what it should have answered. "
        "Export a dataset with reference answers instead, or name the column with the truth. To find questions for a "
        "benchmark that you have: rag-eval suggest."
    )
    assert not isinstance(draft.questions, str), "a skeleton has an expression for each column"
    missing = (*(text for text in draft.missing if not text.startswith("answer:")), remark)
    questions = {**draft.questions, "answer": FILL_IN_COLUMN}
    return replace(draft, shape="exported traces", questions=questions, missing=missing)


def _is_traces(file: DataFile) -> bool:
    """Return whether a file's output is what a system answered, and nothing beside it is an expected one."""
    names = {normalised(column.name) for column in file.columns}
    return len(TRACE & names) >= 2 and not SYSTEM_OUTPUTS.isdisjoint(names) and REFERENCES.isdisjoint(names)


def inner_questions(profile: FolderProfile) -> Draft | None:
    """Draft documents with lists of questions: each question becomes a row, and its document is the outer row's."""
    if any(score_file(file).points for file in profile.data):
        return None
    for file in profile.data:
        for column in file.columns:
            names = {normalised(field.name) for field in column.fields if field.kind == "text"}
            if column.kind == "structs" and names & QUESTION_FIELDS:
                return _draft(profile, file, column)
    return None


def _draft(profile: FolderProfile, file: DataFile, column: Column) -> Draft:
    word = free_word("asked", file.columns)
    inner = _unnested(file, column, word)
    link = _document_link(file, column)
    text = f"question: each object in {column.name!r} is a question about the document of its row."
    is_talk = normalised(column.name) in TALKS
    if not link.exprs:  # the questions themselves may name documents
        how = "after those before it, which are its history" if is_talk else "without the others"
        text = f"question: each object in {column.name!r} is a question of its own, asked {how}."
        roles = find_roles(inner).columns
        link = find_link(profile, inner, [roles[role] for role in ("question", "answer") if role in roles]) or link
    draft = draft_linked(FolderProfile(()), inner, link)
    questions, turn = draft.questions, ""
    if is_talk and not isinstance(questions, str) and "history" not in questions:
        place = free_word("turn", file.columns)
        talk = f"CASE WHEN len({column.sql}) > 1 THEN concat(source_file, ', row ', source_row) END"
        questions = {**questions, "conversation": ColumnExpr(talk), "turn": ColumnExpr(place)}
        turn = f", generate_subscripts({column.sql}, 1) AS {place}"
    return replace(
        draft,
        shape="conversations" if turn else "documents with questions inside",
        questions=questions,
        relation=f"(SELECT *, unnest({column.sql}) AS {word}{turn} FROM source)",
        guesses=(Guess("questions", text), *draft.guesses),
    )


def _unnested(file: DataFile, column: Column, word: str) -> DataFile:
    """Return the rows that SQL's `unnest` makes of a list of structs, with the fields as columns."""
    objects = [item for cell in column.values for item in cell or () if item is not None]
    columns = []
    for field in column.fields:
        values = tuple(item.get(field.name) for item in objects)
        is_unique = are_keys(field.kind, values) and file.sampled == file.rows
        path = f"{word}.{identifier(field.name)}"
        columns.append(Column(field.name, field.kind, values, field.fields, is_unique, path))
    return replace(file, columns=tuple(columns), nested=nested_columns(columns, len(objects)))


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


SHAPES: tuple[Callable[[FolderProfile], Draft | None], ...] = (qrels, traces, rows, inner_questions)
