r"""Cells that hold several values: lists, lists written as JSON or as Python wrote them, and texts with separators.

Each way to read a column is a `ListForm`: SQL that makes a list of a cell, and the same lists of the sample, so that
links can be tried on values before SQL is proposed.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_eval_pipeline.proposal.columns import Column
from rag_eval_pipeline.proposal.draft import identifier, literal

_NAMES = {";": "texts with ';' between", "|": "texts with '|' between", "\n": "lines", ",": "texts with ',' between"}


class ListForm(NamedTuple):
    """A way to read a column's cells as lists of texts.

    Args:
        sql: A list of texts; NULL of a NULL cell.
        values: Of the sample cells that are not empty.
        shown: What it is, for people.
        item: SQL of the value, where each cell is one; None for lists.
    """

    sql: str
    values: list[list[str]]
    shown: str
    item: str | None = None

    @property
    def is_single(self) -> bool:
        """Whether each cell is one value."""
        return self.item is not None


def list_forms(column: Column, *, separators: Sequence[str]) -> Iterator[ListForm]:
    """Ways to read a column, the plainest first.

    Args:
        column: Any; other kinds than texts, lists of them and integers have no form.
        separators: Of `;`, `|`, `,` and newline, those that may stand between values.
    """
    name = identifier(column.name)
    if column.kind == "texts":
        yield ListForm(name, [[v for v in value if v is not None] for value in column.present], "a list")
    elif column.kind == "text lists":
        flat = [[v for inner in value if inner for v in inner if v is not None] for value in column.present]
        yield ListForm(f"flatten({name})", flat, "a list of lists")
    elif column.kind == "integer":
        item = f"CAST({name} AS VARCHAR)"
        yield ListForm(f"[{item}]", [[str(value)] for value in column.present], "one value", item)
    elif column.kind == "text":
        yield from _text_forms(column, name, separators)


def _text_forms(column: Column, name: str, separators: Sequence[str]) -> Iterator[ListForm]:
    cells = column.present
    if not cells:
        return
    parsed = [json_texts(cell) for cell in cells]
    if all(value is not None for value in parsed):
        yield ListForm(json_list_sql(column), [value or [] for value in parsed], "JSON lists")
        return
    if "," in separators and any(value is not None for value in parsed):
        # Evret's label cells: a JSON list, or values with commas between, from row to row.
        pattern = split_pattern(",")
        sql = f"CASE WHEN trim({name}) LIKE '[%' THEN {json_list_sql(column)} "
        sql += f"ELSE regexp_extract_all({name}, {literal(pattern)}) END"
        mixed = [re.findall(pattern, cell, re.ASCII) if v is None else v for v, cell in zip(parsed, cells, strict=True)]
        yield ListForm(sql, mixed, "JSON lists, or texts with ',' between")
    parsed = [python_texts(cell) for cell in cells]
    if all(value is not None for value in parsed):
        yield ListForm(f"python_list({name})", [value or [] for value in parsed], "Python lists")
        return
    has_empty = len(cells) < len(column.values)
    single = f"CASE WHEN trim({name}) <> '' THEN [{name}] ELSE [] END" if has_empty else f"[{name}]"
    yield ListForm(single, [[cell] for cell in cells], "one value", name)
    for separator in separators:
        if any(separator in cell for cell in cells):
            pattern = split_pattern(separator)
            values = [re.findall(pattern, cell, re.ASCII) for cell in cells]
            yield ListForm(f"regexp_extract_all({name}, {literal(pattern)})", values, _NAMES[separator])


def split_pattern(separator: str) -> str:
    """A pattern whose matches are the parts between separators, trimmed and not empty; RE2 and Python agree on it."""
    outside = r"\r\n" if separator == "\n" else re.escape(separator)
    return rf"[^{outside}\s](?:[^{outside}]*[^{outside}\s])?"


def json_list_sql(column: Column) -> str:
    """A list of texts from cells of JSON; an empty cell gives NULL."""
    return f"""from_json(nullif(trim({identifier(column.name)}), ''), '["VARCHAR"]')"""


def json_texts(cell: str) -> list[str] | None:
    """The texts of a JSON list; None when the cell is none."""
    if not cell.lstrip().startswith("["):
        return None
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return _texts(value)


def python_texts(cell: str) -> list[str] | None:
    """The texts of a list as Python writes it; None when the cell is none."""
    if not cell.lstrip().startswith("["):
        return None
    try:
        value = ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return _texts(value)


def _texts(value: object) -> list[str] | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return None
