"""Foreign columns to ours: by the benchmark's SQL, or by its short form, which only renames and needs no SQL.

What comes back is ordered by the source's files and rows, so the same source gives the same ids on every machine.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.conversion.queries import Limits, Place, Query, Result, run_queries
from rag_eval_pipeline.conversion.spec import QUESTION_COLUMNS, SOURCE, BenchmarkSpec, QuestionColumns
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.conversion.taking_in import AnyRelation

TRACE_COLUMNS = ("source_file", "source_row", "source_item")
DOCUMENT_COLUMNS = ("url", "name", "file", "html", "text")
CONTEXT_FIELDS = ("url", "file", "document", "text", "page", "start", "end", "relevance")

# Columns beside the mapped ones: what `where` said, and where a row came from.
KEEP, FROM_FILE, FROM_ROW = "__keep", "__source_file", "__source_row"


@dataclass(frozen=True, slots=True)
class MappedRow:
    """A row that a query returned.

    Args:
        values: By column; what is missing is None.
        keep: False when `where` was false or NULL.
        file: Source file, None when the query does not say.
        row: 1-based row in it.
    """

    values: dict[str, Any]
    keep: bool
    file: str | None
    row: int | None


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a query or the short form returned, in the source's order.

    Args:
        columns: Names of the mapped columns; a batch has `KEEP`, `FROM_FILE` and `FROM_ROW` beside them.
        batches: Reads the rows from their start, some thousands at a time.
    """

    columns: tuple[str, ...]
    batches: "Callable[[], Iterator[pa.RecordBatch]]"

    @property
    def rows(self) -> list[MappedRow]:
        """All rows, in memory."""
        return [row for batch in self.batches() for row in mapped_rows(batch)]


def mapped_rows(batch: "pa.RecordBatch") -> list[MappedRow]:
    """The rows of a batch as Python values."""
    own = [name for name in batch.schema.names if not name.startswith("__")]
    rows = batch.to_pylist()
    for name in own:
        _decode_mixed(rows, batch.schema.field(name))
    return [
        MappedRow({name: row[name] for name in own}, row[KEEP] is True, row[FROM_FILE], row[FROM_ROW]) for row in rows
    ]


def _decode_mixed(rows: Sequence[dict[str, Any]], field: "pa.Field") -> None:
    """Gives JSON texts of a column whose values share no type as the values that stood in the source."""
    if is_mixed(field):
        for row in rows:
            row[field.name] = None if row[field.name] is None else json.loads(row[field.name])
    for inner in getattr(field.type, "fields", ()) if field.name == "metadata" else ():
        _decode_mixed([row[field.name] for row in rows if row[field.name] is not None], inner)


def is_mixed(field: "pa.Field") -> bool:
    """Whether a column's values are kept as JSON text."""
    from rag_eval_pipeline.sources.kinds import MIXED

    return bool((field.metadata or {}).items() >= MIXED.items())


def map_source(
    spec: BenchmarkSpec, relations: "Mapping[str, AnyRelation]", place: Place, limits: Limits | None = None
) -> dict[str, Mapped]:
    """`questions`, and `documents` where the spec has such a query.

    Raises:
        InputError: `unknown_column`, `missing_column`, `unordered_questions`, `bad_value` and those of `run_queries`.
    """
    source, columns = relations[SOURCE], spec.questions.columns
    mapped: dict[str, Mapped] = {}
    queries = []
    if columns is not None:
        check_short_form(columns, source, place)
    if columns is not None and spec.where is None:
        mapped["questions"] = _renamed(columns, source)
        _check_questions(mapped["questions"].columns, source.schema, place, spec, contexts=columns.contexts)
    else:
        sql = short_form_sql(columns) if columns is not None else spec.questions.sql or ""
        queries.append(Query("questions", sql, spec.where))
    if spec.documents is not None:
        queries.append(Query("documents", spec.documents))
    results = run_queries(relations, queries, place, limits) if queries else {}
    if "questions" in results:
        result = results["questions"]
        fields = {} if columns is None else _short_fields(columns, source.schema)
        mapped["questions"] = read_result(result, source.files, fields)
        own = [name for name in result.schema.names if not name.startswith("__")]
        asked = {name.casefold() for name in result.condition}  # a column that only `where` looks at means something
        known = [name for name in own if name.casefold() not in asked or name in QUESTION_COLUMNS]
        _check_questions(known, result.schema, place, spec)
        _check_order(own, result.hazard, source.files, place)
    if "documents" in results:
        mapped["documents"] = read_result(results["documents"], source.files)
        _check_columns(mapped["documents"].columns, (*DOCUMENT_COLUMNS, *TRACE_COLUMNS), "documents", place)
    return mapped


def check_short_form(columns: QuestionColumns, source: "AnyRelation", place: Place) -> None:
    """Refuses names that the source does not have.

    Raises:
        InputError: `unknown_column` with the names there are, `missing_column`, `bad_value`.
    """
    known = list(source.schema.names)
    for ours, theirs in columns.model_dump(exclude_none=True).items():
        for name in [theirs] if isinstance(theirs, str) else theirs:
            if name not in known:
                listed = ", ".join(column for column in known if column not in TRACE_COLUMNS)
                raise InputError(
                    "unknown_column",
                    place(f"questions.{ours}", None),
                    f"a column of {', '.join(source.files)}",
                    field=f"questions.{ours}",
                    found=name,
                    hint=f"Known: {listed}.",
                )


def short_form_sql(columns: QuestionColumns) -> str:
    """The SELECT that the short form stands for."""
    selected = []
    for ours, theirs in columns.model_dump(exclude_none=True).items():
        if isinstance(theirs, str):
            selected.append(f"{quoted(theirs)} AS {ours}")
        elif theirs:
            fields = ", ".join(f"{quoted(name)}: {quoted(name)}" for name in theirs)
            selected.append(f"{{{fields}}} AS {ours}")
    return f"SELECT {', '.join(selected)}, source_file, source_row FROM {SOURCE}"


def quoted(name: str) -> str:
    """A column name as SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _renamed(columns: QuestionColumns, source: "AnyRelation") -> Mapped:
    """The short form without SQL: their columns under our names."""
    wanted = {ours: theirs for ours, theirs in columns.model_dump(exclude_none=True).items() if theirs}

    def batches() -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for batch in source.batches():
            arrays = [_column(batch, theirs) for theirs in wanted.values()]
            keep = pa.repeat(True, batch.num_rows)
            arrays += [keep, batch.column("source_file"), batch.column("source_row")]
            fields = [_field(ours, theirs, batch.schema) for ours, theirs in wanted.items()]
            fields += [pa.field(KEEP, pa.bool_()), pa.field(FROM_FILE, pa.string()), pa.field(FROM_ROW, pa.int64())]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    return Mapped(tuple(wanted), batches)


def _column(batch: "pa.RecordBatch", theirs: str | Sequence[str]) -> "pa.Array":
    import pyarrow as pa

    if isinstance(theirs, str):
        return batch.column(theirs)
    fields = [batch.schema.field(name) for name in theirs]
    return pa.StructArray.from_arrays([batch.column(name) for name in theirs], fields=fields)


def _field(ours: str, theirs: str | Sequence[str], schema: "pa.Schema") -> "pa.Field":
    import pyarrow as pa

    if isinstance(theirs, str):
        return schema.field(theirs).with_name(ours)
    return pa.field(ours, pa.struct([schema.field(name) for name in theirs]))


def _short_fields(columns: QuestionColumns, schema: "pa.Schema") -> "dict[str, pa.Field]":
    wanted = {ours: theirs for ours, theirs in columns.model_dump(exclude_none=True).items() if theirs}
    return {ours: _field(ours, theirs, schema) for ours, theirs in wanted.items()}


def read_result(result: Result, files: Sequence[str], fields: "Mapping[str, pa.Field] | None" = None) -> Mapped:
    """A query's rows, with the origin that they state or that was traced; of one file, that file.

    Args:
        result: Of the query.
        files: Of the source.
        fields: Columns that are the source's own, as it marks them.
    """
    import pyarrow as pa

    def opened() -> "Iterator[pa.RecordBatch]":
        with pa.OSFile(str(result.path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    own = [name for name in result.schema.names if not name.startswith("__") and name not in TRACE_COLUMNS]

    def batches() -> "Iterator[pa.RecordBatch]":
        for batch in opened():
            arrays = [batch.column(name) for name in own]
            arrays += [batch.column(KEEP), *_origin(batch, files)]
            known = [(fields or {}).get(name, batch.schema.field(name)) for name in own]
            known += [pa.field(KEEP, pa.bool_()), pa.field(FROM_FILE, pa.string()), pa.field(FROM_ROW, pa.int64())]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(known))

    return Mapped(tuple(own), batches)


def _origin(batch: "pa.RecordBatch", files: Sequence[str]) -> "tuple[pa.Array, pa.Array]":
    import pyarrow as pa
    import pyarrow.compute as pc

    def stated(name: str, kind: "pa.DataType") -> "pa.Array":
        whole = name in batch.schema.names and batch.column(name).type in {pa.string(), pa.int32(), pa.int64()}
        return batch.column(name).cast(kind) if whole else pa.nulls(batch.num_rows, kind)

    file = pc.coalesce(stated("source_file", pa.string()), stated(FROM_FILE, pa.string()))
    row = pc.coalesce(stated("source_row", pa.int64()), stated(FROM_ROW, pa.int64()))
    return pc.fill_null(file, files[0]) if len(files) == 1 else file, row


def _check_questions(
    own: Sequence[str], schema: "pa.Schema", place: Place, spec: BenchmarkSpec, *, contexts: str | None = "contexts"
) -> None:
    """Refuses columns that mean nothing.

    Args:
        own: Names of the mapped columns.
        schema: Has the column of contexts.
        place: How messages name a key.
        spec: Of the benchmark.
        contexts: Name of the column of contexts in the schema.
    """
    _check_columns(own, (*QUESTION_COLUMNS, *TRACE_COLUMNS), "questions", place)
    shown = place("questions", None)
    if "question" not in own:
        raise InputError("missing_column", shown, "a column `question`", field="questions", found=own)
    if "answer" not in own and "answers" not in own and not spec.retrieval_only:
        raise InputError(
            "missing_column",
            shown,
            "a column `answer` or `answers`",
            field="questions",
            found=own,
            hint="State `retrieval_only: true` for a benchmark without answers.",
        )
    if "urls" in own and "contexts" in own:
        hint = "A context may have a url."
        raise InputError("bad_value", shown, "either `urls` or `contexts`", field="questions", found=own, hint=hint)
    if "contexts" in own and contexts is not None:
        item = getattr(schema.field(contexts).type, "value_type", None)
        fields = [item.field(i).name for i in range(item.num_fields)] if item is not None else []
        _check_columns(fields, CONTEXT_FIELDS, "questions.contexts", place)


def _check_order(own: Sequence[str], hazard: str | None, files: Sequence[str], place: Place) -> None:
    """Refuses rows in no order."""
    if hazard and not ("source_row" in own and ("source_file" in own or len(files) == 1)):
        raise InputError(
            "unordered_questions",
            place("questions", None),
            "a query that returns source_file, source_row (and source_item for several questions a row)",
            field="questions",
            found=hazard,
            hint="SQL gives such rows no order; without these columns ids would move.",
        )


def _check_columns(found: Sequence[str], known: Sequence[str], name: str, place: Place) -> None:
    for column in found:
        if column not in known:
            raise InputError(
                "unknown_column",
                place(name, None),
                "columns that it may return",
                field=name,
                found=column,
                hint=f"Known: {', '.join(known)}.",
            )
