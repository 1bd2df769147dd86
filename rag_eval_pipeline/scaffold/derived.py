"""Drafts of files whose questions and answers stand inside other columns: rows of columns that a recipe derives.

A derived column carries the SQL that reads it, so that roles and links treat it as a column of the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.embedded_json import with_corpus
from rag_eval_pipeline.scaffold.headers import ROLE_SUFFIXES, ROLES, normalised
from rag_eval_pipeline.scaffold.links import Corpus, Link, files_corpus, find_target, free_word, grouped_documents
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.rows import FILL_IN_COLUMN, draft_linked, draft_rows, fill_in
from rag_eval_pipeline.scaffold.writer import SOURCE, ColumnExpr, Draft, Guess, context, struct

ANSWERED = {"answer": "answer <> ''", "answers": "len(answers) > 0"}


@dataclass(frozen=True, slots=True)
class Derived:
    """The columns that a recipe makes of a file, each with the same number of sampled values."""

    shape: str
    columns: tuple[Column, ...]  # `question`, `answer` or `answers`, and others under any name
    guesses: tuple[Guess, ...] = ()
    gold: Column | None = None  # lists of gold texts
    gold_file: Column | None = None  # the file that a row's gold texts come from
    where: tuple[tuple[str, Column, tuple[bool, ...]], ...] = ()  # SQL, its column, and which sampled rows fulfil it
    names: tuple[tuple[str, str], ...] = ()  # of derived columns: what they are made from; "" if `guesses` say it
    relation: str = SOURCE  # SQL of what the columns' SQL reads
    unused: tuple[Column, ...] = ()  # columns of the file that are left out for a reason


def draft_derived(profile: FolderProfile, file: DataFile, derived: Derived) -> Draft:
    """Return the draft of derived columns; rows without an answer are left out by `where`."""
    columns = _without_rivals(derived)
    kept = [True] * len(next(iter(columns.values())).values)
    conditions, extra, guesses = [], {}, list(derived.guesses)
    for condition, column, fulfilled in derived.where:
        conditions.append(condition)
        extra[column.name] = ColumnExpr(column.sql)
        kept = [one and other for one, other in zip(kept, fulfilled, strict=True)]
    answered = _answered(columns)
    without = sum(stays and not has for stays, has in zip(kept, answered, strict=True))
    if without:
        condition = " OR ".join(sql for name, sql in ANSWERED.items() if name in columns)
        conditions.append(f"({condition} OR is_impossible)" if "is_impossible" in columns else condition)
        kept = [one and other for one, other in zip(kept, answered, strict=True)]
        text = f"where: {without} of {len(kept)} rows state no answer and are left out. An empty answer is not an "
        guesses.append(Guess("where", f"{text}unanswerable question: mark these by `is_impossible`."))
    rows = replace(file, columns=tuple(_only(column, kept) for column in columns.values()), nested=())
    profile = replace(profile, data=tuple(rows if other is file else other for other in profile.data))
    gold, gold_file = (None if c is None else _only(c, kept) for c in (derived.gold, derived.gold_file))
    if gold is not None and gold.present:
        draft = draft_linked(profile, rows, _gold_link(profile, rows, gold, gold_file))
    else:
        draft = draft_rows(profile, rows)
    draft = _with_question(draft)
    questions = draft.questions
    assert not isinstance(questions, str), "rows have an expression for each column"
    return replace(
        draft,
        shape=derived.shape,
        questions={**questions, **extra},
        where=" AND ".join([*conditions, *filter(None, [draft.where])]) or None,
        relation=derived.relation,
        guesses=(*guesses, *(renamed for guess in draft.guesses if (renamed := _renamed(guess, derived)))),
        unused=(*draft.unused, *(c.described for c in (*derived.columns, *derived.unused) if c.name not in columns)),
    )


def _without_rivals(derived: Derived) -> dict[str, Column]:
    """Return the columns by name, without others that have the name of a question or answer that the shape states."""
    own = {column.name for column in derived.columns} & {"question", *ANSWERED}
    groups = (("question",), tuple(ANSWERED))
    roles = [role for group in groups if own & set(group) for role in group]

    def is_rival(column: Column) -> bool:
        name = normalised(column.name)
        named = any(name in ROLES[role] or name.endswith(ROLE_SUFFIXES.get(role, "\0")) for role in roles)
        return named and column.name not in own

    return {column.name: column for column in derived.columns if not is_rival(column)}


def _answered(columns: dict[str, Column]) -> list[bool]:
    stated = [columns[name] for name in (*ANSWERED, "is_impossible") if name in columns]
    if not any(column.name in ANSWERED for column in stated):
        return [True] * len(next(iter(columns.values())).values)
    cells = zip(*(column.values for column in stated), strict=True)
    return [any(value not in (None, "", [], False) for value in row) for row in cells]


def _only(column: Column, kept: Sequence[bool]) -> Column:
    values = tuple(value for value, stays in zip(column.values, kept, strict=True) if stays)
    is_unique = column.is_unique or (column.kind == "text" and bool(values) and len(set(values)) == len(values))
    return replace(column, values=values, is_unique=is_unique and None not in values)


def _with_question(draft: Draft) -> Draft:
    """Return a draft in which the user names the question, where none was recognised."""
    if isinstance(draft.questions, str) or "question" in draft.questions:
        return draft
    missing = (fill_in("question"), *draft.missing)
    return replace(draft, questions={"question": FILL_IN_COLUMN, **draft.questions}, missing=missing)


def _renamed(guess: Guess, derived: Derived) -> Guess | None:
    """Return a guess with the names of the file's columns; None if the shape states it already."""
    for name, original in derived.names:
        start = f"{name}: column {name!r} ("
        if guess.text.startswith(start):
            return Guess(guess.key, f"{name}: {original!r} ({guess.text[len(start) :]}") if original else None
    return guess


def _gold_link(profile: FolderProfile, file: DataFile, gold: Column, gold_file: Column | None) -> Link:
    """Return contexts from gold texts: in the row's file, in any document of the folder, or as documents themselves."""
    guess = Guess("questions", f"contexts: gold texts from {gold.name!r}.")
    link = Link({"contexts": ColumnExpr(gold.sql)}, frozenset({gold.name}), guesses=(guess,), texts=gold.sql)
    if gold_file is None:
        return with_corpus(profile, file, link)
    word = free_word("passage", file.columns)
    used = frozenset({gold.name, gold_file.name})
    target = find_target(profile, file, gold_file.present)
    if target is not None:
        place = context({target.field: target.named(gold_file.sql), "text": word})
        text = f"contexts: gold texts from {gold.name!r}, in the file that {gold_file.name!r} names."
        exprs = {"contexts": ColumnExpr(f"list_transform({gold.sql}, lambda {word}: {place})")}
        return Link(exprs, used, target.corpus(gold_file.present), (Guess("questions", text),))
    if files_corpus(profile).documents is not None or not gold_file.is_full:
        return with_corpus(profile, file, replace(link, used=used))
    named = context({"document": gold_file.sql, "text": word})
    pairs = struct({"title": gold_file.sql, "paragraph": word})
    documents = grouped_documents(f"""\
SELECT source_row, pair.title AS title, pair.paragraph AS paragraph
    FROM (SELECT source_row, unnest(list_transform({gold.sql}, lambda {word}: {pairs})) AS pair FROM source)""")
    text = (
        f"documents: the files that {gold_file.name!r} names are not in the folder, so each is made of its gold texts, "
        "which makes retrieval easy. Put the real files beside the test set and run `init` again."
    )
    exprs = {"contexts": ColumnExpr(f"list_transform({gold.sql}, lambda {word}: {named})")}
    return Link(exprs, used, Corpus(documents=documents, guesses=(Guess("documents", text),)), (guess,))
