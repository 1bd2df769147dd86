"""Whether a mend agrees with its file: the row is there, the columns are known, the values are of their types."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.mends import STAYS, Mend

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.sources.kinds import Columns, Kind


def row_fault(mend: Mend, rows: Collection[int], known: Sequence[str]) -> InputError | None:
    """A row that the file does not have, or a column; a file of which no row could be decoded has any column."""
    if mend.row not in rows:
        hint = "Rows count from 1, without the header. Correct or delete the line."
        return InputError("missing_row", mend.place, "a row that the file has", field="row", found=mend.row, hint=hint)
    unknown = [name for name in mend.values if name not in known]
    if known and unknown:
        hint = f"Known: {', '.join(known)}. {STAYS}"
        return InputError(
            "unknown_column", mend.place, "columns of the file", field="values", found=unknown[0], hint=hint
        )
    return None


def kind_fault(mend: Mend, kinds: "dict[str, Kind]") -> InputError | None:
    """A value that would make a column mixed; when there is none, `kinds` takes the mend's up."""
    from rag_eval_pipeline.sources.kinds import kind_of

    for name, value in mend.values.items():
        kind = kinds.get(name, "null")
        if not _agree(kind, kind_of([value])):
            return InputError("bad_type", mend.place, _words(kind), field=f"values.{name}", found=value, hint=STAYS)
    kinds.update(_with_mend(kinds, mend))
    return None


def _with_mend(kinds: "Columns", mend: Mend) -> "dict[str, Kind]":
    from rag_eval_pipeline.sources.kinds import kind_of, merge_columns

    return merge_columns(kinds, {name: kind_of([value]) for name, value in mend.values.items()})


def stated_fault(mend: Mend, schema: "pa.Schema") -> InputError | None:
    """A value that the type of its column, as the file states it, does not have."""
    import pyarrow as pa

    for name, value in mend.values.items():
        kind = schema.field(name).type
        try:
            stated_array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return InputError("bad_type", mend.place, f"{kind}", field=f"values.{name}", found=value, hint=STAYS)
    return None


def stated_array(values: list[Any], kind: "pa.DataType") -> "pa.Array":
    """JSON values as an array of a type that a file states; times and decimals are texts in JSON.

    Raises:
        ArrowException, TypeError, ValueError, OverflowError: A value that the type does not have.
    """
    import pyarrow as pa

    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return pa.array(values, pa.string()).cast(kind)
    for value in values:
        _check_fit(value, kind)
    return pa.array(values, kind)


def _check_fit(value: Any, kind: "pa.DataType") -> None:
    """Refuses what Arrow passes over: keys that a struct does not have, fractions of whole numbers."""
    import pyarrow as pa

    if pa.types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: field.type for field in kind}
        if not value.keys() <= fields.keys():
            raise ValueError(f"keys other than {', '.join(fields)}")
        for name, item in value.items():
            _check_fit(item, fields[name])
    elif isinstance(value, list) and hasattr(kind, "value_type"):
        for item in value:
            _check_fit(item, kind.value_type)
    elif value is not None and pa.types.is_integer(kind) and type(value) is not int:
        raise TypeError("no whole number")


def _agree(column: "Kind", value: "Kind") -> bool:
    """Whether a value leaves a column what it is; numbers agree with numbers."""
    from rag_eval_pipeline.sources.kinds import ListOf, Record, merge

    if column in ("null", "json") or value == "null":
        return True
    if isinstance(column, ListOf) and isinstance(value, ListOf):
        return _agree(column.item, value.item)
    if isinstance(column, Record) and isinstance(value, Record):
        return all(_agree(kind, value.fields.get(name, "null")) for name, kind in column.fields.items())
    return merge(column, value) != "json"


def _words(kind: "Kind") -> str:
    from rag_eval_pipeline.sources.kinds import ListOf, Record

    if isinstance(kind, ListOf):
        return f"a list of {_words(kind.item)}"
    if isinstance(kind, Record):
        return f"an object with {', '.join(kind.fields)}, each of its type"
    words = {"text": "text or null", "boolean": "true, false or null", "null": "null"}
    return words.get(kind, "a number or null")
