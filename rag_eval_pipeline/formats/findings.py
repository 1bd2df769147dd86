"""Findings: what is wrong, doubtful or worth knowing about a file, a line each.

An error makes the file unusable for what it claims to be; a warning is something its author should look at; an info
says what was not checked, or how the file was understood.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from rag_eval_pipeline.errors import InputError, excerpt, fault_line
from rag_eval_pipeline.formats.model import code_of, expectation, place

Severity = Literal["error", "warning", "info"]
SHOWN = 5  # rows or ids that one line lists


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a file; the fields but severity and schema are those of `InputError`.

    Args:
        severity: `error`, `warning` or `info`.
        code: One cause, one code.
        file: The file.
        expected: What should stand there.
        row: 1-based row, where the file has rows.
        field: Path of the field, such as `queries[3].citations[0].end_char`.
        found: What stands there, as it is shown.
        hint: What to do, or what was done.
        schema: Place in the JSON Schema, such as `evaluation_dataset.schema.json#/$defs/EvaluationQuery`.
    """

    severity: Severity
    code: str
    file: str
    expected: str
    row: int | None = None
    field: str | None = None
    found: str | None = None
    hint: str | None = None
    schema: str | None = None

    def __str__(self) -> str:
        return fault_line(
            self.code, self.file, self.expected, row=self.row, field=self.field, found=self.found, hint=self.hint
        )

    @classmethod
    def of(cls, error: InputError, severity: Severity = "error") -> Self:
        """An error that was raised, as a finding."""
        return cls(
            severity, error.code, error.file, error.expected, error.row, error.field, error.found, error.hint
        )  # fmt: skip

    def raised(self, others: int = 0) -> InputError:
        """The finding as an error to raise, counting those that are not shown."""
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
    schema: str | None = None,
) -> Finding:
    """A finding of any value: `found` is shown by `repr`, at most 200 characters."""
    shown = None if found is None else excerpt(found)
    return Finding(severity, code, str(file), expected, row, field, shown, hint, schema)


def model_findings(
    path: Path, error: pydantic.ValidationError, *, schema: str | None = None, rows_of: str | None = None
) -> list[Finding]:
    """Every error that a model found in a file, one finding each.

    Args:
        path: The file.
        error: The model's.
        schema: Name of the file's JSON Schema, so that each finding has its place there.
        rows_of: The list whose items are rows of the file, in a file that has rows: `queries` of a CSV.
    """
    found = [(fault["loc"], _model_finding(path, fault, rows_of)) for fault in error.errors(include_url=False)]
    if schema is None:
        return [one for _, one in found]
    from rag_eval_pipeline.formats.schemas import schema_place  # needs the models, which need findings

    return [replace(one, schema=schema_place(schema, location)) for location, one in found]


def _model_finding(path: Path, fault: Any, rows_of: str | None) -> Finding:
    location = fault["loc"]
    row = None
    if rows_of is not None and len(location) > 1 and location[0] == rows_of and isinstance(location[1], int):
        row, location = location[1] + 1, location[2:]
    found = None if fault["type"] == "missing" or "ctx" in fault and fault["type"] in _TOLD else fault["input"]
    return finding(
        "error", code_of(fault), path, expectation(fault), row=row, found=found,
        field=None if row is not None and not location else place(location),
    )  # fmt: skip


_TOLD = ("value_error", "duplicate_id", "empty_span")  # their message says what was found; the input is a whole object


def errors_in(findings: Iterable[Finding]) -> list[Finding]:
    """Those that make a file unusable."""
    return [found for found in findings if found.severity == "error"]


def listed(items: Iterable[object]) -> str:
    """The first few of many, and how many there are: `'a', 'b', ... (7 in all)`."""
    every = list(items)
    text = ", ".join(repr(item) for item in every[:SHOWN])
    return text if len(every) <= SHOWN else f"{text}, ... ({len(every)} in all)"
