"""Mutations of files: bytes and text of any kind, and the values of JSON and YAML; a number decides which.

Equal numbers give equal inputs. Most inputs keep the form of their seed and break one thing in it, because what is broken
everywhere is refused at its first byte.
"""

import copy
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml

MAX_BYTES = 400_000
INTEGERS = (0, 1, -1, 127, 128, 255, 256, 32_767, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64)
NUMBERS = (*INTEGERS, 10**30, 10**400, -0.0, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "", " ", "\0", "a\0b", "\n", "\r", "\t", "\ufeff", "\ud800", "\u2028", "\u202etxt.pdf", "\x1b[31mred\x1b[0m", "e\u0301",
    "\u0131", "\ufb01", "\U0001f469\u200d\U0001f469", "\u0661\u0662", "null", "true", "no", "NaN", "1e999", "007", "-1", "0x1F",
    "../../etc/passwd", "/", ".", "..", "C:\\x", "http://[::1", "http://127.0.0.1/", "file:///etc/passwd", "=cmd|' /C'",
    "[a.pdf:1:0-4]", "[a.pdf:1:9999999999999999999-3]", "{question}", "${HOME}", "%00", "%", "{", "2025-13-45", "*", "[", "(",
    "2025-08-30T13:00:00", "1.0.0", "99.99", "x" * 300, "word " * 4_000, "\u00e9" * 200,
)  # fmt: skip
TOKENS = (
    b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc3", b"\x1b[31m", b'"', b"'", b"\\",
    b"\\u", b"\\ud800", b"\n", b"\r", b"\r\n", b"\n\n", b"\t", b",", b";", b":", b": ", b"- ", b"#", b"{", b"}", b"[", b"]",
    b"(", b")", b"%", b"%00", b"&a ", b"*a", b"!!python/object:os.system ", b"<<: ", b"---\n", b"|", b">", b"? ", b"~", b"null",
    b"NaN", b"-Infinity", b"1e999", b"-0", b"00", b"9" * 5_000, b"data: ", b"event: error\n", b"[DONE]", b"```", b"<think>",
    b"[" * 50_000, b'{"a":' * 20_000, b"a" * 100_000, b"\n" * 3_000, b'"' * 1_001, b"," * 2_000, b"- " * 500, b"PK\x05\x06",
    b"startxref\n99999999999\n", b"<<", b">>", b"endobj", b"/Length -1", b"/Kids[1 0 R]", b"</desc>", b"<num>",
)  # fmt: skip


def mutated(seeds: Sequence[bytes], number: int, name: str) -> bytes:
    """Return the input of this number: one of the seeds with a few changes."""
    rng = random.Random(f"{name} {number}")
    seed = rng.choice(seeds)
    data = _with_changed_values(seed, rng) if rng.random() < 0.6 else None
    if data is None or rng.random() < 0.15:
        data = data or seed
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            data = rng.choice(_BYTE_CHANGES)(data, rng)
    return data[:MAX_BYTES]


# --- bytes


def _places(data: bytes, rng: random.Random) -> tuple[int, int]:
    """Return the ends of a part of the data, mostly a short one."""
    size = min(len(data), rng.choice((1, 2, 4, 8, 32, 128, len(data))))
    start = rng.randrange(len(data) - size + 1)
    return start, start + size


def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"\0"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[at:] if rng.random() < 0.2 else data[:at]


def _remove(data: bytes, rng: random.Random) -> bytes:
    start, end = _places(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = _places(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[end:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _number(data: bytes, rng: random.Random) -> bytes:
    """Put another number in place of one in text, or of 2, 4 or 8 bytes."""
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if digits and rng.random() < 0.5:
        at = end = rng.choice(digits)
        while end < len(data) and 48 <= data[end] <= 57:
            end += 1
        return data[:at] + str(rng.choice(NUMBERS)).encode() + data[end:]
    form = rng.choice(("<H", "<I", "<Q", ">I", ">Q"))
    written = struct.pack(form, rng.choice(INTEGERS) % (1 << 8 * struct.calcsize(form)))
    at = rng.randrange(max(1, len(data) - len(written) + 1))
    return data[:at] + written + data[at + len(written) :]


Change = Callable[[bytes, random.Random], bytes]
_BYTE_CHANGES: tuple[Change, ...] = (_flip, _cut, _remove, _repeat, _insert, _insert, _number)


# --- values of JSON and YAML


def _with_changed_values(data: bytes, rng: random.Random) -> bytes | None:
    """Return the data with changed values in its JSON, YAML, or one line of JSON; None if it has none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    try:
        return _dumped(_changed(json.loads(text), rng), rng).encode("utf-8", "surrogatepass")
    except ValueError:
        pass
    lines = text.split("\n")
    holding = [at for at, line in enumerate(lines) if "{" in line and line.endswith("}")]
    for at in rng.sample(holding, len(holding)):
        before, brace, value = lines[at].partition("{")
        try:
            lines[at] = before + _dumped(_changed(json.loads(brace + value), rng), None)
            return "\n".join(lines).encode("utf-8", "surrogatepass")
        except ValueError:
            continue
    try:
        value = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    if not isinstance(value, dict | list):
        return None
    return _dumped(_changed(value, rng), rng).encode("utf-8", "surrogatepass")


def _dumped(value: Any, rng: random.Random | None) -> str:
    indent = 2 if rng is not None and rng.random() < 0.5 else None
    return json.dumps(value, indent=indent, ensure_ascii=rng is not None and rng.random() < 0.5, default=str)


def _changed(value: Any, rng: random.Random) -> Any:
    """Return a copy of the value with one to three parts that are gone, repeated, or of another type."""
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, key = rng.choice(list(_parts(root)))
        what = rng.random()
        if what < 0.12 and holder is not root:
            del holder[key]
        elif what < 0.2 and isinstance(holder, list) and holder is not root:
            holder[key:key] = [copy.deepcopy(holder[key])] * rng.choice((1, 2, 30))
        elif what < 0.28 and isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder[key] if rng.random() < 0.5 else holder.pop(key)
        elif what < 0.34:
            holder[key] = _nested(holder[key], rng)
        else:
            holder[key] = _other(holder[key], rng)
    return root[0]


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a value and each of its keys or indexes."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _parts(value[key])


def _nested(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 2, 40, 200))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def _other(value: Any, rng: random.Random) -> Any:
    """Return another value, of the same type or not."""
    if isinstance(value, bool) and rng.random() < 0.3:
        return not value
    if isinstance(value, int | float) and rng.random() < 0.6:
        return rng.choice(NUMBERS)
    if isinstance(value, str) and rng.random() < 0.6:
        at = rng.randrange(len(value) + 1)
        return rng.choice((rng.choice(TEXTS), value[:at] + rng.choice(TEXTS) + value[at:], value[:at], value * 2))
    return rng.choice((None, True, False, [], {}, [None], {"": None}, [{}], rng.choice(NUMBERS), rng.choice(TEXTS)))
