"""What every source reader takes and returns: an input file, batches of decoded rows, and the rows it rejected."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.sources.arrow_types import JsonType, infer_type, to_arrow

if TYPE_CHECKING:
    from rag_eval_pipeline.sources.source_spec import SourceSpec

UTF8 = frozenset({"utf-8", "utf-8-sig", "ascii"})
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")  # an undecodable byte, or half of a character


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to decode."""

    path: Path
    name: str  # relative to the benchmark's folder, with `/`
    shown: str  # the name in messages
    spec: "SourceSpec"
    encoding: str = "utf-8"
    sample: bytes = field(default=b"", repr=False)  # its first bytes, decompressed; all of a short file
    types: Mapping[str, JsonType] | None = None  # required types of its columns; None: the reader infers them


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that could not be decoded."""

    file: str
    row: int  # 1-based among the file's rows
    line: int | None  # 1-based physical line on which it starts; None in files without lines
    code: str
    expected: str
    found: str | None = None
    field: str | None = None

    def fault(self, path: Path) -> InputError:
        """Return the error of the row, in the file at `path`."""
        return InputError(self.code, path, self.expected, row=self.row, field=self.field, found=self.found)


@dataclass(slots=True)
class DecodedBatch:
    """Consecutive rows of one file."""

    rows: pa.RecordBatch
    numbers: Sequence[int]  # the 1-based number of each row in the file; rejected rows count
    lines: Sequence[int] = ()  # the 1-based physical line of each row; empty for files without lines
    rejected: list[RejectedRow] = field(default_factory=list)  # rows between them that could not be decoded
    types: Mapping[str, JsonType] | None = None  # of the columns; None if the file states them itself
    notes: Sequence[str] = ()  # what was left out or decided about the file, in words that go on after its name


Reader = Callable[[BinaryIO, InputFile], Iterator[DecodedBatch]]


class RowError(Exception):
    """The fault of a row whose position is not known yet."""

    def __init__(self, code: str, field: str | None, expected: str, found: object = None) -> None:
        super().__init__(code)
        self.code, self.field, self.expected = code, field, expected
        self.found = None if found is None else excerpt(found)

    def at(self, file: str, row: int, line: int | None) -> RejectedRow:
        """Return the fault with its position."""
        return RejectedRow(file, row, line, self.code, self.expected, self.found, self.field)


def batch_of_objects(
    objects: Sequence[Mapping[str, Any]],
    numbers: Sequence[int],
    lines: Sequence[int],
    rejected: list[RejectedRow],
    types: Mapping[str, JsonType] | None,
) -> DecodedBatch:
    """Return JSON objects as a batch; their types are inferred unless they are given."""
    names = list(types) if types is not None else list(dict.fromkeys(chain.from_iterable(objects)))
    columns = {name: [item.get(name) for item in objects] for name in names}
    found = types if types is not None else {name: infer_type(values) for name, values in columns.items()}
    if names:
        rows = pa.RecordBatch.from_arrays([to_arrow(columns[name], found[name]) for name in names], names=names)
    else:  # only an array of structs keeps the number of rows without columns
        rows = pa.RecordBatch.from_struct_array(pa.array([{}] * len(objects), pa.struct([])))
    return DecodedBatch(rows, numbers, lines, rejected, found)
