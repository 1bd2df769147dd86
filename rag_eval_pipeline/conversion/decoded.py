"""What readers take and give: a file, its decoded rows, and the rows that it would not give."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.conversion.spec import SourceSpec
from rag_eval_pipeline.errors import excerpt

if TYPE_CHECKING:
    import pyarrow as pa

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")  # stands for a byte that is no text, or for half a character


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to be decoded.

    Args:
        path: Absolute.
        name: Relative to the benchmark's folder, with `/`.
        shown: How messages name it.
    """

    path: Path
    name: str
    shown: str
    spec: SourceSpec
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row that could not be decoded.

    Args:
        row: 1-based among the file's rows.
        line: 1-based physical line where it starts; None in files without lines.
    """

    file: str
    row: int
    line: int | None
    code: str
    expected: str
    found: str | None = None
    field: str | None = None


@dataclass(slots=True)
class Rows:
    """Decoded rows of one file, by column; `numbers[i]` and `lines[i]` say where row i stood."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unread: list[UnreadRow] = field(default_factory=list)
    table: "pa.Table | None" = None  # of formats that carry their types


class BadRow(Exception):
    """A row's fault, before its place is known."""

    def __init__(self, code: str, expected: str, found: object = None, field: str | None = None) -> None:
        super().__init__(code)
        self.code, self.expected, self.found, self.field = (
            code,
            expected,
            None if found is None else excerpt(found),
            field,
        )
