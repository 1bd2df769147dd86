"""JSON text, checked for what its readers pass over in silence, before they read it.

A repeated key (of which the last would win), NaN and infinities (`1e999` too), lone surrogates and bytes that are no
UTF-8 are errors. No value is kept: a file of a million questions costs its bytes and a second a hundred megabytes.
"""

import gzip
import io
import json
import math
import re
import zlib
from pathlib import Path
from typing import Any, NoReturn

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import read_bytes

MAX_UNPACKED = 4_000_000_000  # bytes; a gzip of a few megabytes can hold more than a machine
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json_text(path: Path) -> bytes:
    """The bytes of a JSON file, unpacked when its name ends in `.gz`, without byte order mark, and checked.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_gzip`, `too_large`, `bad_encoding`, `bad_json`.
    """
    data = read_bytes(path)
    if path.name.endswith(".gz"):
        data = unpacked(data, path)
    return checked_json(data, path)


def checked_json(data: bytes, path: Path | str) -> bytes:
    """The bytes without byte order mark, when they are strict JSON; `path` is for messages.

    Raises:
        InputError: `bad_encoding`, `bad_json`.
    """

    def refuse(expected: str, found: object) -> NoReturn:
        raise InputError("bad_json", path, expected, found=found)

    def members(pairs: list[tuple[str, Any]]) -> None:
        if len(pairs) > len(dict(pairs)):
            keys = [key for key, _ in pairs]
            refuse("each key once", next(key for number, key in enumerate(keys) if key in keys[:number]))

    def number(text: str) -> None:
        if not math.isfinite(float(text)):
            refuse("finite numbers", text)

    data = data.removeprefix(_BOM)
    try:
        text = data.decode()
        json.loads(
            text,
            object_pairs_hook=members,
            parse_float=number,
            parse_constant=lambda name: refuse("finite numbers", name),
        )
        if _SURROGATE.search(data):  # half of a pair, perhaps; only then is the value built
            json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        found = data[error.start : error.start + 8]
        raise InputError("bad_encoding", path, f"UTF-8 at byte {error.start}", found=found) from None
    except UnicodeEncodeError as error:
        raise InputError("bad_json", path, "text without lone surrogates", found=error.object[error.start]) from None
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise InputError("bad_json", place, "JSON", found=error.msg, hint="Is the file complete?") from None
    except RecursionError:
        raise InputError("bad_json", path, "fewer levels of nesting") from None
    except ValueError as error:  # an integer of more than 4,300 digits
        raise InputError("bad_json", path, "numbers of a sensible length", found=str(error)) from None
    return data


def each_key_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, for the `object_pairs_hook` of `json.loads`, which by itself keeps the last of two equal keys.

    Raises:
        ValueError: A key stands twice.
    """
    value: dict[str, Any] = {}
    for key, item in members:
        if key in value:
            raise ValueError(f"the key {key!r} stands twice")
        value[key] = item
    return value


def unpacked(data: bytes, path: Path | str) -> bytes:
    """The content of gzip bytes; `path` is for messages.

    Raises:
        InputError: `bad_gzip`, `too_large`.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(MAX_UNPACKED + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("bad_gzip", path, "a whole gzip file", found=str(error)) from None
    if len(content) > MAX_UNPACKED:
        raise InputError("too_large", path, f"at most {MAX_UNPACKED} bytes unpacked")
    return content
