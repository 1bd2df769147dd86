"""Which column is the question, which the answer, by their names first and their values second.

Names are compared without case, blanks and punctuation. One that says "wrong", "generated" or "retrieved" is never
gold.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rag_eval_pipeline.conversion.validation import DIFFICULTIES, IMPOSSIBLE, QUERY_TYPES
from rag_eval_pipeline.proposal.columns import Column, DataFile
from rag_eval_pipeline.proposal.draft import Guess, Piece, identifier
from rag_eval_pipeline.proposal.lists import list_forms
from rag_eval_pipeline.proposal.words import NOT_GOLD, ROLES, normalised

METADATA_CHARACTERS = 100  # of the longest value; longer ones are texts, not labels

_NO = ("no", "false", "0", "n", "f")
_YES = ("yes", "true", "1", "y", "t")


@dataclass(frozen=True, slots=True)
class Roles:
    """What the columns of a file are, as far as no document is concerned.

    Args:
        pieces: Our columns in their order.
        question: The column of the question.
        used: Their columns that something was made of.
        metadata: Their columns with short values that are kept beside the question.
    """

    pieces: dict[str, Piece]
    question: Column | None
    used: frozenset[str]
    metadata: tuple[str, ...]
    guesses: tuple[Guess, ...]


def is_gold(column: Column) -> bool:
    """Whether the name does not say that the column holds something else than truth."""
    return NOT_GOLD.isdisjoint(normalised(column.name).split("_"))


def find_roles(file: DataFile, taken: Sequence[str] = ()) -> Roles:
    """The roles of a file's columns.

    Args:
        file: Any relation.
        taken: Names of columns that are documents, links or otherwise spoken for.
    """
    free = [column for column in file.columns if column.name not in taken and is_gold(column)]
    pieces: dict[str, Piece] = {}
    guesses: list[Guess] = []
    used: set[str] = set()

    def take(ours: str, column: Column, piece: Piece, remark: str = "") -> None:
        pieces[ours] = piece
        used.add(column.name)
        guesses.append(Guess("questions", f"{ours}: column {column.described}{remark}."))

    question = _named(free, "question", _is_text) or _asking(free)
    if question is not None:
        pieces["question"] = Piece(identifier(question.name), question.name)
        used.add(question.name)
        guesses.append(Guess("questions", f"question: column {question.described}."))
    rest = [column for column in free if column is not question]
    answer, answers = _answer_columns(rest)
    if answer is not None:
        take("answer", answer, _as_text(answer))
    if answers is not None:
        take("answers", answers, *_answers(answers))
    flag = _impossible(rest, answer, answers)
    if flag is not None:
        pieces["is_impossible"], source, remark = flag
        used.update([] if source is None else [source.name])
        guesses.append(Guess("questions", remark))
    rest = [column for column in rest if column.name not in used]
    identity = _named(rest, "source_id", lambda column: column.is_unique)
    if identity is not None:
        take("source_id", identity, Piece(identifier(identity.name), identity.name))
    for ours, known in (("query_type", QUERY_TYPES), ("difficulty", DIFFICULTIES)):
        column = _named(rest, ours, partial(_speaks, known))
        if column is not None and column.name not in used:
            take(ours, column, Piece(identifier(column.name), column.name))
    order = ("source_id", "question", "answer", "answers", "is_impossible", "query_type", "difficulty")
    metadata = tuple(column.name for column in rest if column.name not in used and _is_label(column))
    if metadata:
        shown = ", ".join(metadata)
        guesses.append(Guess("questions", f"metadata: columns with short values, kept beside the question: {shown}."))
    found = {ours: pieces[ours] for ours in order if ours in pieces}
    return Roles(found, question, frozenset(used), metadata, tuple(guesses))


def _named(columns: Sequence[Column], role: str, fits: Callable[[Column], bool]) -> Column | None:
    """The fitting column whose name stands first among a role's words; else one whose name ends with its first word."""
    names = {column.name: normalised(column.name) for column in columns}
    for word in ROLES[role]:
        for column in columns:
            if names[column.name] == word and fits(column):
                return column
    ending = {"question": "_question", "answer": "_answer", "source_id": "_id"}.get(role)
    if ending is None:
        return None
    return next((column for column in columns if names[column.name].endswith(ending) and fits(column)), None)


def _asking(columns: Sequence[Column]) -> Column | None:
    """A text column of which most values end with a question mark."""
    for column in columns:
        texts = column.present if column.kind == "text" else []
        if texts and 2 * sum(text.rstrip().endswith(("?", "？", "؟")) for text in texts) >= len(texts):
            return column
    return None


def _answer_columns(columns: Sequence[Column]) -> tuple[Column | None, Column | None]:
    """The column of the answer and the one of accepted answers; a list is never the answer itself."""
    answer = _named(columns, "answer", lambda column: column.kind in {"text", "integer", "number", "boolean"})
    answers = _named(columns, "answers", lambda column: column.kind in {"text", "texts"} and column is not answer)
    if answers is None:
        answers = _named(columns, "answer", lambda column: column.kind == "texts")
    return answer, answers


def _as_text(column: Column) -> Piece:
    name = identifier(column.name)
    return Piece(name, column.name) if column.kind == "text" else Piece(f"CAST({name} AS VARCHAR)")


def _answers(column: Column) -> tuple[Piece, str]:
    """Accepted answers as a list, and a remark on how the cells were split."""
    if column.kind == "texts":
        return Piece(identifier(column.name), column.name), ""
    for form in list_forms(column, separators=(";", "|", "\n")):
        if any(len(values) > 1 for values in form.values):
            return Piece(form.sql), f", split as {form.shown}"
    return Piece(next(list_forms(column, separators=())).sql), ""


def _impossible(
    columns: Sequence[Column], answer: Column | None, answers: Column | None
) -> tuple[Piece, Column | None, str] | None:
    """What says that a question has no answer: a column, its opposite, or an empty answer."""
    flag = _named(columns, "is_impossible", lambda column: _is_flag(column))
    if flag is not None:
        remark = f"is_impossible: column {flag.described}."
        plain = flag.kind == "boolean" or all(str(value).lower() in IMPOSSIBLE for value in flag.values)
        name = identifier(flag.name)
        return (Piece(name, flag.name) if plain else Piece(_says(name, _YES))), flag, remark
    flag = _named(columns, "answerable", lambda column: _is_flag(column))
    if flag is not None:
        name = identifier(flag.name)
        sql = f"NOT {name}" if flag.kind == "boolean" else _says(name, _NO)
        return Piece(sql), flag, f"is_impossible: column {flag.described} says the opposite."
    return _without_answer(answer, answers)


def _without_answer(answer: Column | None, answers: Column | None) -> tuple[Piece, Column | None, str] | None:
    column = answer or answers
    empty = 0 if column is None else len(column.values) - len(column.present)
    if column is None or not empty or empty == len(column.values):
        return None
    name = identifier(column.name)
    sql = (
        f"coalesce(len({name}), 0) = 0"
        if column.kind == "texts"
        else f"coalesce(trim(CAST({name} AS VARCHAR)), '') = ''"
    )
    remark = (
        f"is_impossible: {empty} of {len(column.values)} rows have no {column.name!r} and are taken as unanswerable. "
        "If their answers are only missing, remove this column: the rows are then quarantined."
    )
    return Piece(sql), None, remark


def _says(name: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"coalesce(lower(trim(CAST({name} AS VARCHAR))) IN ({listed}), false)"


def _is_flag(column: Column) -> bool:
    if column.kind == "boolean":
        return True
    words = {str(value).strip().lower() for value in column.present}
    return column.kind in {"text", "integer"} and bool(words) and words <= {*_YES, *_NO}


def _is_text(column: Column) -> bool:
    return column.kind == "text" and bool(column.present or not column.values)


def _speaks(known: frozenset[str], column: Column) -> bool:
    """Whether the column uses the specification's words; others would be moved to metadata with a note a row."""
    return column.kind == "text" and any(value in known for value in column.present)


def _is_label(column: Column) -> bool:
    name = normalised(column.name)
    if re.fullmatch(r"column_\d+|unnamed(_\d+)*|index(_\d+)*", name) or not column.present:
        return False
    if column.kind in {"integer", "boolean"}:
        return True
    short = all(len(value) <= METADATA_CHARACTERS for value in column.present if isinstance(value, str))
    return column.kind == "text" and short and not any("://" in value for value in column.present)
