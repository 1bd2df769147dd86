"""How a question names its documents: ids of a table, names or globs of files, URLs.

Each kind of link is tried on the sample values; only one that leads somewhere is proposed.
"""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rag_eval_pipeline.proposal.columns import Column, DataFile
from rag_eval_pipeline.proposal.draft import Guess, Piece, context, identifier
from rag_eval_pipeline.proposal.lists import ListForm, list_forms
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.roles import is_gold
from rag_eval_pipeline.proposal.targets import (
    LINKED_SHARE,
    TRIED_VALUES,
    Corpus,
    Target,
    files_corpus,
    mirror_corpus,
    targets,
)
from rag_eval_pipeline.proposal.urls import find_urls
from rag_eval_pipeline.proposal.words import DOCUMENTS, ROLES, normalised

SEPARATORS = ("\n", ";", "|", ",")

_OWN_IDS = frozenset(ROLES["source_id"])


@dataclass(frozen=True, slots=True)
class Link:
    """A way from questions to documents.

    Args:
        pieces: `urls` or `contexts`; empty when documents exist and no question names them.
        used: Their columns that it is made of.
        scalar: Fields of a context, in SQL, where each row names one document; None for lists.
    """

    pieces: dict[str, Piece] = field(default_factory=dict)
    used: frozenset[str] = frozenset()
    corpus: Corpus = field(default_factory=Corpus)
    guesses: tuple[Guess, ...] = ()
    scalar: dict[str, str] | None = None


def find_link(seen: Seen, file: DataFile, taken: Iterable[str] = ()) -> Link | None:
    """The first kind of link that leads somewhere: mirrored URLs, table, files, globs, URLs; None when none does."""
    taken = set(taken)
    columns = [column for column in file.columns if column.name not in taken and is_gold(column)]
    by_url = _to_urls(seen, file, columns)
    if by_url is not None and by_url.corpus.documents is not None:
        return by_url
    return _to_target(seen, file, columns) or _to_globs(seen, file, columns) or by_url


def free_word(word: str, columns: Iterable[Column]) -> str:
    """A name for a lambda's parameter that no column has: DuckDB would take the column."""
    names = {column.name.casefold() for column in columns}
    while word in names:
        word += "_"
    return word


def linked_column(column: Column, target: Target, word: str) -> Link | None:
    """The link of a column that leads to a target; None when too few of its values do."""
    form = _best_form(column, target.share)
    if form is None:
        return None
    values = list(dict.fromkeys(value for cell in form.values for value in cell))
    if form.item is not None:
        sql = form.sql.replace(f"[{form.item}]", f"[{context({target.field: target.named(form.item)})}]")
    else:
        sql = f"list_transform({form.sql}, lambda {word}: {context({target.field: target.named(word)})})"
    text = f"contexts: {column.name!r} ({form.shown}) holds {target.shown}."
    scalar = None if form.item is None else {target.field: target.named(form.item)}
    return Link(
        {"contexts": Piece(sql)},
        frozenset({column.name}),
        target.corpus(values),
        (Guess("questions", text),),
        scalar,
    )


def _best_form(column: Column, leads: Callable[[Sequence[str]], float]) -> ListForm | None:
    """The way to read a column whose values lead to documents most often; None when no way does often enough."""
    best, best_share = None, 0.0
    for form in list_forms(column, separators=SEPARATORS):
        values = list(dict.fromkeys(value for cell in form.values for value in cell))[:TRIED_VALUES]
        share = leads(values) if values else 0.0
        if share > best_share:
            best, best_share = form, share
    return best if best_share >= LINKED_SHARE else None


def _to_target(seen: Seen, file: DataFile, columns: Sequence[Column]) -> Link | None:
    # Numbers count from 0 or 1 everywhere: a question's own number would be found among any table's ids.
    likely = [column for column in columns if _names_documents(column)]
    likely += [column for column in columns if column not in likely and column.kind != "integer"]
    found = list(targets(seen, file))
    for column in likely:
        if normalised(column.name) in _OWN_IDS and not _names_documents(column):
            continue
        for target in found:
            link = linked_column(column, target, free_word("part", file.columns))
            if link is not None:
                return link
    return None


def _to_globs(seen: Seen, file: DataFile, columns: Sequence[Column]) -> Link | None:
    names = {path: PurePosixPath(path).name for path in seen.documents}

    def finds(pattern: str) -> bool:
        return "*" in pattern and any(fnmatch.fnmatchcase(name, pattern) for name in names.values())

    for column in columns if names else ():
        form = _best_form(column, lambda values: sum(map(finds, values)) / len(values))
        if form is not None:
            patterns = {value for cell in form.values for value in cell}
            matched = [p for p, name in names.items() if any(fnmatch.fnmatchcase(name, each) for each in patterns)]
            return _glob_link(file, column, form, files_corpus(seen, matched))
    return None


def _glob_link(file: DataFile, column: Column, form: ListForm, corpus: Corpus) -> Link:
    [table] = corpus.tables
    # The question's column may itself be called name or file, which inside the subquery would be the table's.
    outer = f"source.{identifier(column.name)}"
    condition = f"name GLOB {outer}"
    if not form.is_single:
        word = free_word("pattern", file.columns)
        listed = form.sql.replace(identifier(column.name), outer)
        condition = f"list_contains(list_transform({listed}, lambda {word}: name GLOB {word}), true)"
    sql = f"(SELECT list({context({'file': 'file'})} ORDER BY file) FROM {table} WHERE {condition})"
    text = f"contexts: {column.name!r} holds globs of file names, such as {column.present[0]!r}."
    return Link({"contexts": Piece(sql)}, frozenset({column.name}), corpus, (Guess("questions", text),))


def _to_urls(seen: Seen, file: DataFile, columns: Sequence[Column]) -> Link | None:
    urls = find_urls(columns)
    if urls is None:
        return None
    corpus = mirror_corpus(seen, file, urls.found, urls.unnested)
    scalar = {"url": urls.piece.sql} if urls.is_single else None
    return Link({"urls": urls.piece}, urls.used, corpus, (Guess("questions", urls.remark),), scalar)


def _names_documents(column: Column) -> bool:
    return not DOCUMENTS.isdisjoint(normalised(column.name).split("_"))
