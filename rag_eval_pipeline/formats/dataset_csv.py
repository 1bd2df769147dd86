"""An evaluation dataset as CSV: one row a question, and the dataset's own fields in the first row's further columns.

Columns of a question carry the names of the specification; lists and objects are JSON. The dataset's fields stand in
columns of their own (`dataset_id`, `name`, `version`, ..., `dataset_metadata`, `documents`), which the rows below may
leave empty or repeat: each column has one value, wherever it stands, so that sorting the rows in a spreadsheet loses
nothing. A dataset without questions is one row without a question.
"""

from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.csv_table import CsvRow, CsvTable, cell_json, cell_text, csv_bytes, json_cell, text_cell
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset

DATASET_ID = "dataset_id"
QUERY_TEXTS = ("query_id", "query_text", "query_type", "difficulty", "ground_truth_answer")
QUERY_JSON = ("relevant_documents", "citations", "metadata")
DATASET_TEXTS = (DATASET_ID, "name", "version", "description", "created_at", "schema_version")
DATASET_JSON = {"dataset_metadata": "metadata", "documents": "documents"}  # column -> field
QUERY_COLUMNS = ("query_id", "query_text", "relevant_documents", "query_type", "difficulty", "ground_truth_answer",
                 "citations", "metadata")  # fmt: skip
COLUMNS = QUERY_COLUMNS + DATASET_TEXTS + tuple(DATASET_JSON)


def dataset_csv(dataset: EvaluationDataset) -> bytes:
    """The dataset as CSV."""
    value = dataset.model_dump(mode="json", exclude_none=True)
    rows = [_query_row(query) for query in value["queries"]] or [{}]
    rows[0] |= {column: text_cell(value.get(column)) for column in DATASET_TEXTS}
    rows[0] |= {column: json_cell(value[field]) for column, field in DATASET_JSON.items() if field in value}
    return csv_bytes(COLUMNS, rows)


def dataset_value(table: CsvTable, path: Path) -> dict[str, Any]:
    """The dataset of a table as a JSON value, not yet checked against the model.

    Raises:
        InputError: `bad_csv`: a column that means nothing, or two values of one field; `bad_json`.
    """
    unknown = [column for column in table.columns if column not in COLUMNS]
    if unknown:
        hint = f"Known: {', '.join(COLUMNS)}. What is your own goes into metadata."
        raise InputError("bad_csv", path, "columns of an evaluation dataset", found=unknown[0], hint=hint)
    value: dict[str, Any] = {}
    for column in DATASET_TEXTS:
        text = cell_text(_only_value(table, column, path).cells.get(column, ""))
        if text is not None:
            value[column] = text
    for column, field in DATASET_JSON.items():
        row = _only_value(table, column, path)
        if row.cells.get(column, ""):
            value[field] = cell_json(row.cells[column], path, row.number, column)
    value["queries"] = [_query(row, path) for row in table.rows if any(row.cells.get(name) for name in QUERY_COLUMNS)]
    return value


def _query_row(query: dict[str, Any]) -> dict[str, str]:
    texts = {column: text_cell(query.get(column)) for column in QUERY_TEXTS}
    return texts | {column: json_cell(query[column]) for column in QUERY_JSON if column in query}


def _query(row: CsvRow, path: Path) -> dict[str, Any]:
    texts = {column: cell_text(row.cells.get(column, "")) for column in QUERY_TEXTS}
    values = {
        column: cell_json(row.cells[column], path, row.number, column) for column in QUERY_JSON if row.cells.get(column)
    }
    return {name: text for name, text in texts.items() if text is not None} | values


def _only_value(table: CsvTable, column: str, path: Path) -> CsvRow:
    """The row that holds the one value of a dataset's field; a row without cells when none does."""
    holders = [row for row in table.rows if row.cells.get(column)]
    for row in holders[1:]:
        if row.cells[column] != holders[0].cells[column]:
            raise InputError(
                "bad_csv", path, f"the same in every row, {holders[0].cells[column]!r}", row=row.number, field=column,
                found=row.cells[column],
            )  # fmt: skip
    return holders[0] if holders else CsvRow(0, {})
