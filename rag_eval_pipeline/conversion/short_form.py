"""The short form of a mapping: our columns from theirs, renamed, without SQL where nothing else needs it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.mapped import FROM_FILE, FROM_ROW, KEEP, TRACE_COLUMNS, Mapped
from rag_eval_pipeline.conversion.queries import Place
from rag_eval_pipeline.conversion.spec import SOURCE, QuestionColumns
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.conversion.taking_in import AnyRelation


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


def renamed(columns: QuestionColumns, source: "AnyRelation") -> Mapped:
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
