"""Forms of files through their versions: which are read, and the steps that make an older file a present one.

A file says its form's version in `schema_version`; one that says none is of the first. The present version and the two
before it are read. Older ones take a small step a version, in memory: the file is left as it lies.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.errors import InputError

Value = dict[str, Any]
Step = Callable[[Value], Value]
FIELD = "schema_version"
VERSIONS_READ = 3  # the present one and the two before it
PACKAGE = "rag-eval-pipeline"


class VersionFault(NamedTuple):
    """Why a version is not read.

    Args:
        code: `bad_version`, `newer_schema` or `old_schema`.
        expected: What is read instead.
        hint: What to do.
    """

    code: str
    expected: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class Form:
    """A file's form.

    Args:
        name: As people call the file: `results`.
        versions: Every one there ever was, oldest first; the last is written.
        steps: Version -> what makes a value of it one of the next version. Pure: the value given is left as it is.
    """

    name: str = "file"
    versions: tuple[str, ...] = ("1.0",)
    steps: Mapping[str, Step] = field(default_factory=dict)

    @property
    def present(self) -> str:
        """The version that is written."""
        return self.versions[-1]

    @property
    def read(self) -> tuple[str, ...]:
        """The versions that are read, oldest first."""
        return self.versions[-VERSIONS_READ:]

    def fault_of(self, version: str) -> VersionFault | None:
        """Why a version is not read; None when it is."""
        parts = _numbers(version)
        if parts is None:
            return VersionFault("bad_version", "a version of the file's form such as 1.0", None)
        if version in self.read:
            return None
        *newer, oldest = reversed(self.read)
        expected = f"form {', '.join(newer)}{' or ' if newer else ''}{oldest} of the {self.name}"
        if parts > (_numbers(self.present) or ()):
            return VersionFault("newer_schema", expected, f"A later {PACKAGE} wrote it: upgrade.")
        return VersionFault("old_schema", expected, f"An earlier {PACKAGE} wrote it, and reads it.")

    def migrated(self, value: Value, file: Path | str) -> Value:
        """The value of a file as the present version has it; `file` is for messages.

        Raises:
            InputError: `bad_version`, `newer_schema`, `old_schema`.
        """
        stated = value.get(FIELD)
        version = self.versions[0] if stated is None else str(stated)
        self.require(version, file, stated=stated)
        for older, newer in zip(self.versions, self.versions[1:], strict=False):
            if older == version:
                value = {**self.steps[older](value), FIELD: newer}
                version = newer
        return value

    def require(self, version: str, file: Path | str, *, stated: object = None) -> None:
        """Raises the fault of a version that is not read."""
        if fault := self.fault_of(version):
            expected = f"{fault.expected}; without a version it is of the first" if stated is None else fault.expected
            raise InputError(fault.code, file, expected, field=FIELD, found=stated, hint=fault.hint)


def present_json(form: Form, data: bytes, file: Path | str) -> bytes:
    """JSON text of a file as the present version of its form has it; the same bytes where there is nothing to do.

    What is no object, or states a version that is no text, comes back too: the reader of its fields says so.

    Args:
        form: Of the file.
        data: JSON.
        file: For messages.

    Raises:
        InputError: As `Form.migrated`.
    """
    try:
        stated = msgspec.json.decode(data, type=_Stated).schema_version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return data
    if stated == form.present or not isinstance(stated, str | None):
        return data
    form.require(form.versions[0] if stated is None else stated, file, stated=stated)
    if len(form.versions) == 1:
        return data
    return json.dumps(form.migrated(json.loads(data), file), ensure_ascii=False).encode()


def stated_version(data: bytes) -> str | None:
    """The version that JSON text states; None when it states none, or is no object."""
    try:
        stated = msgspec.json.decode(data, type=_Stated).schema_version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return None if stated is None else str(stated)


class _Stated(msgspec.Struct):
    schema_version: Any = None


def _numbers(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        return None
    return tuple(map(int, parts))
