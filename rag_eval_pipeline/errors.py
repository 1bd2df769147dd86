"""The error types: bad input, a service, document or request to a server that fails.

An `InputError` keeps its facts apart from its sentence: the same facts are the quarantine record of a bad row.
"""

import errno
import io
import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

# Errors of the machine that say nothing about the file: no disk space, no descriptors, a failing disk.
MACHINE_ERRORS = frozenset(
    {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EROFS}
)
FOUND_LIMIT = 200  # characters of a cell shown in a message or a quarantine record
EXPECTED_LIMIT = 2_000  # characters of what is expected, where a library quotes the input
KNOWN_LIMIT = 30  # known names that a message lists
# What ends a line, changes how a terminal shows the rest of it, or cannot be encoded.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """Return a question with the known names that are most like an unknown one; None if none is."""
    by_lower = {one.lower(): one for one in known}
    close = [by_lower[one] for one in get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.7)]
    return f"Did you mean {' or '.join(close)}?" if close else None


def unknown_name_hint(name: object, known: Iterable[str], what: str = "") -> str:
    """Return a hint on an unknown name: the known ones that are most like it, else all: `Known systems: a, b.`."""
    names = list(known)
    more = f", ... ({len(names)} in all)" if len(names) > KNOWN_LIMIT else ""
    listed = f"Known{what and f' {what}'}: {', '.join(names[:KNOWN_LIMIT]) or 'none'}{more}."
    return did_you_mean(name, names) or listed


def printable(line: str) -> str:
    """Return a line with escapes for the characters that could end it or control a terminal."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), line)


def excerpt(value: object) -> str:
    """Return the `repr` of a value, cut to 200 characters."""
    return shortened(repr(value))


def shortened(text: str, limit: int = FOUND_LIMIT) -> str:
    """Return at most `limit` characters of a text, with an ellipsis if it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 question`, `1,200 questions`, `0 judges`; the plural is the noun with s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def first_names(names: Sequence[str], limit: int) -> str:
    """Return the first names of a list, and how many there are beyond them: `a, b and 3 more`."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def other_errors(places: Sequence[str]) -> str | None:
    """Return the errors beside the one that a message is about, by field or row: `2 more errors: name, version`."""
    return f"{counted(len(places), 'more error')}: {first_names(places, 5)}." if places else None


def row_text(row: int, *, line: int | None = None, item: str | None = None) -> str:
    """Return the number of a row as messages name it, with its line, and the question of a row that has several."""
    details = [*([f"line {line}"] if line is not None else []), *([f"question {item}"] if item is not None else [])]
    return f"{row} ({', '.join(details)})" if details else str(row)


def fault_line(
    code: str,
    file: str | None,
    expected: str,
    *,
    row: int | None = None,
    line: int | None = None,
    item: str | None = None,
    field: str | None = None,
    found: str | None = None,
    hint: str | None = None,
) -> str:
    """Return place, expectation, finding, code and remedy as one line; arguments as for `InputError` and `row_text`."""
    place = file or "the input"
    if row is not None:
        place += f", row {row_text(row, line=line, item=item)}"
    if field is not None:
        place += f', field "{shortened(field)}"'
    what = "" if found is None else f", found {found}"
    remedy = "" if hint is None else f" {hint}"
    return printable(f"{place}: expected {shortened(expected, EXPECTED_LIMIT)}{what} [{code}].{remedy}")


class InputError(Exception):
    """Input that a person has to correct: one line with place, expectation, finding, code and remedy.

    Args:
        code: One cause, one code (`bad_url`, `missing_column`).
        file: The file of the input; a name if there is no file (`--system`).
        expected: The required form.
        row: 1-based row in the source.
        field: The source's own name of the column or key.
        found: The value found; None if there was none. Shown as `repr`, at most 200 characters.
    """

    def __init__(
        self,
        code: str,
        file: Path | str,
        expected: str,
        *,
        row: int | None = None,
        field: str | None = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, file, expected)
        self.code = code
        self.file = str(file)
        self.expected = expected
        self.row = row
        self.field = field
        self.found = None if found is None else excerpt(found)
        self.hint = hint

    def __str__(self) -> str:
        return fault_line(
            self.code, self.file, self.expected, row=self.row, field=self.field, found=self.found, hint=self.hint
        )


def os_fault(error: OSError) -> InputError:
    """Convert an OSError to an InputError."""
    file = error.filename or _file_in_use(error) or "the file system"
    return InputError("os_error", file, "a place to read and write", found=error.strerror or str(error))


def _file_in_use(error: OSError) -> str | None:
    """Return the file that was read or written when an error occurred: a failed read or write names none."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        files = {_file_name(value) for value in frame.f_locals.values() if isinstance(value, io.IOBase)} - {None}
        if len(files) == 1:
            (found,) = files
    return found


def _file_name(file: Any) -> str | None:
    """Return the path of an open file; None for a descriptor, a standard stream and what is no file of the system."""
    raw = getattr(file, "raw", file)
    name = getattr(raw, "name", None)
    is_path = isinstance(raw, io.FileIO) and isinstance(name, str | Path) and not str(name).startswith("<")
    return str(name) if is_path else None


class ServiceError(Exception):
    """A server, judge or browser that could not be used; `rag-eval` exits 4 with this one line.

    Args:
        code: One cause, one code (`browser_missing`, `egress_open`).
        message: What was tried and what happened, in one line.
    """

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        hint = "" if self.hint is None else f" {self.hint}"
        return printable(f"{self.message} [{self.code}].{hint}")


class DocumentError(Exception):
    """A document that could not be fetched, read or rendered; the others go on.

    Args:
        code: One cause, one code (`http_404`, `egress_blocked`, `pdf_damaged`).
        body_sha256: Of a body that must not be tried again while it and the browser stay the same.
    """

    def __init__(self, code: str, message: str, body_sha256: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.body_sha256 = body_sha256

    def __str__(self) -> str:
        return printable(f"{self.message} [{self.code}]")


_TIMEOUTS = frozenset({"connect_timeout", "attempt_timeout", "total_timeout"})
Failure = Literal["error", "timeout", "truncated", "refused"]


class EndpointError(Exception):
    """A request that failed for good, retries included; secrets are masked in all of it.

    Args:
        code: One cause, one code: `connection_refused`, `connection_reset`, `connection_broken`, `dns`, `tls`,
            `connect_timeout`, `attempt_timeout`, `total_timeout`, `http_<status>`, `rate_limited`, `bad_response`,
            `body_too_large`, and of a chat `stream_truncated`, `error_reply`, `content_filter`.
        status: By default `timeout` for the codes of timeouts, else `error`.
        partial: What had arrived of a truncated answer: the text of a chat, else the bytes.
        elapsed_ms: Since the first attempt was sent.
        body: Of the last response, if its HTTP status was the failure.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: Failure | None = None,
        requests: int = 0,
        partial: bytes | None = None,
        elapsed_ms: float = 0.0,
        http_status: int | None = None,
        body: bytes | None = None,
        raw_sha256: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = " ".join(message.split())
        self.status: Failure = status or ("timeout" if code in _TIMEOUTS else "error")
        self.requests = requests
        self.partial = partial
        self.elapsed_ms = elapsed_ms
        self.http_status = http_status
        self.body = body
        self.raw_sha256 = raw_sha256

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"
