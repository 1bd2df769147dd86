"""Read Evret's evaluation datasets, JSON and CSV, record by record: every error and doubt is a finding.

Field names of three ages are understood. Document labels become `relevant_documents`, expected answers
`metadata.expected_answers`; a query may have both, either or none.
Source: Evret: Dataset Format.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.csv import read_csv_table
from rag_eval_pipeline.formats.io import read_json
from rag_eval_pipeline.formats.model import Finding, finding, listed

IDS = ("query_id", "id")
TEXTS = ("query_text", "query")
DOCUMENT_LABELS = ("relevant_doc_ids", "relevant_docs", "expected_doc_ids")
ANSWER_LABELS = ("expected_answers",)
QUERY_FIELDS = IDS + TEXTS + DOCUMENT_LABELS + ANSWER_LABELS
DOCUMENT_FIELDS = ("doc_id", "text", "metadata")

Record = dict[str, Any]


class EvretRecords(NamedTuple):
    """The good records of a file with the field names of our datasets; documents are None where the file has none."""

    queries: list[Record]
    documents: list[Record] | None
    findings: tuple[Finding, ...]


def read_evret_json(path: Path, *, strict: bool = False) -> EvretRecords:
    """Return the records of Evret's JSON."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError("bad_format", path, "an object with queries", found=value)
    queries, documents = value.get("queries"), value.get("documents")
    for name, items in (("queries", queries), ("documents", [] if documents is None else documents)):
        if not isinstance(items, list):
            raise InputError("bad_format", path, f"a list of {name}", field=name, found=items)
    reader = _Reader(path, is_csv=False, strict=strict)
    for name in sorted(value.keys() - {"queries", "documents"}):
        expected = "a field of Evret's; it is not read"
        reader.findings.append(finding("warning", "unknown_field", path, expected, field=name))
    read = [reader.read(reader.query, item, row) for row, item in enumerate(value["queries"], start=1)]
    bodies = [reader.read(reader.document, item, row) for row, item in enumerate(documents or (), start=1)]
    return reader.records(read, None if documents is None else bodies)


def read_evret_csv(path: Path, *, strict: bool = False) -> EvretRecords:
    """Return the records of Evret's CSV, which has no documents."""
    table = read_csv_table(path)
    if not set(TEXTS) & set(table.columns):
        expected, hint = f"a column {' or '.join(TEXTS)}", "The first line names the columns."
        raise InputError("missing_column", path, expected, found=list(table.columns), hint=hint)
    reader = _Reader(path, is_csv=True, strict=strict)
    return reader.records([reader.read(reader.query, row.cells, row.number) for row in table.rows], None)


def is_evret_csv(columns: Sequence[str]) -> bool:
    """Return whether a CSV with these columns can be Evret's: it has questions, and an id or a label."""
    return bool(set(TEXTS) & set(columns)) and bool(set(QUERY_FIELDS) - set(TEXTS) & set(columns))


class _Reader:
    """Reads the records of one file and collects findings in the order of the rows."""

    def __init__(self, path: Path, *, is_csv: bool, strict: bool) -> None:
        self.path = path
        self.is_csv = is_csv
        self.strict = strict
        self.findings: list[Finding] = []
        self._noted: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        self._queries: dict[str, int] = {}
        self._documents: dict[str, int] = {}

    def records(self, queries: Sequence[Record | None], documents: Sequence[Record | None] | None) -> EvretRecords:
        """Return the good records with all findings; what was noted of many rows is one warning."""
        notes = [
            finding("warning", code, self.path, f"{expected}: rows {listed(rows)}", field=name)
            for (code, name, expected), rows in self._noted.items()
        ]
        return EvretRecords(
            [query for query in queries if query is not None],
            None if documents is None else [document for document in documents if document is not None],
            (*self.findings, *notes),
        )

    def read(self, record: Callable[[Any, int], Record], item: Any, row: int) -> Record | None:
        """Return a record; None if it is bad, which is a finding."""
        try:
            return record(item, row)
        except InputError as error:
            self.findings.append(Finding.from_error(error))
            return None

    def query(self, item: Any, row: int) -> Record:
        if not isinstance(item, Mapping):
            raise self._error("bad_format", row, "queries", "an object", item)
        text = self._first_text(item, TEXTS, row)
        if text is None or not text.strip():
            raise self._error("empty_question", row, TEXTS[0], "the question's text", text)
        query_id = self._first_text(item, IDS, row)
        if query_id is None:
            query_id = f"q{row}"
            self._note("missing_id", IDS[0], "an id; those without are called q<row>", row)
        if (earlier := self._queries.setdefault(query_id, row)) != row:
            raise self._error("duplicate_id", row, IDS[0], f"an id that row {earlier} does not have", query_id)
        documents, answers = self._labels(item, DOCUMENT_LABELS, row), self._labels(item, ANSWER_LABELS, row)
        if documents and answers and self.strict:
            found = [name for name in DOCUMENT_LABELS + ANSWER_LABELS if item.get(name)]
            raise self._error("two_labels", row, found[0], "document ids or expected answers, not both", found)
        metadata = self._unknown(item, QUERY_FIELDS, "query", row) | ({"expected_answers": answers} if answers else {})
        return {"query_id": query_id, "query_text": text, "relevant_documents": documents, "metadata": metadata}

    def document(self, item: Any, row: int) -> Record:
        place = f"documents[{row - 1}]"
        if not isinstance(item, Mapping):
            raise self._error("bad_format", None, place, "an object", item)
        for name in ("doc_id", "text"):
            if not isinstance(item.get(name), str) or (name == "doc_id" and not item[name]):
                raise self._error("bad_format", None, f"{place}.{name}", "a text", item.get(name))
        metadata = {} if item.get("metadata") is None else item["metadata"]
        if not isinstance(metadata, Mapping):
            raise self._error("bad_format", None, f"{place}.metadata", "an object", metadata)
        if (earlier := self._documents.setdefault(item["doc_id"], row)) != row:
            expected = f"an id that documents[{earlier - 1}] does not have"
            raise self._error("duplicate_id", None, f"{place}.doc_id", expected, item["doc_id"])
        unknown = self._unknown(item, DOCUMENT_FIELDS, "document", row)
        return {"document_id": item["doc_id"], "content": item["text"], "metadata": {**unknown, **metadata}}

    def _unknown(self, item: Mapping[Any, Any], known: tuple[str, ...], of: str, row: int) -> Record:
        """Return the fields that Evret does not know."""
        unknown = {key: value for key, value in item.items() if key not in known and value is not None and value != ""}
        for key in unknown:
            self._note("unknown_field", key, f"a field of Evret's; it is kept in the {of}'s metadata", row)
        return unknown

    def _first_text(self, item: Mapping[Any, Any], names: tuple[str, ...], row: int) -> str | None:
        """Return the text under the first of the names that has one."""
        for name in names:
            value = item.get(name)
            if value is None or value == "":
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                self._note("number_as_text", name, "a text, not a number; it is read as one", row)
                return str(value)
            if not isinstance(value, str):
                raise self._error("bad_format", row, name, "a text", value)
            return value
        return None

    def _labels(self, item: Mapping[Any, Any], names: tuple[str, ...], row: int) -> list[str]:
        """Return the labels under the one of the names that has some, each once."""
        found = {name: labels for name in names if (labels := self._label_list(item.get(name), name, row))}
        first = next(iter(found), None)
        for name, labels in found.items():
            if labels != found[first or name]:
                raise self._error("two_labels", row, name, f"the same labels as {first}", labels)
        return [] if first is None else found[first]

    def _label_list(self, value: Any, name: str, row: int) -> list[str]:
        if value is None or value == "":
            return []
        if self.is_csv:
            value = self._cell(value, name, row)
        if not isinstance(value, list):
            raise self._error("bad_labels", row, name, "a list of texts", value)
        labels = []
        for label in value:
            if isinstance(label, int) and not isinstance(label, bool):
                self._note("number_as_text", name, "texts, not numbers; they are read as such", row)
                label = str(label)
            if not isinstance(label, str) or not label.strip():
                raise self._error("bad_labels", row, name, "texts that are not empty", label)
            labels.append(label)
        return list(dict.fromkeys(labels))

    def _cell(self, cell: str, name: str, row: int) -> Any:
        """Return a cell's labels: a JSON list, a single JSON value, or texts between commas."""
        try:
            # Numbers keep their digits: 1.50 is a label, not a quantity.
            value = json.loads(cell, parse_float=str, parse_int=str, parse_constant=str)
        except (ValueError, RecursionError):
            if cell.lstrip().startswith(("[", "{")):
                raise self._error("bad_labels", row, name, "a JSON list, or texts between commas", cell) from None
            labels = [label for part in cell.split(",") if (label := part.strip())]
            if len(labels) > 1 and name in ANSWER_LABELS:
                expected = "JSON lists, because answers hold commas; these cells were cut at each"
                self._note("comma_split", name, expected, row)
            return labels
        if value is None:
            return []
        if isinstance(value, bool):
            return [cell.strip()]
        return [value] if isinstance(value, str) else value

    def _error(self, code: str, row: int | None, name: str, expected: str, found: object) -> InputError:
        return InputError(code, self.path, expected, row=row, field=name, found=found)

    def _note(self, code: str, name: str, expected: str, row: int) -> None:
        rows = self._noted[code, name, expected]
        if row not in rows[-1:]:
            rows.append(row)
