"""Large JSON files in the layout that this pipeline writes, read and written one row at a time.

The rows are the elements of a top-level array, indented by four spaces. A line break within a text is escaped in JSON,
so lines show where a row begins and ends without parsing it. A file in another layout is not one of these.
"""

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Generic, Self, TypeVar, overload

import pydantic

from rag_eval_pipeline.formats.model import FileModel
from rag_eval_pipeline.storage.atomic_files import publishing

ROWS_AT_ONCE = 500
WHOLE_BYTES = 16 << 20  # of a file that is read at once; some 20,000 questions of a dataset, in 50 MB
BLOCK = 1 << 20  # bytes
INDENT = "\n    "
_END_OF_ROW = re.compile(rb"\n    \}(?:(,)(?=\n    \{\n)|(?=\n))")  # nothing but blanks stands between rows
_LONGEST_END = len(b"\n    },\n    {\n")

Row = TypeVar("Row", covariant=True)
Other = TypeVar("Other")


class RowFile(Sequence[Row], Generic[Row]):
    """The rows of a file, each parsed when it is asked for; the file stays open, and may be replaced meanwhile.

    Args:
        ends: Offset behind each row.
        places: The rows that belong to it, out of all in the file.
        rest: The file without its rows.
    """

    def __init__(
        self,
        file: BinaryIO,
        first: int,
        ends: "array[int]",
        places: Sequence[int],
        parse: Callable[[bytes], Row],
        rest: bytes,
    ) -> None:
        self._file, self._first, self._ends, self._places, self._parse = file, first, ends, places, parse
        self.rest = rest

    @classmethod
    def open(cls, path: Path, key: str, parse: Callable[[bytes], Row]) -> Self | None:
        """Open a file whose rows are under `key`; None if the file is missing or has another layout.

        Read it whole then, which reports its errors.
        """
        try:
            file = path.open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        found = cls._of(file, key, parse)
        if found is None:
            file.close()
        return found

    @classmethod
    def _of(cls, file: BinaryIO, key: str, parse: Callable[[bytes], Row]) -> Self | None:
        opening = f'\n  "{key}": ['.encode()
        sought = opening + b"\n    {\n"
        head, at = bytearray(), -1
        while at < 0:
            block = file.read(BLOCK)
            if not block:
                return None
            searched = max(0, len(head) - len(sought))
            head += block
            at = head.find(sought, searched)
        first = at + len(opening) + len(INDENT)
        ends = array("q")
        start, data = first, bytes(head[first:])
        is_last = False
        while not is_last:
            for found in _END_OF_ROW.finditer(data):
                ends.append(start + found.start() + len(INDENT) + 1)
                if is_last := not found[1]:
                    break
            else:
                kept = data[-_LONGEST_END:]
                block = file.read(BLOCK)
                if not block:
                    return None
                if ends and start + len(data) - len(kept) < ends[-1]:
                    kept = data[ends[-1] - start :]
                start, data = start + len(data) - len(kept), kept + block
        file.seek(ends[-1])
        tail = file.read()
        if not tail.startswith(b"\n  ]"):
            return None
        return cls(file, first, ends, range(len(ends)), parse, bytes(head[: at + len(opening)]) + tail.lstrip())

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> "RowFile[Row]": ...
    def __getitem__(self, place: int | slice) -> "Row | RowFile[Row]":
        if isinstance(place, slice):
            return self._with(self._places[place])
        at = self._places[place]
        return self._parse(self._read(at, at)[0])

    def __iter__(self) -> Iterator[Row]:
        for at in range(0, len(self._places), ROWS_AT_ONCE):
            part = self._places[at : at + ROWS_AT_ONCE]
            if part[-1] - part[0] == len(part) - 1:
                yield from map(self._parse, self._read(part[0], part[-1]))
            else:
                yield from (self._parse(self._read(place, place)[0]) for place in part)

    def parsed_by(self, parse: Callable[[bytes], Other]) -> "RowFile[Other]":
        """Return the same rows with another parser."""
        return RowFile(self._file, self._first, self._ends, self._places, parse, self.rest)

    def take(self, places: Iterable[int]) -> "RowFile[Row]":
        """Return some of the rows, by their places in ascending order."""
        return self._with(array("q", (self._places[place] for place in places)))

    def _with(self, places: Sequence[int]) -> "RowFile[Row]":
        return RowFile(self._file, self._first, self._ends, places, self._parse, self.rest)

    def _read(self, first: int, last: int) -> list[bytes]:
        start = self._start(first)
        data = os.pread(self._file.fileno(), self._ends[last] - start, start)
        return [data[self._start(place) - start : self._ends[place] - start] for place in range(first, last + 1)]

    def _start(self, place: int) -> int:
        return self._ends[place - 1] + len("," + INDENT) if place else self._first


def json_rows(rows: Iterable[pydantic.BaseModel], *, keeps_nulls: bool) -> Iterator[bytes]:
    """Yield the text of rows with what separates them."""
    between = INDENT
    for row in rows:
        written = row.model_dump_json(indent=2, exclude_none=not keeps_nulls)
        yield (between + written.replace("\n", INDENT)).encode()
        between = "," + INDENT


def write_with_rows(path: Path, model: FileModel, key: str, rows: Iterable[pydantic.BaseModel]) -> None:
    """Publish a model as `FileModel.write` does, with these rows under the key whose array is empty in the model."""
    write_with_json(path, model, key, json_rows(rows, keeps_nulls=model.keeps_nulls))


def write_with_json(path: Path, model: FileModel, key: str, rows: Iterable[bytes]) -> None:
    """Publish a model as `write_with_rows` does, with the text of `json_rows`."""
    text = model.model_dump_json(indent=2, exclude_none=not model.keeps_nulls)
    before, opening, after = text.partition(f'\n  "{key}": [')
    if not (opening and after.startswith("]")):
        raise ValueError(f"{key} is not empty")
    with publishing(path) as file:
        file.write((before + opening).encode())
        start = file.tell()
        file.writelines(rows)
        file.write((("\n  " if file.tell() > start else "") + after + "\n").encode())
