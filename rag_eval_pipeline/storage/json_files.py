"""Bytes, gzip and strict JSON.

Strict JSON refuses what most readers accept in silence: a repeated key (the last one would win), NaN and infinities
(`1e999` too), lone surrogates, and bytes that are not UTF-8.
"""

import gzip
import io
import json
import math
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError

JSON = (".json", ".json.gz")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
MAX_UNPACKED_BYTES = 4_000_000_000  # a gzip of a few megabytes can hold more than a machine
_BLOCK_BYTES = 1 << 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: Path) -> bytes:
    """Return the file's bytes.

    Raises:
        InputError: `missing_file`, or `unreadable_file` for a folder.
        OSError: The machine could not read it (EIO, EMFILE, no permission); the file may be good.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (IsADirectoryError, NotADirectoryError) as error:
        raise InputError("unreadable_file", path, "a readable file", found=error.strerror) from error


def decode_utf8(data: bytes, path: Path | str) -> str:
    """Return the text of UTF-8 bytes without a byte order mark; `path` is for messages."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        found = data[error.start : error.start + 8]
        raise InputError("bad_encoding", path, f"UTF-8 at byte {error.start}", found=found) from None


def read_json(path: Path) -> Any:
    """Return the value of a JSON file, strictly read and decompressed when its name ends in `.gz`."""
    return parse_json(read_json_bytes(path), path)


def read_json_bytes(path: Path) -> bytes:
    """Return a JSON file's bytes, decompressed when its name ends in `.gz`, checked, without a byte order mark."""
    return checked_json(read_plain_bytes(path), path)


def read_plain_bytes(path: Path) -> bytes:
    """Return the file's bytes, decompressed when its name ends in `.gz`."""
    data = read_bytes(path)
    return gunzip(data, path) if path.name.endswith(".gz") else data


def checked_json(data: bytes, path: Path | str) -> bytes:
    """Return the bytes without a byte order mark if they are strict JSON; `path` is for messages."""
    _load(data, path, build=False)
    return data.removeprefix(BYTE_ORDER_MARK)


def parse_json(data: bytes, path: Path | str) -> Any:
    """Return the value of strict JSON; `path` is for messages."""
    return _load(data, path, build=True)


def _load(data: bytes, path: Path | str, *, build: bool) -> Any:
    try:
        return strict_json(decode_utf8(data, path), build=build)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise InputError("bad_json", place, "JSON", found=error.msg, hint="Is the file complete?") from None
    except JsonError as error:
        raise InputError("bad_json", path, error.expected, found=error.found) from None


class JsonError(Exception):
    """JSON that is well formed, but refused."""

    def __init__(self, code: str, expected: str, found: str | None = None) -> None:
        super().__init__(code)
        self.code, self.expected, self.found = code, expected, found


def strict_json(text: str, *, build: bool = True, allow_nan: bool = False) -> Any:
    """Return the value of strict JSON.

    Args:
        text: JSON without a byte order mark.
        build: Without it the text is only checked, and the objects in the value are None.
        allow_nan: Read NaN and infinities as null.

    Raises:
        JsonError: `duplicate_key`, `bad_number`, `bad_encoding` (a lone surrogate), `bad_json` (nested too deeply).
        json.JSONDecodeError: The text is not JSON.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
        value = dict(pairs)
        if len(pairs) > len(value):
            counts = Counter(key for key, _ in pairs)
            repeated = next(key for key, count in counts.items() if count > 1)
            raise JsonError("duplicate_key", "each key once", repeated)
        return value if build else None

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise JsonError("bad_number", "a number that a double can hold", digits)
        return value

    def constant(name: str) -> None:
        if not allow_nan:
            raise JsonError("bad_number", "a JSON number or null", name)

    try:
        value = json.loads(text, object_pairs_hook=members, parse_float=number, parse_constant=constant)
        if _SURROGATE.search(text):  # perhaps half of a pair; only an escape can make one
            json.dumps(value if build else json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise JsonError("bad_encoding", "text without lone surrogates", error.object[error.start]) from None
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise JsonError("bad_json", "JSON with fewer levels of nesting") from None
    except ValueError:
        raise JsonError("bad_number", "numbers of at most 4,300 digits") from None
    return value


def gunzip(data: bytes, path: Path | str) -> bytes:
    """Return the content of gzip bytes; `path` is for messages."""
    content = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            # Not in one call, which would reserve the limit's size at once.
            while len(content) <= MAX_UNPACKED_BYTES and (block := file.read(_BLOCK_BYTES)):
                content += block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("bad_gzip", path, "a complete gzip file", found=str(error)) from None
    if len(content) > MAX_UNPACKED_BYTES:
        raise InputError("too_large", path, f"at most {MAX_UNPACKED_BYTES} bytes after decompression")
    return bytes(content)
