r"""An append-only journal: a checksummed line a record, group commit, and a reader that leaves out what is damaged.

A line is `<crc32 of the JSON, 8 hex> <JSON>\n`. A record survives its process as soon as it is appended, and a crash of
the machine after the next commit, at most 200 ms later while records come in.
"""

import contextlib
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from rag_eval_pipeline.storage.atomic_files import errors_about

COMMIT_SECONDS = 0.2
TAIL_BYTES = 1 << 20  # read to find the last whole line; more where a line is longer

Record = TypeVar("Record")
logger = logging.getLogger(__name__)


class JournalWriter:
    """Appends records to a journal; a context manager that commits at its end.

    A torn last line of a killed writer is cut off on opening, because it would hide the records after it.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._length = _good_length(path)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # lives as long as the writer
        with errors_about(path):
            self._file.truncate(self._length)
        self._pending = False
        self._committed_at = time.monotonic()

    def append(self, record: Any) -> None:
        """Append one record; it is with the operating system at once, and on disk after the next commit."""
        body = msgspec.json.encode(record)
        line = b"%08x " % zlib.crc32(body) + body + b"\n"
        written = 0
        self._pending = True
        try:
            with errors_about(self._path):
                while written < len(line):  # a full disk takes a part before it refuses
                    written += self._file.write(line[written:])
        except OSError:
            with contextlib.suppress(OSError):  # no record may follow a part of a line
                self._file.truncate(self._length)
            raise
        self._length += len(line)
        if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
            self.commit()

    def extend(self, records: Iterable[Any]) -> None:
        """Append several records in order."""
        for record in records:
            self.append(record)

    def commit(self) -> None:
        """Make every appended record durable."""
        if self._pending:
            with errors_about(self._path):
                os.fsync(self._file.fileno())
        self._pending = False
        self._committed_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.commit()
        self._file.close()


class Entry(NamedTuple):
    """A valid line: its offset in the file, and its JSON."""

    offset: int
    body: bytes


def read_journal(path: Path) -> Iterator[Any]:
    """Yield the records of a journal in order; none if there is no file.

    A torn last line is what a killed writer leaves and is ignored. Damaged lines, as a power cut leaves them when pages
    reach the disk out of order, are left out with a warning: the good ones, which may be paid answers, are kept, and
    what is missing is made again. Memory does not grow with the journal.
    """
    return (msgspec.json.decode(entry.body) for entry in read_entries(path))


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield the lines of a journal in order with their offsets; otherwise as `read_journal`."""
    if not path.exists():
        return
    with path.open("rb") as file:
        offset = damaged = 0
        for line in file:
            if not line.endswith(b"\n"):
                break  # torn, whatever its checksum says: the writer will cut it
            body = _checked(line[:-1])
            if body is None:
                damaged += 1
            else:
                # A bad line is torn too while nothing good follows it.
                if damaged:
                    logger.warning("%s: %d damaged lines are left out; what they held is made again", path, damaged)
                    damaged = 0
                yield Entry(offset, body)
            offset += len(line)


class JournalIndex(Generic[Record]):
    """The last record of each key of a journal, read from the file on demand.

    A hundred thousand answers with their passages take half a gigabyte, their offsets a few megabytes. Nothing may be
    appended meanwhile.
    """

    def __init__(self, path: Path, type_: type[Record], key: Callable[[Record], str]) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(type_)
        self._offsets: dict[str, int] = {}
        for entry in read_entries(path):
            self._offsets[key(self._decode(entry.body))] = entry.offset

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, key: object) -> bool:
        return key in self._offsets

    def records(self, keys: Iterable[str]) -> Iterator[Record]:
        """Yield the records of some keys, in their order."""
        with self._path.open("rb") as file:
            for key in keys:
                file.seek(self._offsets[key])
                body = _checked(file.readline()[:-1])
                assert body is not None, "the line was valid when the index was made"
                yield self._decode(body)

    def _decode(self, body: bytes) -> Record:
        record: Record = self._decoder.decode(body)
        return record


def _checked(line: bytes) -> bytes | None:
    checksum, _, body = line.partition(b" ")
    return body if len(checksum) == 8 and b"%08x" % zlib.crc32(body) == checksum else None


def _good_length(path: Path) -> int:
    """Return the bytes up to the end of the last valid line; only the file's end is read."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        window = TAIL_BYTES
        while True:
            start = max(0, size - window)
            file.seek(start)
            data = file.read(size - start)
            end = data.rfind(b"\n") + 1
            before = data.rfind(b"\n", 0, end - 1) + 1 if end else 0
            # The window must contain the beginning of the last whole line.
            if start == 0 or before:
                break
            window *= 8
    if end and _checked(data[before : end - 1]) is None:
        return start + before
    return start + end
