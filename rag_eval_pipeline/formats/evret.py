"""Evret's evaluation datasets, JSON and CSV, as ours and back.

A dataset of Evret's has neither id nor version: the file's name gives them (`flights.json` is dataset `flights` 0.0.0,
`flights_v1.2.0.json` is 1.2.0). Document labels become `relevant_documents`, expected answers
`metadata.expected_answers`; a query may have both, either or none.
Source: Evret: Dataset Format.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.compression import pack
from rag_eval_pipeline.formats.csv_table import csv_bytes, json_cell, read_csv_table
from rag_eval_pipeline.formats.dataset_files import UNVERSIONED, ReadDataset, stem
from rag_eval_pipeline.formats.evaluation_dataset import (
    DatasetMetadata,
    EvaluationDataset,
    EvaluationQuery,
    SourceDocument,
)
from rag_eval_pipeline.formats.evret_rows import (
    ANSWER_LABELS,
    DOCUMENT_LABELS,
    IDS,
    QUERY_FIELDS,
    TEXTS,
    EvretReader,
)
from rag_eval_pipeline.formats.findings import Finding, errors_in, finding
from rag_eval_pipeline.formats.json_text import read_json_text
from rag_eval_pipeline.formats.versions import split_version
from rag_eval_pipeline.storage.atomic import atomic_write

CSV_COLUMNS = (IDS[0], TEXTS[0], DOCUMENT_LABELS[0], ANSWER_LABELS[0])


def read_evret_json(path: Path, *, strict: bool = False) -> ReadDataset:
    """The dataset of Evret's JSON.

    Args:
        path: `.json`, or `.json.gz`.
        strict: Refuse queries with both document labels and expected answers.

    Raises:
        InputError: The file's fault, or the first of the content's (`bad_format`, `empty_question`, `duplicate_id`,
            `bad_labels`, `two_labels`) with the number of the others.
    """
    return _unfaulted(*parse_evret_json(path, strict=strict))


def read_evret_csv(path: Path, *, strict: bool = False) -> ReadDataset:
    """The dataset of Evret's CSV, which has no documents.

    Args:
        path: The file.
        strict: As for JSON.

    Raises:
        InputError: `missing_column`, or as for JSON.
    """
    return _unfaulted(*parse_evret_csv(path, strict=strict))


def parse_evret_json(path: Path, *, strict: bool = False) -> tuple[EvaluationDataset, tuple[Finding, ...]]:
    """The good records of Evret's JSON, and every finding, errors among them.

    Raises:
        InputError: The file's fault.
    """
    value = json.loads(read_json_text(path))
    if not isinstance(value, dict):
        raise InputError("bad_format", path, "an object with queries", found=value)
    reader = EvretReader(path, cells=False, strict=strict)
    queries, documents = value.get("queries"), value.get("documents")
    for name, items in (("queries", queries), ("documents", [] if documents is None else documents)):
        if not isinstance(items, list):
            raise InputError("bad_format", path, f"a list of {name}", field=name, found=items)
    for name in sorted(value.keys() - {"queries", "documents"}):
        expected = "a field of Evret's; it is not read"
        reader.findings.append(finding("warning", "unknown_field", path, expected, field=name))
    read = [reader.query(item, row) for row, item in enumerate(value["queries"], start=1)]
    bodies = None if documents is None else [reader.document(item, row) for row, item in enumerate(documents, start=1)]
    return _dataset(path, read, bodies), reader.closed()


def parse_evret_csv(path: Path, *, strict: bool = False) -> tuple[EvaluationDataset, tuple[Finding, ...]]:
    """The good records of Evret's CSV, and every finding, errors among them.

    Raises:
        InputError: The file's fault, or `missing_column`.
    """
    table = read_csv_table(path)
    if not set(TEXTS) & set(table.columns):
        raise InputError(
            "missing_column", path, f"a column {' or '.join(TEXTS)}", found=list(table.columns),
            hint="The first line names the columns.",
        )  # fmt: skip
    reader = EvretReader(path, cells=True, strict=strict)
    return _dataset(path, [reader.query(row.cells, row.number) for row in table.rows], None), reader.closed()


def write_evret_json(dataset: EvaluationDataset, path: Path) -> tuple[Finding, ...]:
    """Publishes a dataset as Evret's JSON.

    Returns:
        What Evret's form cannot hold and was left out, one finding a field; ids, texts, labels and documents with
        their metadata always stay.

    Raises:
        InputError: `unknown_form`.
    """
    if not path.name.endswith((".json", ".json.gz")):
        raise InputError("unknown_form", path, "a name ending in .json or .json.gz")
    value: dict[str, Any] = {"queries": [_evret_query(query) for query in dataset.queries]}
    if dataset.documents is not None:
        value["documents"] = [
            {"doc_id": document.document_id, "text": document.content}
            | ({"metadata": document.metadata} if document.metadata else {})
            for document in dataset.documents
        ]
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    atomic_write(path, pack(text) if path.name.endswith(".gz") else text)
    return _left_out(dataset, path, documents=True)


def write_evret_csv(dataset: EvaluationDataset, path: Path) -> tuple[Finding, ...]:
    """Publishes a dataset as Evret's CSV; labels are JSON lists.

    Returns:
        As `write_evret_json`; documents are left out too.
    """
    kinds = [(DOCUMENT_LABELS[0], any(query.relevant_documents for query in dataset.queries))]
    kinds += [(ANSWER_LABELS[0], any(query.expected_answers for query in dataset.queries))]
    used = [name for name, is_used in kinds if is_used] or [DOCUMENT_LABELS[0]]
    rows = []
    for query in dataset.queries:
        fields = _evret_query(query)
        labels = {name: json_cell(fields[name]) for name in used if name in fields}
        rows.append({IDS[0]: query.query_id, TEXTS[0]: query.query_text} | labels)
    atomic_write(path, csv_bytes([name for name in CSV_COLUMNS if name in (IDS[0], TEXTS[0], *used)], rows))
    return _left_out(dataset, path, documents=False)


def is_evret_csv(columns: Sequence[str]) -> bool:
    """Whether a CSV with these columns can be Evret's: it has questions, and an id or a label."""
    return bool(set(TEXTS) & set(columns)) and bool(set(QUERY_FIELDS) - set(TEXTS) & set(columns))


def _evret_query(query: EvaluationQuery) -> dict[str, Any]:
    fields: dict[str, Any] = {IDS[0]: query.query_id, TEXTS[0]: query.query_text}
    if query.relevant_documents:
        fields[DOCUMENT_LABELS[0]] = list(query.relevant_documents)
    if query.expected_answers:
        fields[ANSWER_LABELS[0]] = query.expected_answers
    return fields


def _dataset(
    path: Path, queries: Iterable[EvaluationQuery | None], documents: Iterable[SourceDocument | None] | None
) -> EvaluationDataset:
    name = split_version(stem(path))
    good = tuple(query for query in queries if query is not None)
    return EvaluationDataset(
        dataset_id=name.dataset_id,
        name=name.dataset_id,
        version=name.version or UNVERSIONED,
        metadata=DatasetMetadata(size=len(good)),
        queries=good,
        documents=None if documents is None else tuple(one for one in documents if one is not None),
    )


def _unfaulted(dataset: EvaluationDataset, findings: tuple[Finding, ...]) -> ReadDataset:
    if errors := errors_in(findings):
        raise errors[0].raised(len(errors) - 1)
    return ReadDataset(dataset, findings)


def _left_out(dataset: EvaluationDataset, path: Path, *, documents: bool) -> tuple[Finding, ...]:
    """What stands in the dataset and not in Evret's form, counted."""
    held: Mapping[str, int] = {
        "query_type": sum(query.query_type is not None for query in dataset.queries),
        "difficulty": sum(query.difficulty is not None for query in dataset.queries),
        "ground_truth_answer": sum(query.ground_truth_answer is not None for query in dataset.queries),
        "citations": sum(bool(query.citations) for query in dataset.queries),
        "metadata": sum(bool(query.metadata.keys() - {"expected_answers"}) for query in dataset.queries),
        "documents": 0 if documents else len(dataset.documents or ()),
        "documents.title": sum(one.title is not None for one in dataset.documents or ()) if documents else 0,
        "documents.file_path": sum(one.file_path is not None for one in dataset.documents or ()) if documents else 0,
    }
    return tuple(
        finding("info", "left_out", path, f"nothing that Evret's form cannot hold; {count} are left out", field=name)
        for name, count in held.items()
        if count
    )
