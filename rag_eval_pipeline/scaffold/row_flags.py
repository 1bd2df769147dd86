"""Columns and cells that mark rows: questions without an answer, and wrong answers beside right ones."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.conversion.questions import IMPOSSIBLE, says_no_answer, stands_for_nothing
from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.headers import WORDS, named_columns
from rag_eval_pipeline.scaffold.profile import DataFile
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, as_column

_YES, _NO = (
    tuple(dict.fromkeys(word for words in WORDS[answer].values() for word in words)) for answer in ("yes", "no")
)


def impossible(
    columns: Sequence[Column], answer: Column | None, documents: Sequence[Column]
) -> tuple[ColumnExpr, Column | None, str] | None:
    """Return what marks a question as unanswerable: a flag, its opposite, or an empty answer."""
    flag = next(iter(named_columns(columns, "is_impossible", _is_flag)), None)
    if flag is not None:
        is_plain = flag.kind == "boolean" or all(str(value).lower() in IMPOSSIBLE for value in flag.values)
        return (
            as_column(flag) if is_plain else ColumnExpr(_is_one_of(flag.sql, _said(flag, _YES))),
            flag,
            f"column {flag.described}.",
        )
    flag = next(iter(named_columns(columns, "answerable", _is_flag)), None)
    if flag is not None:
        sql = f"NOT {flag.sql}" if flag.kind == "boolean" else _is_one_of(flag.sql, _said(flag, _NO))
        return ColumnExpr(sql), flag, f"column {flag.described}, negated."
    return None if answer is None else _unanswered(answer, documents)


class _Unanswered(NamedTuple):
    """Rows without an answer, by their places.

    Args:
        texts: Of every row, its answers in lower case.
        refusing: The answer says that there is none.
        void: There is no answer; where columns name documents, no document either.
        left: There is no answer, but a document is named.
    """

    texts: list[list[str]]
    refusing: list[int]
    void: list[int]
    left: list[int]

    def words(self, rows: Iterable[int]) -> list[str]:
        """Return the different answers of some rows."""
        return sorted({text for row in rows for text in self.texts[row]})


def _unanswered(answer: Column, documents: Sequence[Column]) -> tuple[ColumnExpr, Column | None, str] | None:
    """Return what marks rows without an answer, or whose answer says that there is none, as unanswerable.

    Where columns name documents, a row without an answer that names one has perhaps only lost it. Words such as N/A
    are answers, too, unless no document is named.
    """
    if answer.kind == "other":
        return None
    rows = _rows_without_answer(answer, documents)
    is_every = len({*rows.refusing, *rows.void}) == len(rows.texts)
    if is_every or not (rows.refusing or rows.void or rows.left):
        return None
    words, missing = rows.words(rows.refusing), rows.words(rows.void)
    if documents:
        empty = " AND ".join([_says_only(answer, ["", *missing]), *map(_is_empty, documents)])
        conditions = [*([_says_only(answer, words)] if words else []), *([f"({empty})"] if rows.void else [])]
    else:
        conditions = [_says_only(answer, [*([""] if rows.void else []), *words])]
    remark = " ".join(_remarks(rows, answer, documents))
    return ColumnExpr(" OR ".join(conditions) or "false"), None, remark


def _rows_without_answer(answer: Column, documents: Sequence[Column]) -> _Unanswered:
    cells = [value if isinstance(value, list) else [value] for value in answer.values]
    texts = [
        [text for value in cell if (text := "" if value is None else str(value).strip().lower())] for cell in cells
    ]
    named = [["" if value is None else str(value) for value in column.values] for column in documents]
    has_document = [any(re.search(r"[^\W_]", column[row]) for column in named) for row in range(len(texts))]
    refusing = [row for row, cell in enumerate(texts) if cell and all(map(says_no_answer, cell))]
    nothing = [row for row, cell in enumerate(texts) if all(map(stands_for_nothing, cell)) and row not in {*refusing}]
    void = [row for row in nothing if not (has_document[row] if documents else texts[row])]
    left = [row for row in nothing if not texts[row] and has_document[row]]
    return _Unanswered(texts, refusing, void, left)


def _remarks(rows: _Unanswered, answer: Column, documents: Sequence[Column]) -> Iterator[str]:
    n_rows = len(rows.texts)
    if rows.refusing:
        words = ", ".join(map(repr, rows.words(rows.refusing)))
        yield (
            f"{len(rows.refusing)} of {n_rows} rows have the answer {words} and are treated as unanswerable: a correct "
            "system says that it does not know."
        )
    if rows.void:
        names = " and no " + " or ".join(repr(column.name) for column in documents) if documents else ""
        missing = rows.words(rows.void)
        other = f" or only {', '.join(map(repr, missing))}" if missing else ""
        yield (
            f"{len(rows.void)} of {n_rows} rows have no {answer.name!r}{other}{names} and are treated as unanswerable. "
            "If their answers are only missing, remove this column: the rows are then quarantined."
        )
    if rows.left:
        yield (
            f"{len(rows.left)} of {n_rows} rows have no {answer.name!r} but name a document: their answers are perhaps "
            "only missing, so these rows are quarantined. If the documents do not answer them, use "
            f"`{_says_only(answer, [''])} AS is_impossible`."
        )


def _says_only(answer: Column, words: Sequence[str]) -> str:
    """Return the SQL of whether an answer, or each of several, is one of some words; no answer is an empty one."""
    listed = ", ".join(map(literal, words))
    if answer.kind == "texts":
        said = f"list_filter({answer.sql}, lambda said: coalesce(lower(trim(said)), '') NOT IN ({listed}))"
        return f"coalesce(len({said}), 0) = 0" if "" in words else f"(len({said}) = 0 AND len({answer.sql}) > 0)"
    return f"coalesce(lower(trim({answer.as_text})), '') IN ({listed})"


def _is_empty(column: Column) -> str:
    if column.kind in {"texts", "text lists", "structs", "struct lists"}:
        return f"coalesce(len({column.sql}), 0) = 0"
    return f"NOT coalesce(regexp_matches({column.as_text}, '[\\pL\\pN]'), false)"  # an empty list in a cell names none


def _said(flag: Column, words: Sequence[str]) -> list[str]:
    """Return those of some words for yes or no that a flag uses."""
    used = {str(value).strip().lower() for value in flag.present}
    return [word for word in words if word in used]


def _is_one_of(sql: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"coalesce(lower(trim(CAST({sql} AS VARCHAR))) IN ({listed}), false)"


def _is_flag(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.present}
    return column.kind == "boolean" or (column.kind in {"text", "integer"} and bool(words) and words <= {*_YES, *_NO})


def _is_flag_of_both(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.present}
    return words <= {*_YES, *_NO} and not words.isdisjoint(_YES) and not words.isdisjoint(_NO)


def wrong_rows(file: DataFile, question: str | None) -> tuple[Column, str, Guess] | None:
    """Return the column that marks right and wrong answers to the same questions, and the condition of right ones."""
    asked = next((c.values for c in (*file.columns, *file.nested) if c.name == question), ())
    mark = next(iter(named_columns(file.columns, "mark", _is_flag_of_both)), None)
    if mark is None or len(set(asked)) == len(asked):
        return None
    rows = sum(str(value).strip().lower() in _NO for value in mark.values)
    where = _is_one_of(f"metadata.{identifier(mark.name)}", _said(mark, _YES))
    text = (
        f"where: questions occur with right and wrong answers, and {mark.name!r} is 0 or false for {rows} of "
        f"{counted(len(mark.values), 'row, which is', 'rows, which are')} left out. Turn it round "
        f"if it marks the wrong ones."
    )
    return mark, where, Guess("where", text)
