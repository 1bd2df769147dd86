r"""What TREC's text files are made of: lines, plain or gzip-compressed, and ids that no white space may split.

`encode_id` makes any text an id that can stand in such a file, and changes nothing else: each white-space character
becomes `%XX` of its UTF-8 bytes (upper-case hex), NUL likewise, and one `25` goes behind a `%` that an escape of that
kind follows already. `a b.pdf` is `a%20b.pdf`, `a%20b.pdf` is `a%2520b.pdf`, and `100%.pdf` and `caf%C3%A9.pdf` stay.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import publishing

LINE_LIMIT = 16 * 1024 * 1024  # bytes; a question has a few hundred, and an unpacked bomb no line ends
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

T = TypeVar("T")
Parse = Callable[[bytes, int], T | None]


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


# trec_eval splits at ASCII white space, most Python readers at what Unicode calls so; NUL ends a string in C.
SPLITTING = re.compile(r"[\s\0]")
_ESCAPED = {_escape(chr(code)): chr(code) for code in range(0x3001) if SPLITTING.match(chr(code))}
_ESCAPE = re.compile(f"%((?:25)*)({'|'.join(escape[1:] for escape in _ESCAPED)})")


def encode_id(text: str) -> str:
    """The text as an id without white space; `decode_id` gives it back, and no two texts share an id."""
    guarded = _ESCAPE.sub(r"%25\1\2", text)
    return SPLITTING.sub(lambda found: _escape(found[0]), guarded)


def decode_id(identifier: str) -> str:
    """The text that `encode_id` made an id of; never for ids of other people's files, which may hold `%20` as it is."""

    def plain(found: re.Match[str]) -> str:
        return f"%{found[1][2:]}{found[2]}" if found[1] else _ESCAPED[found[0]]

    return _ESCAPE.sub(plain, identifier)


def check_id(path: Path, identifier: str, field: str) -> str:
    """The id itself, when it can stand in a TREC file.

    Raises:
        InputError: `bad_id`.
    """
    if identifier and not SPLITTING.search(identifier):
        return identifier
    raise InputError(
        "bad_id", path, "an id that is not empty and holds no white space", field=field, found=identifier,
        hint="encode_id makes one.",
    )  # fmt: skip


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""The lines of a file with their 1-based numbers, without `\n` or `\r\n`; only `\n` ends a line.

    Args:
        path: Plain or gzip-compressed, as its first bytes say.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_gzip`, `long_line`.
    """
    row = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            file: BinaryIO = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            while line := file.readline(LINE_LIMIT):
                row += 1
                if len(line) == LINE_LIMIT and not line.endswith(b"\n"):
                    raise InputError("long_line", path, f"a line shorter than {LINE_LIMIT} bytes", row=row)
                if row == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield row, line.removesuffix(b"\n").removesuffix(b"\r")
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("bad_gzip", path, "a whole gzip file", row=row + 1, found=str(error)) from error
    except OSError as error:
        raise InputError("unreadable_file", path, "a readable file", found=error.strerror) from error


def parsed(path: Path, parse: Parse[T]) -> Iterator[T | InputError]:
    """What `parse` makes of each line that is no comment, or the fault that it raises for it.

    Raises:
        InputError: Faults of the file itself.
    """
    for row, line in lines(path):
        try:
            if (record := parse(line, row)) is not None:
                yield record
        except InputError as fault:
            yield fault
        except UnicodeDecodeError as error:
            yield InputError("bad_encoding", path, "UTF-8", row=row, found=line[error.start : error.end])


def strict(records: Iterator[T | InputError]) -> Iterator[T]:
    """The records; the first fault is raised."""
    for record in records:
        if isinstance(record, InputError):
            raise record
        yield record


def findings(records: Iterator[T | InputError]) -> list[str]:
    """Every fault as a line, in the file's order; a fault of the file itself is the last."""
    found = []
    try:
        found += [str(record) for record in records if isinstance(record, InputError)]
    except InputError as error:
        found.append(str(error))
    return found


@contextmanager
def packing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, published atomically; compressed, without a time, when its name ends in `.gz`."""
    with publishing(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]


class SeenPairs:
    """Which documents each query has had, to find repeats.

    Lines of a query usually stand together: its documents are a set while they come, and afterwards a JSON list, which
    takes little more than the ids themselves. A query that returns keeps its set.
    """

    def __init__(self) -> None:
        self._query: str | None = None
        self._current: set[str] = set()
        self._closed: dict[str, bytes] = {}
        self._returned: dict[str, set[str]] = {}

    def add(self, query: str, document: str) -> bool:
        """Whether the pair is new."""
        if query != self._query:
            self._turn_to(query)
        size = len(self._current)
        self._current.add(document)
        return len(self._current) > size

    def _turn_to(self, query: str) -> None:
        if self._query is not None and self._query not in self._returned:
            self._closed[self._query] = msgspec.json.encode(list(self._current))
        self._query = query
        if query in self._closed:
            self._returned[query] = msgspec.json.decode(self._closed.pop(query), type=set[str])
        self._current = self._returned.get(query, set())
