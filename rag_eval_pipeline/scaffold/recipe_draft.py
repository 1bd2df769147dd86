"""The benchmark.yaml of files that a recipe recognises.

A recipe that states `contexts`, `urls`, `files` or `documents` says all. Of any other, the SQL of its columns is run on
the first rows, and the documents are searched as for files of unknown columns.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rag_eval_pipeline.conversion.benchmark_spec import SOURCE
from rag_eval_pipeline.conversion.mapping import Limits, identifier, run_queries
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.embedded_json import with_corpus
from rag_eval_pipeline.scaffold.headers import ROLE_SUFFIXES, ROLES, normalised
from rag_eval_pipeline.scaffold.links import Corpus, Link, files_corpus, find_target, free_word, grouped_documents
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile, columns_of, unquoted_table
from rag_eval_pipeline.scaffold.recipe import ELSE, Choice, Match, Recipe, has, matches
from rag_eval_pipeline.scaffold.roles import find_roles
from rag_eval_pipeline.scaffold.rows import FILL_IN, FILL_IN_COLUMN, draft_linked, draft_rows, fill_in
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Draft, Guess, context, struct
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.workspace import BenchmarkPaths

TRIED_ROWS = 50  # of a query that says all, to see whether it runs
STATES_DOCUMENTS = ("contexts", "urls", "files")
OTHER_ROLES = ("source_id", "is_impossible", "query_type", "difficulty")  # that copies of a format may add
TURNS = ("conversation", "turn", "history")
TEXTS, TEXTS_FILE = "texts", "texts_file"
ANSWERED = {"answer": "answer <> ''", "answers": "len(answers) > 0"}

_PLACEHOLDER = re.compile(r"\{([^{}:]+)\}")
_KEYS = ("source", "tables", "questions", "documents", "retrieval_only", "where")
_KEEPS_COLUMNS = re.compile(rf"{SOURCE}$|\(\s*SELECT \*,", re.IGNORECASE)
_FROM_SOURCE = re.compile(rf"\bFROM {SOURCE}\b")
_WORD = re.compile(r'"([^"]+)"|(\w+)')


@dataclass(frozen=True, slots=True)
class _Derived:
    """The columns that a recipe makes of a file, each with the same number of sampled values.

    They carry the SQL that reads them, so that roles and links treat them as columns of the file.
    """

    shape: str
    columns: tuple[Column, ...]  # `question`, `answer` or `answers`, and others under any name
    guesses: tuple[Guess, ...]
    gold: Column | None  # lists of gold texts
    gold_file: Column | None  # the file that a row's gold texts come from
    where: tuple[tuple[str, Column, tuple[bool, ...]], ...]  # SQL, its column, and which sampled rows fulfil it
    names: tuple[tuple[str, str], ...]  # of derived columns: what they are made from; "" if `guesses` say it
    relation: str  # SQL of what the columns' SQL reads
    unused: tuple[Column, ...]  # columns of the file that are left out for a reason


def draft_by_recipe(profile: FolderProfile, recipes: Mapping[str, Recipe]) -> tuple[Draft | None, list[str]]:
    """Return the draft of the most special recipe that fits and whose SQL runs, and notes on those that are left.

    Of recipes that tell two readings of the same columns apart by their values, none is taken where both fit.
    """
    notes: list[str] = []
    found = matches(profile, recipes)
    for match in found:
        if rival := next((other for other in found if _is_other_reading(match, other)), None):
            notes.append(
                f"The recipes {match.name!r} and {rival.name!r} both fit: the values do not say which is meant."
            )
            continue
        try:
            return _draft(profile, match), notes
        except InputError as error:
            notes.append(f"The recipe {match.name!r} fits by its columns, but not by their values: {error.found}.")
    return None, notes


def _is_other_reading(match: Match, other: Match) -> bool:
    one, two = match.recipe.recognise[SOURCE], other.recipe.recognise[SOURCE]
    return one.columns == two.columns and bool(one.patterns and two.patterns) and one.patterns != two.patterns


def _draft(profile: FolderProfile, match: Match) -> Draft:
    recipe, source = match.recipe, match.files[SOURCE]
    sql = _Sql(match, profile)
    # What is no SQL but the relation's name would hide a column of that name.
    relation = SOURCE if recipe.rows == SOURCE else sql.of(recipe.rows) or SOURCE
    fill_in = {name: chosen for name, choice in recipe.fill_in.items() if (chosen := sql.chosen(choice))}
    missing = tuple(f"{name}: {text}" for name, text in fill_in.items())
    documents = sql.of(recipe.documents) if recipe.documents is not None else None
    if isinstance(recipe.questions, str):
        questions: str | dict[str, ColumnExpr] = sql.of(recipe.questions) or ""
        exprs = {}
    else:
        found = {name: sql.of(choice) for name, choice in recipe.questions.items()}
        exprs = {name: text for name, text in found.items() if text is not None}
    guesses = [Guess("source", match.reason), *map(_guess, recipe.says)]
    if left_out := [column.name for column in _unused(source, match, sql) if column.present]:
        text = f"no part of the questions, such as what a tested system answered: {', '.join(map(repr, left_out))}."
        guesses.append(Guess("questions", text))
    if isinstance(recipe.questions, dict):
        if not {*STATES_DOCUMENTS} & {*exprs} and documents is None:
            turns = {name: _expr(source, exprs.pop(name)) for name in TURNS if name in exprs}
            draft = _draft_derived(profile, source, _derived(profile, match, exprs, relation, sql))
            assert not isinstance(draft.questions, str), "derived columns have an expression each"
            return replace(
                draft,
                questions={**draft.questions, **turns},
                guesses=(*guesses, *draft.guesses),
                missing=(*missing, *(text for text in draft.missing if text.partition(":")[0] not in fill_in)),
                retrieval_only=draft.retrieval_only or recipe.retrieval_only,
                on_missing_document=recipe.on_missing_document or draft.on_missing_document,
            )
        questions = {name: _expr(source, text) for name, text in exprs.items() if name not in (TEXTS, TEXTS_FILE)}
        questions |= {name: FILL_IN_COLUMN for name in fill_in if name != "documents"}
    tables = {name: file.origin for name, file in match.files.items() if name != SOURCE}
    conditions, extra = _where(match)
    labels: dict[str, str] = {}
    used: set[str] = set()
    if isinstance(questions, dict):
        rest = tuple(column for column in _unread(source, match, sql) if column.path is None)
        roles = find_roles(replace(source, columns=rest, nested=()))
        others = {role: expr for role, expr in roles.exprs.items() if role in OTHER_ROLES and role not in questions}
        guesses += [guess for guess in roles.guesses if guess.text.partition(":")[0] in others]
        labels = {} if "metadata" in questions else roles.metadata
        used = {roles.columns[role] for role in others if role in roles.columns}
        questions |= others | {name: ColumnExpr(name) for name in extra if name not in labels}
    draft = Draft(
        shape=recipe.title,
        source=source.origin,
        questions=questions,
        metadata=labels,
        tables=tables or None,
        documents=documents,
        retrieval_only=recipe.retrieval_only,
        on_missing_document=recipe.on_missing_document,
        where=" AND ".join(conditions) or None,
        relation=relation,
        guesses=tuple(guesses),
        missing=missing,
        unused=tuple(
            c.described for c in _unread(source, match, sql) if c.path is None and c.name not in {*labels, *used}
        ),
    )
    if FILL_IN not in str(questions):
        _run(profile, match.files, _queries(draft), TRIED_ROWS)
    return draft


def _guess(sentence: str) -> Guess:
    key = sentence.partition(":")[0].partition(".")[0]
    return Guess(key if key in _KEYS else "questions", sentence)  # type: ignore[arg-type]  # a key


class _Sql:
    """The SQL of a recipe for the files at hand: conditions decided, and names in braces replaced."""

    def __init__(self, match: Match, profile: FolderProfile) -> None:
        self._match, self._profile = match, profile
        self._source = match.files[SOURCE]
        self._let: dict[str, str | None] = {}
        self.read: set[str] = set()  # names in all SQL, folded
        for name, choice in match.recipe.let.items():
            self._let[name] = self.of(choice)

    def chosen(self, choice: Choice) -> str | None:
        """Return the text of a choice as it stands; None if no condition holds."""
        if isinstance(choice, str):
            return choice
        return next((text for condition, text in choice.items() if self._holds(condition)), None) or None

    def of(self, choice: Choice) -> str | None:
        """Return the SQL of a choice; None if no condition holds."""
        chosen = self.chosen(choice)
        if chosen is None:
            return None
        text = _PLACEHOLDER.sub(self._replaced, chosen).strip()
        words = _WORD.findall(_FROM_SOURCE.sub("", text))
        self.read.update((quoted or bare).casefold() for quoted, bare in words)
        return text

    def _holds(self, condition: str) -> bool:
        return condition == ELSE or all(map(self._is_there, condition.split(" & ")))

    def _is_there(self, condition: str) -> bool:
        """Return whether there are `documents`, a table (`table corpus`), or a column (`a.b: text`, `corpus.a`)."""
        if condition == "documents":
            return bool(self._profile.documents)
        name, _, kinds = condition.partition(": ")
        if name.startswith("table "):
            return name.removeprefix("table ") in self._match.files
        relation, _, column = name.partition(".")
        if relation in self._match.files and column:
            return has(self._match.files[relation], column, kinds or "any")
        return has(self._source, name, kinds or "any")

    def _replaced(self, found: re.Match[str]) -> str:
        name = found[1]
        if (text := self._let.get(name)) is not None:
            return text
        for column in (*self._source.columns, *self._source.nested):
            if column.name.casefold() == name.casefold():
                self.read.add(column.name.casefold())
                return column.sql
        return found[0]


def _expr(file: DataFile, text: str) -> ColumnExpr:
    """Return an expression; one that is a column of the file is written as its name."""
    column = next((c for c in file.columns if text.casefold() in (c.name.casefold(), c.sql.casefold())), None)
    return ColumnExpr(text) if column is None else ColumnExpr(column.sql, column.name)


def _unread(source: DataFile, match: Match, sql: _Sql) -> list[Column]:
    """Return the columns that no SQL of the recipe names, and that it does not call unused."""
    gone = sql.read | {name.casefold() for name in match.recipe.unused}

    def is_gone(column: Column) -> bool:
        name = column.name.casefold()
        if _is_inner(column, match.recipe):
            return column.kind not in ("text", "texts", "structs")
        return name in gone or (column.path is not None and name.partition(".")[0] in gone)

    return [column for column in (*source.columns, *source.nested) if not is_gone(column)]


def _is_inner(column: Column, recipe: Recipe) -> bool:
    return column.path is not None and column.name.rpartition(".")[0] in recipe.inner


def _unused(source: DataFile, match: Match, sql: _Sql) -> list[Column]:
    """Return the columns that the recipe calls unused, but for those that its SQL reads in part."""
    columns = {column.name.casefold(): column for column in source.columns}
    names = [name.casefold() for name in match.recipe.unused]
    return [columns[name] for name in names if name in columns and name not in sql.read]


def _where(match: Match) -> tuple[list[str], list[str]]:
    """Return the conditions whose columns are there, and these columns."""
    found = {column: condition for column, condition in match.recipe.where.items() if has(match.files[SOURCE], column)}
    return list(found.values()), list(found)


def _queries(draft: Draft) -> dict[str, str]:
    questions = draft.questions
    if not isinstance(questions, str):
        columns = ", ".join(f"{expr.sql} AS {identifier(name)}" for name, expr in questions.items())
        questions = f"SELECT {columns} FROM {draft.relation}"
    return {"questions": questions, **({"documents": draft.documents} if draft.documents is not None else {})}


def _run(
    profile: FolderProfile, files: Mapping[str, DataFile], queries: Mapping[str, str], rows: int
) -> dict[str, pa.Table]:
    """Return the first rows of queries on relations of a folder.

    Raises:
        InputError: SQL that does not run on these columns.
    """
    paths = BenchmarkPaths(profile.folder.name, profile.folder, profile.folder, profile.folder)
    relations = {}
    for name, file in files.items():
        keys = {key: value for key, value in file.origin.keys().items() if key not in ("path", "url")}
        spec = SourceSpec.model_validate({"path": file.file, **keys})
        relations[name] = read_relation(paths, spec, source_columns=name == SOURCE)
    limited = {name: {"sql": f"SELECT * FROM (\n{sql}\n) LIMIT {rows}"} for name, sql in queries.items()}
    results = run_queries(relations, limited, lambda key, _: key, Limits())
    return {name: pa.ipc.open_file(pa.memory_map(str(result.path))).read_all() for name, result in results.items()}


def _derived(profile: FolderProfile, match: Match, exprs: dict[str, str], relation: str, sql: _Sql) -> _Derived:
    """Return the recipe's columns with their values in the first rows, and the others of the file."""
    source, recipe = match.files[SOURCE], match.recipe
    conditions, read = _where(match)
    is_whole = _KEEPS_COLUMNS.match(relation) is not None
    others = [c for c in _unread(source, match, sql) if c.name not in exprs and c.name not in read] if is_whole else []
    selected = {name: text for name, text in exprs.items()}
    selected |= {f"__where_{number}": f"coalesce({text}, false)" for number, text in enumerate(conditions)}
    selected |= {f"__other_{number}": column.sql for number, column in enumerate(others)}
    columns = ", ".join(f"{text} AS {identifier(name)}" for name, text in selected.items())
    table = _run(profile, match.files, {"questions": f"SELECT {columns} FROM {relation}"}, source.sampled)["questions"]
    found = {column.name: column for column in columns_of(unquoted_table(table), len(table))}
    made = {name: _named(source, name, text, found[name]) for name, text in exprs.items() if found[name].present}
    others = [replace(column, values=found[f"__other_{n}"].values) for n, column in enumerate(others)]
    stated = [made[name] for name in ("question", "answer", "answers") if name in made]
    first = [tuple(v[0] if v else None for v in c.values) if c.kind == "texts" else c.values for c in stated]
    others = [_as_own(column, recipe) for column in others if column.values not in first]
    dropped = [(text, found[f"__where_{n}"].values.count(False)) for n, text in enumerate(conditions)]
    gold, gold_file = (
        replace(made.pop(name), name=_read(source, exprs[name])) if name in made else None
        for name in (TEXTS, TEXTS_FILE)
    )
    return _Derived(
        recipe.title,
        (*made.values(), *others),
        tuple(
            Guess("where", f"where: {count} of {len(table)} rows are left out by `{text}`.")
            for text, count in dropped
            if count
        ),
        gold=gold,
        gold_file=gold_file,
        where=tuple(
            (condition, _column(source, name), found[f"__where_{number}"].values)
            for number, (condition, name) in enumerate(zip(conditions, read, strict=True))
        ),
        names=tuple((name, _original(source, text)) for name, text in exprs.items() if name in made),
        relation=relation,
        unused=tuple(_unused(source, match, sql)),
    )


def _named(source: DataFile, name: str, text: str, made: Column) -> Column:
    """Return a column under our name; whether its values are unique is known of all rows for one of the file."""
    original = source.column(_original(source, text))
    is_unique = made.is_unique if original is None else original.is_unique
    return replace(made, name=name, path=text, is_unique=is_unique)


def _as_own(column: Column, recipe: Recipe) -> Column:
    """Return a field of an object with fields of the user's choice as a column of the file."""
    return replace(column, name=column.name.rpartition(".")[2]) if _is_inner(column, recipe) else column


def _read(source: DataFile, text: str) -> str:
    """Return the name of the first column that SQL reads."""
    names = {column.name.casefold(): column.name for column in reversed(source.columns)}
    words = ((quoted or bare).casefold() for quoted, bare in _WORD.findall(text))
    return next((names[word] for word in words if word in names), text)


def _original(source: DataFile, text: str) -> str:
    return _expr(source, text).column or ""


def _column(source: DataFile, name: str) -> Column:
    return next(c for c in (*source.columns, *source.nested) if c.name.casefold() == name.casefold())


def _draft_derived(profile: FolderProfile, file: DataFile, derived: _Derived) -> Draft:
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
    documents = draft.documents  # made of the rows: of those that the recipe makes
    if documents is not None and derived.relation != SOURCE:
        documents = _FROM_SOURCE.sub(lambda _: f"FROM {derived.relation}", documents)
    return replace(
        draft,
        shape=derived.shape,
        documents=documents,
        questions={**questions, **extra},
        where=" AND ".join([*conditions, *filter(None, [draft.where])]) or None,
        relation=derived.relation,
        guesses=(*guesses, *(renamed for guess in draft.guesses if (renamed := _renamed(guess, derived)))),
        unused=(*draft.unused, *(c.described for c in (*derived.columns, *derived.unused) if c.name not in columns)),
    )


def _without_rivals(derived: _Derived) -> dict[str, Column]:
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


def _renamed(guess: Guess, derived: _Derived) -> Guess | None:
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
