"""Evret's records, one by one: a query or a document as JSON or CSV has it, with every fault and doubt as a finding.

Field names of three ages are understood: `query_id | id`, `query_text | query`, and for relevant documents
`relevant_doc_ids | relevant_docs | expected_doc_ids`. Labels are compared exactly; nothing is lower-cased or stripped.
Source: Evret: Dataset Format.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery, SourceDocument
from rag_eval_pipeline.formats.findings import Finding, finding, listed

IDS = ("query_id", "id")
TEXTS = ("query_text", "query")
DOCUMENT_LABELS = ("relevant_doc_ids", "relevant_docs", "expected_doc_ids")
ANSWER_LABELS = ("expected_answers",)
QUERY_FIELDS = IDS + TEXTS + DOCUMENT_LABELS + ANSWER_LABELS
DOCUMENT_FIELDS = ("doc_id", "text", "metadata")


@dataclass(slots=True)
class EvretReader:
    """Reads the records of one file; findings gather in the order of the rows.

    Args:
        path: The file, for findings.
        cells: Labels are cells of a CSV, in which a list is a text.
        strict: A query with both kinds of labels is an error, as the specification has it.
    """

    path: Path
    cells: bool
    strict: bool = False
    findings: list[Finding] = field(default_factory=list)
    _noted: dict[tuple[str, str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    _queries: dict[str, int] = field(default_factory=dict)
    _documents: dict[str, int] = field(default_factory=dict)

    def query(self, item: Any, row: int) -> EvaluationQuery | None:
        """A query; None, with a finding, when it cannot be read."""
        try:
            return self._query(item, row)
        except InputError as error:
            self.findings.append(Finding.of(error))
            return None

    def document(self, item: Any, row: int) -> SourceDocument | None:
        """A document; None, with a finding, when it cannot be read."""
        try:
            return self._document(item, row)
        except InputError as error:
            self.findings.append(Finding.of(error))
            return None

    def closed(self) -> tuple[Finding, ...]:
        """All findings; what was noted of many rows is one warning."""
        notes = [
            finding("warning", code, self.path, f"{expected}: rows {listed(rows)}", field=name)
            for (code, name, expected), rows in self._noted.items()
        ]
        return (*self.findings, *notes)

    def _query(self, item: Any, row: int) -> EvaluationQuery:
        if not isinstance(item, Mapping):
            raise self._fault("bad_format", row, "queries", "an object", item)
        text = self._alternative(item, TEXTS, row)
        if text is None or not text.strip():
            raise self._fault("empty_question", row, TEXTS[0], "the question's text", text)
        query_id = self._alternative(item, IDS, row)
        if query_id is None:
            query_id = f"q{row}"
            self._note("missing_id", IDS[0], "an id; those without are called q<row>", row)
        if (earlier := self._queries.setdefault(query_id, row)) != row:
            raise self._fault("duplicate_id", row, IDS[0], f"an id that row {earlier} does not have", query_id)
        documents, answers = self._labels(item, DOCUMENT_LABELS, row), self._labels(item, ANSWER_LABELS, row)
        if documents and answers and self.strict:
            found = [name for name in DOCUMENT_LABELS + ANSWER_LABELS if item.get(name)]
            raise self._fault("two_labels", row, found[0], "document ids or expected answers, not both", found)
        metadata = self._own(item, QUERY_FIELDS, "query", row) | ({"expected_answers": answers} if answers else {})
        return EvaluationQuery(
            query_id=query_id, query_text=text, relevant_documents=tuple(documents), metadata=metadata
        )  # fmt: skip

    def _document(self, item: Any, row: int) -> SourceDocument:
        place = f"documents[{row - 1}]"
        if not isinstance(item, Mapping):
            raise self._fault("bad_format", None, place, "an object", item)
        for name in ("doc_id", "text"):
            if not isinstance(item.get(name), str) or (name == "doc_id" and not item[name]):
                raise self._fault("bad_format", None, f"{place}.{name}", "a text", item.get(name))
        metadata = {} if item.get("metadata") is None else item["metadata"]
        if not isinstance(metadata, Mapping):
            raise self._fault("bad_format", None, f"{place}.metadata", "an object", metadata)
        if (earlier := self._documents.setdefault(item["doc_id"], row)) != row:
            expected = f"an id that documents[{earlier - 1}] does not have"
            raise self._fault("duplicate_id", None, f"{place}.doc_id", expected, item["doc_id"])
        own = self._own(item, DOCUMENT_FIELDS, "document", row)
        return SourceDocument(document_id=item["doc_id"], content=item["text"], metadata={**own, **metadata})

    def _own(self, item: Mapping[Any, Any], known: tuple[str, ...], of: str, row: int) -> dict[str, Any]:
        """The fields that Evret does not know."""
        own = {key: value for key, value in item.items() if key not in known and value is not None and value != ""}
        for key in own:
            self._note("unknown_field", key, f"a field of Evret's; it is kept in the {of}'s metadata", row)
        return own

    def _alternative(self, item: Mapping[Any, Any], names: tuple[str, ...], row: int) -> str | None:
        """The text under the first of the names that has one."""
        for name in names:
            value = item.get(name)
            if value is None or value == "":
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                self._note("number_as_text", name, "a text, not a number; it is read as one", row)
                return str(value)
            if not isinstance(value, str):
                raise self._fault("bad_format", row, name, "a text", value)
            return value
        return None

    def _labels(self, item: Mapping[Any, Any], names: tuple[str, ...], row: int) -> list[str]:
        """The labels under the one of the names that has some, each once."""
        found = {name: labels for name in names if (labels := self._label_list(item.get(name), name, row))}
        first = next(iter(found), None)
        for name, labels in found.items():
            if labels != found[first or name]:
                raise self._fault("two_labels", row, name, f"the same labels as {first}", labels)
        return [] if first is None else found[first]

    def _label_list(self, value: Any, name: str, row: int) -> list[str]:
        if value is None or value == "":
            return []
        if self.cells:
            value = self._cell(value, name, row)
        if not isinstance(value, list):
            raise self._fault("bad_labels", row, name, "a list of texts", value)
        labels = []
        for label in value:
            if isinstance(label, int) and not isinstance(label, bool):
                self._note("number_as_text", name, "texts, not numbers; they are read as such", row)
                label = str(label)
            if not isinstance(label, str) or not label.strip():
                raise self._fault("bad_labels", row, name, "texts that are not empty", label)
            labels.append(label)
        return list(dict.fromkeys(labels))

    def _cell(self, cell: str, name: str, row: int) -> Any:
        """What a cell says: a JSON list, a single JSON value, or texts between commas."""
        try:
            # Numbers keep their digits: 1.50 is a label, not a quantity.
            value = json.loads(cell, parse_float=str, parse_int=str, parse_constant=str)
        except (ValueError, RecursionError):
            if cell.lstrip().startswith(("[", "{")):
                raise self._fault("bad_labels", row, name, "a JSON list, or texts between commas", cell) from None
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

    def _fault(self, code: str, row: int | None, name: str, expected: str, found: object) -> InputError:
        return InputError(code, self.path, expected, row=row, field=name, found=found)

    def _note(self, code: str, name: str, expected: str, row: int) -> None:
        rows = self._noted[code, name, expected]
        if row not in rows[-1:]:
            rows.append(row)
