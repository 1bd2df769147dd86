"""Foreign columns to ours: by the benchmark's SQL, or by its short form, which only renames and needs no SQL.

What comes back is ordered by the source's files and rows, so the same source gives the same ids on every machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.mapped import FROM_FILE, FROM_ROW, KEEP, TRACE_COLUMNS, Mapped
from rag_eval_pipeline.conversion.queries import Limits, Place, Query, Result, run_queries
from rag_eval_pipeline.conversion.short_form import check_short_form, renamed, short_form_sql
from rag_eval_pipeline.conversion.spec import QUESTION_COLUMNS, SOURCE, BenchmarkSpec
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.conversion.taking_in import AnyRelation

DOCUMENT_COLUMNS = ("url", "name", "file", "html", "markdown", "text")
CONTEXT_FIELDS = ("url", "file", "document", "text", "page", "start", "end", "relevance")


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
        mapped["questions"] = renamed(columns, source)
        _check_questions(mapped["questions"].columns, source.schema, place, spec, contexts=columns.contexts)
    else:
        sql = short_form_sql(columns) if columns is not None else spec.questions.sql or ""
        queries.append(Query("questions", sql, spec.where))
    if spec.documents is not None:
        queries.append(Query("documents", spec.documents))
    results = run_queries(relations, queries, place, limits) if queries else {}
    if "questions" in results:
        result = results["questions"]
        mapped["questions"] = read_result(result, source.files)
        own = [name for name in result.schema.names if not name.startswith("__")]
        asked = {name.casefold() for name in result.condition}  # a column that only `where` looks at means something
        known = [name for name in own if name.casefold() not in asked or name in QUESTION_COLUMNS]
        _check_questions(known, result.schema, place, spec)
        _check_order(own, result.hazard, source.files, place)
    if "documents" in results:
        mapped["documents"] = read_result(results["documents"], source.files)
        _check_columns(mapped["documents"].columns, (*DOCUMENT_COLUMNS, *TRACE_COLUMNS), "documents", place)
    return mapped


def read_result(result: Result, files: Sequence[str]) -> Mapped:
    """A query's rows, with the origin that they state or that was traced; of one file of `files`, that file."""
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
            known = [batch.schema.field(name) for name in own]
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
