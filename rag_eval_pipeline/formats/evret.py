"""Read Evret's evaluation datasets, JSON and CSV; what is doubtful in them is a finding.

Field names of three ages are understood. Document labels become `relevant_documents`, expected answers
`metadata.expected_answers`; a query may have both, either or none.
Source: Evret: Dataset Format.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import pydantic
from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Finding, finding, listed
from rag_eval_pipeline.storage.csv_tables import CSV, read_csv_table
from rag_eval_pipeline.storage.json_files import read_json_bytes

IDS = ("query_id", "id")
TEXTS = ("query_text", "query")
DOCUMENT_LABELS = ("relevant_doc_ids", "relevant_docs", "expected_doc_ids")
ANSWER_LABELS = ("expected_answers",)


@dataclass(slots=True)
class _Reading:
    """The query that is being read, and the doubts about queries, with their rows."""

    is_csv: bool
    row: int = 0
    doubts: defaultdict[tuple[str, str, str], list[int]] = field(default_factory=lambda: defaultdict(list))

    def doubt(self, code: str, name: str | None, expected: str) -> None:
        rows = self.doubts[code, str(name), expected]
        if self.row not in rows[-1:]:
            rows.append(self.row)


if TYPE_CHECKING:
    _Info = ValidationInfo[_Reading]
else:
    _Info = ValidationInfo  # which takes no parameter in the lowest version of pydantic that is allowed


def _as_text(value: Any, info: _Info) -> Any:
    if type(value) is not int:
        return value
    info.context.doubt("number_as_text", info.field_name, "a text, not a number; it is read as one")
    return str(value)


def _as_labels(value: Any, info: _Info) -> list[str]:
    if info.context.is_csv:
        value = _labels_of_cell(value, info)
    labels: list[Any] = [_as_text(label, info) for label in value] if isinstance(value, list) else [None]
    if not all(isinstance(label, str) and label.strip() for label in labels):
        raise PydanticCustomError("bad_labels", "a list of texts that are not empty")
    return list(dict.fromkeys(labels))


def _labels_of_cell(cell: str, info: _Info) -> Any:
    """Return a cell's labels: a JSON list, a single JSON value, or texts between commas."""
    try:
        # Numbers keep their digits: 1.50 is a label, not a quantity.
        value = json.loads(cell, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        if cell.lstrip().startswith(("[", "{")):
            raise PydanticCustomError("bad_labels", "a JSON list, or texts between commas") from None
        labels = [label for part in cell.split(",") if (label := part.strip())]
        if len(labels) > 1 and info.field_name in ANSWER_LABELS:
            expected = "JSON lists, because answers hold commas; these cells were cut at each"
            info.context.doubt("comma_split", info.field_name, expected)
        return labels
    if isinstance(value, bool):
        return [cell.strip()]
    return [] if value is None else [value] if isinstance(value, str) else value


_Text = Annotated[str, pydantic.BeforeValidator(_as_text)]
_Labels = Annotated[list[str], pydantic.BeforeValidator(_as_labels)]


class _Record(pydantic.BaseModel):
    """A record, which keeps the fields that Evret does not know."""

    model_config = pydantic.ConfigDict(strict=True, extra="allow", defer_build=True)


class _Query(_Record):
    query_id: _Text = ""
    id: _Text = ""
    query_text: _Text = ""
    query: _Text = ""
    relevant_doc_ids: _Labels = []
    relevant_docs: _Labels = []
    expected_doc_ids: _Labels = []
    expected_answers: _Labels = []

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_empty_fields(cls, data: Any, info: _Info) -> Any:
        """Remove empty fields; of an id or text under both names, the first counts."""
        info.context.row += 1
        if not isinstance(data, dict):
            return data
        given = {name: value for name, value in data.items() if value is not None and value != ""}
        for first, second in (IDS, TEXTS):
            if first in given:
                given.pop(second, None)
        return given

    @pydantic.model_validator(mode="after")
    def _complete(self, info: _Info) -> Self:
        self.query_text = self.query_text or self.query
        if not self.query_text.strip():
            raise PydanticCustomError("empty_question", "the question's text under query_text or query")
        self.query_id = self.query_id or self.id
        if not self.query_id:
            self.query_id = f"q{info.context.row}"
            info.context.doubt("missing_id", "query_id", "an id; those without are called q<row>")
        labels = [given for name in DOCUMENT_LABELS if (given := getattr(self, name))]
        if any(given != labels[0] for given in labels):
            expected = f"the same labels under each of {', '.join(DOCUMENT_LABELS)}"
            raise PydanticCustomError("two_labels", expected)
        self.relevant_doc_ids = labels[0] if labels else []
        for name in self.model_extra or ():
            info.context.doubt("unknown_field", name, "a field of Evret's; it is kept in the query's metadata")
        return self


class _Document(_Record):
    doc_id: str = pydantic.Field(min_length=1)
    text: str
    metadata: dict[str, Any] | None = None


class _File(_Record):
    queries: list[_Query]
    documents: list[_Document] | None = None


def is_evret_csv(columns: Sequence[str]) -> bool:
    """Return whether a CSV with these columns can be Evret's: it has questions, and an id or a label."""
    return bool(set(TEXTS) & set(columns)) and bool({*IDS, *DOCUMENT_LABELS, *ANSWER_LABELS} & set(columns))


def read_evret(path: Path) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Return the fields of an evaluation dataset that Evret's JSON or CSV holds, and what is doubtful in it.

    Raises:
        InputError: The file cannot be read.
        pydantic.ValidationError: Its content is wrong.
    """
    reading = _Reading(path.name.endswith(CSV))
    file = _File.model_validate_json(_csv_as_json(path) if reading.is_csv else read_json_bytes(path), context=reading)
    value = {
        "metadata": {"size": len(file.queries)},
        "queries": list(map(_dataset_query, file.queries)),
        "documents": None if file.documents is None else list(map(_dataset_document, file.documents)),
    }
    unread = "a field of Evret's; it is not read"
    doubts = [finding("warning", "unknown_field", path, unread, field=one) for one in sorted(file.model_extra or ())]
    for (code, column, expected), rows in reading.doubts.items():
        doubts.append(finding("warning", code, path, f"{expected}: rows {listed(rows)}", field=column))
    return value, tuple(doubts)


def _csv_as_json(path: Path) -> str:
    table = read_csv_table(path)
    if not set(TEXTS) & set(table.columns):
        expected, hint = f"a column {' or '.join(TEXTS)}", "The first line names the columns."
        raise InputError("missing_column", path, expected, found=list(table.columns), hint=hint)
    return json.dumps({"queries": [row.cells for row in table.rows]})


def _dataset_query(query: _Query) -> dict[str, Any]:
    answers = {"expected_answers": query.expected_answers} if query.expected_answers else {}
    return {
        "query_id": query.query_id,
        "query_text": query.query_text,
        "relevant_documents": query.relevant_doc_ids,
        "metadata": {**(query.model_extra or {}), **answers},
    }


def _dataset_document(document: _Document) -> dict[str, Any]:
    metadata = {**(document.model_extra or {}), **(document.metadata or {})}
    return {"document_id": document.doc_id, "content": document.text, "metadata": metadata}
