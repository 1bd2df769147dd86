"""Findings: errors, warnings and remarks about a file, one line each.

An error makes the file unusable; a warning is something its author should check; an info says what was not checked, or
how the file was read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from rag_eval_pipeline.errors import InputError, excerpt, fault_line
from rag_eval_pipeline.formats.model import code_of, expectation, field_path, model_errors

Severity = Literal["error", "warning", "info"]
SHOWN = 5  # rows or ids that one line lists


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; its other fields are those of `InputError`."""

    severity: Severity
    code: str
    file: str
    expected: str
    row: int | None = None
    field: str | None = None
    found: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        return fault_line(
            self.code, self.file, self.expected, row=self.row, field=self.field, found=self.found, hint=self.hint
        )

    @classmethod
    def from_error(cls, error: InputError, severity: Severity = "error") -> Self:
        """Return an error that was raised as a finding."""
        return cls(
            severity, error.code, error.file, error.expected, error.row, error.field, error.found, error.hint
        )  # fmt: skip

    def as_error(self, others: int = 0) -> InputError:
        """Return the finding as an error to raise, with the number of those that are not shown."""
        more = f"There are {others} more." if others else None
        error = InputError(
            self.code, self.file, self.expected, row=self.row, field=self.field,
            hint=" ".join(filter(None, (self.hint, more))) or None,
        )  # fmt: skip
        error.found = self.found  # it is an excerpt already
        return error


def finding(
    severity: Severity,
    code: str,
    file: Path | str,
    expected: str,
    *,
    row: int | None = None,
    field: str | None = None,
    found: object = None,
    hint: str | None = None,
) -> Finding:
    """Return a finding about any value: `found` is shown by `repr`, at most 200 characters."""
    shown = None if found is None else excerpt(found)
    return Finding(severity, code, str(file), expected, row, field, shown, hint)


def model_findings(path: Path, error: pydantic.ValidationError, *, rows_of: str | None = None) -> list[Finding]:
    """Return every error that a model found in a file.

    Args:
        path: The file.
        error: The model's.
        rows_of: The list whose items are rows of the file: `queries` of a CSV.
    """
    return [_model_finding(path, one, rows_of) for one in model_errors(error)]


def _model_finding(path: Path, error: Any, rows_of: str | None) -> Finding:
    location = error["loc"]
    row = None
    if rows_of is not None and len(location) > 1 and location[0] == rows_of and isinstance(location[1], int):
        row, location = location[1] + 1, location[2:]
    return finding(
        "error", code_of(error), path, expectation(error), row=row,
        found=None if error["type"] in _INPUT_IN_MESSAGE else error["input"],
        field=None if row is not None and not location else field_path(location),
    )  # fmt: skip


# The message says what was found, and the input is a whole object; of a missing field it is the object around it.
_INPUT_IN_MESSAGE = frozenset({"missing", "value_error", "duplicate_id", "empty_span"})


def errors_in(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that make a file unusable."""
    return [found for found in findings if found.severity == "error"]


def listed(items: Iterable[object]) -> str:
    """Return the first few of many, and how many there are: `'a', 'b', ... (7 in all)`."""
    every = list(items)
    text = ", ".join(repr(item) for item in every[:SHOWN])
    return text if len(every) <= SHOWN else f"{text}, ... ({len(every)} in all)"
