"""Map foreign columns to ours, by the benchmark's SQL or by its short form, which only renames and needs no SQL.

SQL runs in a child process (`sql_worker`) with limits on memory and time. Rows come back in the order of the source.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rag_eval_pipeline.conversion.benchmark_spec import QUESTION_COLUMNS, SOURCE, BenchmarkSpec, QuestionColumns
from rag_eval_pipeline.conversion.questions import CONTEXT_FIELDS
from rag_eval_pipeline.conversion.sql_checks import (
    DOCUMENT_COLUMNS,
    KEEP,
    MACRO_NAMES,
    TRACE_FILE,
    TRACE_ITEM,
    TRACE_ROW,
)
from rag_eval_pipeline.errors import InputError, did_you_mean, unknown_name_hint
from rag_eval_pipeline.sources.arrow_types import has_json, inner_fields, is_json
from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.sources.jsonl import json_value
from rag_eval_pipeline.sources.relations import Relation
from rag_eval_pipeline.storage.arrow import read_batches
from rag_eval_pipeline.storage.atomic_files import ScratchFolder
from rag_eval_pipeline.storage.process import run_module

TRACE_COLUMNS = ("source_file", "source_row", "source_item")
_HINTS = {
    "query_memory": "Select fewer columns before joining, or raise the memory limit.",
    "query_deadline": "Look for a join without a condition.",
    "not_one_select": "Use subqueries or WITH.",
    "volatile_sql": "The same files must give the same dataset every night.",
}

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")

Place = Callable[[str, int | None], str]  # key of benchmark.yaml and line of its SQL -> how messages name the place


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources that the SQL of one benchmark may use."""

    memory_mb: int = 2048  # of DuckDB, which spills to a temporary folder beyond it
    seconds: float = 600  # of wall clock for all its queries; then the process is killed


@dataclass(frozen=True, slots=True)
class Result:
    """The rows that a query returned, in an Arrow file, in the source's order."""

    folder: ScratchFolder  # of `path`
    path: Path
    hazard: str | None  # the part of the query that loses the order of its source
    condition: tuple[str, ...]  # columns that `where` uses

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows, the sandbox's own among them."""
        with pa.OSFile(str(self.path)) as file:
            return pa.ipc.open_file(file).schema


class MappedRow(NamedTuple):
    """A row that a query returned."""

    values: dict[str, Any]  # by column; missing values are None
    keep: bool  # False when `where` was false or NULL
    file: str | None  # the source file, and the 1-based row in it, where known
    row: int | None
    error: RowError | None = None  # of a value that could not be decoded


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a query or the short form returned, in the source's order."""

    columns: tuple[str, ...]  # a batch has `KEEP`, `TRACE_FILE`, `TRACE_ROW` and `TRACE_ITEM` beside them
    batches: Callable[[], Iterator[pa.RecordBatch]]  # reads the rows from their start, some thousands at a time

    @property
    def rows(self) -> list[MappedRow]:
        """All rows, in memory."""
        return [row for batch in self.batches() for row in mapped_rows(batch)]


def map_source(
    spec: BenchmarkSpec, relations: Mapping[str, Relation], place: Place, limits: Limits | None = None
) -> dict[str, Mapped]:
    """Return `questions`, and `documents` where the spec has such a query.

    Raises:
        InputError: `unknown_column`, `missing_column`, `unordered_questions`, `bad_value`, `bad_sql`, `not_one_select`,
            `volatile_sql`, `query_memory`, `query_deadline`.
    """
    source, columns = relations[SOURCE], spec.questions.columns
    mapped: dict[str, Mapped] = {}
    queries = {}
    if columns is not None:
        _check_short_form(columns, source, place)
    if (
        columns is not None
        and spec.where is None
        and not template_columns(columns.files)
        and not _has_earlier_turns(columns)
    ):
        mapped["questions"] = _renamed(columns, source)
        _check_questions(mapped["questions"].columns, source.schema, place, spec, contexts=columns.contexts)
    else:
        sql = short_form_sql(columns) if columns is not None else spec.questions.sql or ""
        queries["questions"] = {"sql": sql, "where": spec.where}
    if spec.documents is not None:
        queries["documents"] = {"sql": spec.documents}
    results = run_queries(relations, queries, place, limits or Limits()) if queries else {}
    if "questions" in results:
        result = results["questions"]
        mapped["questions"] = read_result(result, source.files)
        own = [name for name in result.schema.names if not name.startswith("__")]
        in_where = {name.casefold() for name in result.condition}  # a column that only `where` uses is allowed
        known = [name for name in own if name.casefold() not in in_where or name in QUESTION_COLUMNS]
        _check_questions(known, result.schema, place, spec)
        _check_order(own, result.hazard, source.files, place)
    if "documents" in results:
        mapped["documents"] = read_result(results["documents"], source.files)
        _check_columns(mapped["documents"].columns, (*DOCUMENT_COLUMNS, *TRACE_COLUMNS), "documents", place)
    return mapped


def mapped_rows(batch: pa.RecordBatch) -> list[MappedRow]:
    """Return the rows of a batch as Python values; JSON text is decoded."""
    columns, errors = column_values(batch)
    rows = zip(*columns.values(), strict=True) if columns else [()] * batch.num_rows
    traces = (batch.column(name).to_pylist() for name in (KEEP, TRACE_FILE, TRACE_ROW))
    return [
        MappedRow(dict(zip(columns, row, strict=True)), keep is True, file, number, errors.get(position))
        for position, (row, keep, file, number) in enumerate(zip(rows, *traces, strict=True))
    ]


def column_values(batch: pa.RecordBatch) -> tuple[dict[str, list[Any]], dict[int, RowError]]:
    """Return the columns as Python values, with JSON text decoded, and the errors of rows by their position."""
    columns: dict[str, list[Any]] = {}
    errors: dict[int, RowError] = {}
    for field in batch.schema:
        if field.name.startswith("__"):
            continue
        columns[field.name] = values = batch.column(field.name).to_pylist()
        for position, value in enumerate(values if has_json(field) else ()):
            try:
                values[position] = _decoded(value, field)
            except RowError as bad:
                bad.field = field.name
                errors.setdefault(position, bad)
    return columns, errors


def read_result(result: Result, files: Sequence[str]) -> Mapped:
    """Return a query's rows with the origin that they state or that was traced, or the only one of `files`."""
    own = [name for name in result.schema.names if not name.startswith("__") and name not in TRACE_COLUMNS]

    def batches() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(result.path)) as file, pa.ipc.open_file(file) as reader:
            items = _items(reader.read_all(), files)
        for batch in read_batches(result.path):
            columns = {name: batch.column(name) for name in own}
            item, items = items[: len(batch)], items[len(batch) :]
            yield _with_origin(columns, batch.schema, batch.column(KEEP), *_origin(batch, files), item)

    return Mapped(tuple(own), batches)


def short_form_sql(columns: QuestionColumns) -> str:
    """Return the short form as a SELECT."""
    selected = []
    for ours, theirs in columns.model_dump(exclude_none=True).items():
        if ours == "files" and template_columns(theirs):
            selected.append(f"{_template_sql(theirs)} AS {ours}")
        elif isinstance(theirs, str):
            selected.append(f"{identifier(theirs)} AS {ours}")
        elif theirs:
            fields = ", ".join(f"{identifier(name)}: {identifier(name)}" for name in theirs)
            selected.append(f"{{{fields}}} AS {ours}")
    return f"SELECT {', '.join(selected)}, source_file, source_row FROM {SOURCE}"


def _has_earlier_turns(columns: QuestionColumns) -> bool:
    """Return whether the history of a question is made of the rows of its conversation."""
    return columns.history is None and columns.conversation is not None and columns.turn is not None


def template_columns(files: str | None) -> list[str]:
    """Return the columns that a template of file names has in braces; none of a plain column name."""
    return _PLACEHOLDER.findall(files or "")


def _template_sql(template: str) -> str:
    parts = _PLACEHOLDER.split(template)  # texts and columns in turn
    texts = [literal(part) for part in parts[::2]]
    columns = [f"CAST({identifier(part)} AS VARCHAR)" for part in parts[1::2]]
    return " || ".join(text for pair in zip_longest(texts, columns) for text in pair if text not in (None, "''"))


def identifier(name: str) -> str:
    """Return a name in SQL; it is always quoted, so that reserved words need no list."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _renamed(columns: QuestionColumns, source: Relation) -> Mapped:
    wanted = {ours: theirs for ours, theirs in columns.model_dump(exclude_none=True).items() if theirs}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.batches():
            arrays, fields = {}, []
            for ours, theirs in wanted.items():
                if isinstance(theirs, str):
                    arrays[ours] = batch.column(theirs)
                    fields.append(batch.schema.field(theirs).with_name(ours))
                else:
                    inner = [batch.schema.field(name) for name in theirs]
                    arrays[ours] = pa.StructArray.from_arrays([batch.column(name) for name in theirs], fields=inner)
                    fields.append(pa.field(ours, pa.struct(inner)))
            keep = pa.repeat(True, batch.num_rows)
            origin = (batch.column("source_file"), batch.column("source_row"), pa.nulls(batch.num_rows, pa.string()))
            yield _with_origin(arrays, pa.schema(fields), keep, *origin)

    return Mapped(tuple(wanted), batches)


def _with_origin(
    columns: Mapping[str, pa.Array], schema: pa.Schema, keep: pa.Array, file: pa.Array, row: pa.Array, item: pa.Array
) -> pa.RecordBatch:
    fields = [schema.field(name) for name in columns]
    kinds = (pa.bool_(), pa.string(), pa.int64(), pa.string())
    fields += map(pa.field, (KEEP, TRACE_FILE, TRACE_ROW, TRACE_ITEM), kinds)
    return pa.RecordBatch.from_arrays([*columns.values(), keep, file, row, item], schema=pa.schema(fields))


def _items(rows: pa.Table, files: Sequence[str]) -> pa.Array:
    """Return the id, or the number, of each row among those that one row of the source made; null for one alone."""
    file, row = _origin(rows, files)
    is_next = np.zeros(len(rows) + 1, bool)  # made of the same row as the one before
    is_same = pc.and_(pc.equal(file[1:], file[:-1]), pc.equal(row[1:], row[:-1]))
    is_next[1 : len(rows)] = pc.fill_null(is_same, False).to_numpy(zero_copy_only=False)
    if not is_next.any():
        return pa.nulls(len(rows), pa.string())
    places = np.arange(len(rows))
    numbers = places - np.maximum.accumulate(np.where(is_next[:-1], 0, places)) + 1
    named = pc.binary_join_element_wise("#", pa.array(numbers).cast(pa.string()), "")
    if "source_id" in rows.schema.names and rows.column("source_id").type in {pa.string(), pa.int32(), pa.int64()}:
        named = pc.coalesce(rows.column("source_id").cast(pa.string()).combine_chunks(), named)
    return pc.if_else(pa.array(is_next[:-1] | is_next[1:]), named, pa.scalar(None, pa.string()))


def _origin(batch: pa.RecordBatch | pa.Table, files: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    def stated(name: str, kind: pa.DataType) -> pa.Array:
        whole = name in batch.schema.names and batch.column(name).type in {pa.string(), pa.int32(), pa.int64()}
        return batch.column(name).cast(kind) if whole else pa.nulls(batch.num_rows, kind)

    file = pc.coalesce(stated("source_file", pa.string()), stated(TRACE_FILE, pa.string()))
    row = pc.coalesce(stated("source_row", pa.int64()), stated(TRACE_ROW, pa.int64()))
    return pc.fill_null(file, files[0]) if len(files) == 1 else file, row


def _decoded(value: Any, field: pa.Field) -> Any:
    """Decode a value of a column in which some parts, at any depth, are JSON text.

    Raises:
        RowError: A key is repeated, or a number is not finite.
    """
    if value is None:
        return None
    if is_json(field):
        return json_value(value)
    inner = inner_fields(field.type)
    if types.is_struct(field.type):
        return {**value, **{part.name: _decoded(value[part.name], part) for part in inner if has_json(part)}}
    if types.is_map(field.type):
        key, item = inner_fields(inner[0].type)
        return [(_decoded(name, key), _decoded(held, item)) for name, held in value]
    if inner and has_json(inner[0]):
        return [_decoded(item, inner[0]) for item in value]
    return value


def _check_short_form(columns: QuestionColumns, source: Relation, place: Place) -> None:
    known = list(source.schema.names)
    for ours, theirs in columns.model_dump(exclude_none=True).items():
        names = (ours == "files" and template_columns(theirs)) or ([theirs] if isinstance(theirs, str) else theirs)
        for name in names:
            if name not in known:
                hint = unknown_name_hint(name, [column for column in known if column not in TRACE_COLUMNS])
                key, expected = f"questions.{ours}", f"a column of {', '.join(source.files)}"
                raise InputError("unknown_column", place(key, None), expected, field=key, found=name, hint=hint)


def _check_questions(
    own: Sequence[str], schema: pa.Schema, place: Place, spec: BenchmarkSpec, *, contexts: str | None = "contexts"
) -> None:
    """Refuse columns that mean nothing; `contexts` is the name of the column of contexts in the schema."""
    _check_columns(own, (*QUESTION_COLUMNS, *TRACE_COLUMNS), "questions", place)
    shown = place("questions", None)
    if "question" not in own:
        raise InputError("missing_column", shown, "a column `question`", field="questions", found=own)
    if {"answer", "answers", "facts"}.isdisjoint(own) and not spec.retrieval_only:
        expected = "a column `answer`, `answers` or `facts`"
        hint = "State `retrieval_only: true` for a benchmark without answers."
        raise InputError("missing_column", shown, expected, field="questions", found=own, hint=hint)
    if len({"urls", "files", "contexts"} & set(own)) > 1:
        hint = "A context may have a url, or a file."
        raise InputError("bad_value", shown, "one of urls, files, contexts", field="questions", found=own, hint=hint)
    if "contexts" in own and contexts is not None:
        item = getattr(schema.field(contexts).type, "value_type", None)
        fields = [item.field(i).name for i in range(item.num_fields)] if item is not None else []
        _check_columns(fields, CONTEXT_FIELDS, "questions.contexts", place)


def _check_order(own: Sequence[str], hazard: str | None, files: Sequence[str], place: Place) -> None:
    if hazard and not ("source_row" in own and ("source_file" in own or len(files) == 1)):
        expected = "a query that returns source_file, source_row (and source_item for several questions a row)"
        hint = "SQL gives such rows no order; without these columns ids would move."
        shown = place("questions", None)
        raise InputError("unordered_questions", shown, expected, field="questions", found=hazard, hint=hint)


def _check_columns(found: Sequence[str], known: Sequence[str], name: str, place: Place) -> None:
    for column in found:
        if column not in known:
            question = did_you_mean(column, known)
            hint = f"{question + ' ' if question else ''}Known: {', '.join(known)}."
            expected = "columns that it may return"
            raise InputError("unknown_column", place(name, None), expected, field=name, found=column, hint=hint)


def run_queries(
    relations: Mapping[str, Relation], queries: Mapping[str, Mapping[str, Any]], place: Place, limits: Limits
) -> dict[str, Result]:
    """Return the results of the queries by name; they run in one child process, in order."""
    folder = ScratchFolder("sql")
    files = list(relations[SOURCE].files)
    job = {
        "memory_mb": limits.memory_mb,
        "relations": {name: str(relation.path) for name, relation in relations.items()},
        "queries": [{"name": name, **query, "files": files} for name, query in queries.items()],
    }
    (folder.path / "job.json").write_text(json.dumps(job))
    found = _run_child(folder.path, place, limits)
    if "error" in found:
        raise _sql_error(found["error"], relations, place)
    return {
        name: Result(folder, folder.path / f"{name}.arrow", facts["hazard"], tuple(facts["condition"]))
        for name, facts in found["queries"].items()
    }


def _run_child(folder: Path, place: Place, limits: Limits) -> Any:
    try:
        child = run_module("rag_eval_pipeline.conversion.sql_worker", folder, deadline_s=limits.seconds)
    except subprocess.TimeoutExpired:
        expected, hint = f"SQL that ends within {limits.seconds:g} s", _HINTS["query_deadline"]
        raise InputError("query_deadline", place("questions", None), expected, field="questions", hint=hint) from None
    if child.code == 0:
        return json.loads((folder / "result.json").read_text())
    if child.out_of_memory:
        expected, hint, found = f"SQL that needs at most {limits.memory_mb} MB", _HINTS["query_memory"], child.last_line
        raise InputError("query_memory", place("questions", None), expected, field="questions", found=found, hint=hint)
    raise RuntimeError(f"the SQL sandbox ended with exit code {child.code}: {child.last_line}")


def _known_names(message: str, relations: Mapping[str, Relation]) -> str:
    """Return a hint with the names that an unknown one of DuckDB's message may have meant, and all that are known."""
    columns = [column for relation in relations.values() for column in relation.schema.names]
    fields = list(dict.fromkeys(name for relation in relations.values() for name in _field_names(relation.schema)))
    listed = "; ".join(f"{name}({', '.join(relation.schema.names)})" for name, relation in relations.items())
    kinds = (
        (r'column "([^"]+)" not found', columns, listed),
        (r"Table with name (\S+) does not exist", list(relations), listed),
        (r'find key "([^"]+)" in struct', fields, f"the fields {', '.join(fields)}"),
        (r"Function with name (\S+) does not exist", list(MACRO_NAMES), f"{', '.join(MACRO_NAMES)}, and DuckDB's own"),
    )
    for pattern, names, all_names in kinds:
        if unknown := re.search(pattern, message):
            question = did_you_mean(unknown[1], names)
            return f"{question + ' ' if question else ''}Known: {all_names}."
    return f"Known: {listed}."


def _field_names(fields: Iterable[pa.Field]) -> Iterator[str]:
    for field in fields:
        inner = inner_fields(field.type)
        if types.is_struct(field.type):
            yield from (part.name for part in inner)
        yield from _field_names(inner)


def _sql_error(error: Mapping[str, Any], relations: Mapping[str, Relation], place: Place) -> InputError:
    """Return DuckDB's message with the known names: a misspelled column is the most common mistake."""
    if "Malformed JSON" in error["message"]:  # a column whose values share no type beside a text that is not JSON
        known = "Cast JSON values to text first: CAST(column AS VARCHAR)."
    elif error["query"] == "where":
        known = "Known: the columns that `questions` returns."
    else:
        known = _known_names(error["message"], relations)
    expected = "SQL that DuckDB runs" if error["code"] == "bad_sql" else error["message"]
    found = error["message"] if error["code"] == "bad_sql" else None
    where = place(error["query"], error["line"])
    return InputError(
        error["code"], where, expected, field=error["query"], found=found, hint=_HINTS.get(error["code"], known)
    )
