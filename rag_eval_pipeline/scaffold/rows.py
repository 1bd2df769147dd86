"""Drafts of benchmarks with a question a row: roles by column names, documents by what the cells name or hold."""

from collections import Counter
from dataclasses import replace

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.document_texts import find_answers, titles_offer
from rag_eval_pipeline.scaffold.embedded_json import cited_link, pages_link, row_page, with_corpus
from rag_eval_pipeline.scaffold.headers import is_gold, is_numeric, named_columns, names_documents, normalised, role_of
from rag_eval_pipeline.scaffold.links import (
    URL,
    DocumentTable,
    Link,
    document_tables,
    files_corpus,
    no_documents,
    table_corpus,
)
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile, Origin
from rag_eval_pipeline.scaffold.roles import find_roles, retrieved_columns
from rag_eval_pipeline.scaffold.row_flags import wrong_rows
from rag_eval_pipeline.scaffold.row_links import find_link, text_link
from rag_eval_pipeline.scaffold.selection import best_file
from rag_eval_pipeline.scaffold.source_tables import SPLITS
from rag_eval_pipeline.scaffold.structs import find_structs, struct_link
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Draft, Guess, as_column, context

FILL_IN = "FILL_IN"  # a placeholder for a column that the user has to name
MAX_CHOICES = 6
FILL_IN_COLUMN = ColumnExpr(FILL_IN, FILL_IN)


def rows(profile: FolderProfile) -> Draft | None:
    """Draft one question per row, with roles by column names and documents by what the cells name."""
    file = best_file(profile.data)
    return draft_rows(profile, file) if file is not None else None


def draft_rows(profile: FolderProfile, file: DataFile) -> Draft:
    """Draft one question per row of a file, with documents by what the cells name or hold."""
    given = file
    file, found = _with_answers(profile, file)
    retrieved, output = retrieved_columns(file, find_roles(file)) or ([], "")
    if retrieved:
        file = replace(file, columns=tuple(column for column in file.columns if column.name not in retrieved))
        text = (
            f"contexts: {', '.join(map(repr, retrieved))} is taken for what a system retrieved, because {output!r} has "
            "its answers; neither is gold."
        )
        found.append(Guess("questions", text))
    profile = replace(profile, data=tuple(file if other is given else other for other in profile.data))
    structs = find_structs(file)
    roles = find_roles(file)
    # These are excluded from links: an answer may be the name of a file.
    core = {roles.columns[role] for role in ("question", "answer", "facts", "history") if role in roles.columns}
    link = find_link(profile, file, core | ({structs.column.name} if structs is not None else set()))
    if link is not None and link.doubts:
        return draft_linked(profile, file, link)
    link = link and _with_page(file, link)
    if link is None or link.corpus.documents is None:
        link = row_page(file, core) or link
    if structs is not None:
        link = struct_link(profile, file, structs, link)
    else:
        link = text_link(file, core | (link.used if link is not None else set()), link) or link
        link = link or cited_link(profile, file, roles)
    if link is not None and link.texts is not None and link.corpus.documents is None:
        link = with_corpus(profile, file, link)
    if link is None:
        link = pages_link(profile, file)
    draft = draft_linked(profile, file, link)
    draft = replace(draft, guesses=(*draft.guesses, *found))
    offer = titles_offer(profile, file.columns) if link is None or link.unfound is not None else None
    if offer is None:
        return draft
    text, lines = offer
    return replace(draft, guesses=(*draft.guesses, Guess("questions", text)), choices=(*draft.choices, *lines))


def _with_page(file: DataFile, link: Link) -> Link:
    """Return the link with the gold page, if a column of whole numbers states it beside the name of one PDF."""
    free = [column for column in file.columns if column.name not in link.used]
    pages = named_columns(free, "page", lambda c: all(str(page).strip().isdecimal() for page in c.present or [""]))
    column = min(pages, key=lambda column: "pdf" not in normalised(column.name), default=None)
    documents = link.corpus.tables.get("docs", Origin()).files or ""
    if column is None or link.scalar is None or "file" not in link.scalar or not documents.lower().endswith(".pdf"):
        return link
    base, first = (" + 1", 0) if 0 in map(int, column.present) else ("", 1)
    scalar = {**link.scalar, "page": f"TRY_CAST({column.sql} AS BIGINT){base}"}
    expr = ColumnExpr(link.exprs["contexts"].sql.replace(context(link.scalar), context(scalar)))
    text = f"contexts.page: from {column.name!r}, the PDF's page counted from {first}; printed page numbers may differ."
    guesses = (*link.guesses, Guess("questions", text))
    return replace(link, exprs={"contexts": expr}, used=link.used | {column.name}, guesses=guesses, scalar=scalar)


def _with_answers(profile: FolderProfile, file: DataFile) -> tuple[DataFile, list[Guess]]:
    """Return a file in which the column of the texts that the documents have is called `answer`, if none is known."""
    roles = find_roles(file)
    if "question" not in roles.exprs or {"answer", "answers"} & {
        *roles.exprs,
        *(normalised(column.name) for column in file.columns),
    }:
        return file, []
    known = {*roles.columns.values()}
    columns = [c for c in file.columns if c.name not in known and not names_documents(c) and _can_be_answer(c)]
    bodies = [
        column
        for table in {table.file.origin: table for table in _pure_tables(profile, file)}.values()
        for column in named_columns(table.file.columns, "body", lambda column: column.kind == "text")[:1]
    ]
    found = find_answers(profile, columns, bodies)
    if found is None:
        return file, []
    column, number = found
    text = (
        f"answer: {counted(number, 'different text')} of {column.name!r} occur in the documents, "
        f"so these are taken for answers."
    )
    named = replace(column, name="answer", path=column.sql)
    return replace(file, columns=tuple(named if c is column else c for c in file.columns)), [Guess("questions", text)]


def draft_linked(profile: FolderProfile, file: DataFile, link: Link | None) -> Draft:
    """Return the draft of a file's questions with their link to documents."""
    roles = find_roles(file, tuple(link.used) if link is not None else ())
    link = link or _unlinked(profile, file)
    questions = {**roles.exprs, **link.exprs}
    guesses = (*roles.guesses, *link.guesses, *link.corpus.guesses)
    missing = (no_documents(link.unfound),) if link.unfound is not None else ()
    is_retrieval_only = False
    choices: list[str] = []
    metadata, where = roles.metadata, None
    if "question" in questions and not {"answer", "answers", "facts"} & set(questions):
        unread = [column for column in file.columns if column.name not in {*link.used, roles.columns["question"]}]
        possible = list(filter(_can_be_answer, unread))
        # Answers in a form that is not understood are answers.
        is_said = any(role_of(column.name) in {"answer", "answers"} for column in unread)
        is_retrieval_only = bool(link.exprs) and not possible and not is_said
        if is_retrieval_only:
            text = (
                "retrieval_only: no column of answers was recognised, so only retrieval can be scored. If there is "
                "one, add it to `questions` as `answer` and remove this key."
            )
            guesses = (*guesses, Guess("retrieval_only", text))
        else:
            order = [role for role in ("source_id", "question") if role in questions]
            questions = {**{role: questions.pop(role) for role in order}, "answer": FILL_IN_COLUMN, **questions}
            missing = (*missing, fill_in("answer"))
            choices += [f"answer: {column.sql}   # {column.described}" for column in possible[:MAX_CHOICES]]
            metadata = {key: sql for key, sql in metadata.items() if sql not in {c.sql for c in possible[:MAX_CHOICES]}}
    doubts = {role: [(c, as_column(c)) for c in columns] for role, columns in roles.doubts.items() if role in questions}
    doubts |= {role: list(link.doubts) for role in link.exprs if link.doubts}
    for role, ways in doubts.items():
        questions[role] = ColumnExpr(FILL_IN)
        shown = " and ".join(repr(column.name) for column, _ in ways)
        text = f"{role}: {shown} fit equally well. Replace FILL_IN by one of the expressions below `questions`."
        missing = (*missing, text)
        choices += [f"{role}: {expr.sql}   # {column.described}" for column, expr in ways]
        every = ", ".join(expr.sql for _, expr in ways)
        choices += {
            "answer": [f"answers: [{every}]   # if all are accepted"],
            "contexts": [f"contexts: list_concat({every})   # if all have the answer"],
        }.get(role, [])
    guesses = tuple(guess for guess in guesses if guess.text.partition(":")[0] not in doubts)
    if (marked := wrong_rows(file, roles.columns.get("question"))) is not None:
        mark, where, guess = marked
        metadata, guesses = {**metadata, mark.name: mark.sql}, (*guesses, guess)
    if (split := next((c for c in file.columns if normalised(c.name) in {"split", "subset"}), None)) is not None:
        names = [f"{name!r} ({counted(number, 'row')})" for name, number in Counter(split.present).items()]
        if split.name in metadata and 1 < len(names) <= len(SPLITS):
            text = f"where: all rows are used: {', '.join(names)}. To use one part: `metadata.{split.name} = ...`."
            guesses = (*guesses, Guess("where", text))
    if "urls" in link.exprs:
        shape = "questions with URLs"
    elif "contexts" in link.exprs:
        shape = "questions that name their documents" if link.corpus.documents else "questions with gold texts"
    else:
        shape = "questions and answers"
    read = {*roles.used, *link.used} - {*roles.metadata}
    used = {*read, *metadata} | {column.name.partition(".")[0] for column in file.nested if column.name in read}
    return Draft(
        shape=shape,
        source=file.origin,
        questions=questions,
        metadata=metadata,
        where=where,
        tables=link.corpus.tables,
        documents=link.corpus.documents,
        retrieval_only=is_retrieval_only,
        on_missing_document=link.corpus.on_missing_document,
        guesses=guesses,
        missing=missing,
        unused=tuple(column.described for column in file.columns if column.name not in used),
        choices=tuple(choices),
    )


def _can_be_answer(column: Column) -> bool:
    """Return whether a column may be one of answers that has another name: texts that mostly differ."""
    texts = column.present if column.kind == "text" else []
    is_free = role_of(column.name) in {None, "passage", "body", "answer"} and is_gold(column)
    is_plain = not is_numeric(column) and not any(map(URL.match, texts))
    return is_free and is_plain and 2 * len(set(texts)) > len(column.values)


def skeleton(file: DataFile) -> Draft:
    """Return a draft in which the user names the columns; it does not convert before that."""
    answer = find_roles(file).exprs.get("answer", FILL_IN_COLUMN)
    questions = {"question": FILL_IN_COLUMN, "answer": answer if answer.column is not None else FILL_IN_COLUMN}
    return Draft(
        shape="rows of unknown columns",
        source=file.origin,
        questions=questions,
        missing=tuple(fill_in(role) for role, expr in questions.items() if expr is FILL_IN_COLUMN),
        unused=tuple(column.described for column in file.columns),
        choices=(
            "urls: FILL_IN       # a column of URLs",
            "contexts: FILL_IN   # a column of gold texts",
            "source_id: FILL_IN  # the source's own id",
        ),
    )


def fill_in(role: str) -> str:
    """Return what a user has to do about a role without a column."""
    return f"{role}: replace FILL_IN with the name of the column of {role}s."


def _pure_tables(profile: FolderProfile, file: DataFile) -> list[DocumentTable]:
    """Return the tables of documents that have no questions, as other splits with gold texts have."""
    return [t for t in document_tables(profile, file) if "question" not in find_roles(t.file).exprs]


def _unlinked(profile: FolderProfile, file: DataFile) -> Link:
    corpus = files_corpus(profile)
    if corpus.documents is None and (tables := _pure_tables(profile, file)):
        corpus = table_corpus(tables[0])
    if corpus.documents is None:
        text = "documents: none were found, so the corpus is empty. Add `tables` and `documents`, or `urls`."
        return Link(guesses=(Guess("documents", text),))
    text = "contexts: no column that names a document was found, so retrieval cannot be scored."
    return Link(corpus=corpus, guesses=(Guess("questions", text),))
