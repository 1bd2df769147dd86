"""Seals of results files: what each was when it entered the history, so that a flipped bit is found and named.

A file that was published again under its id, which states a later time, is sealed anew beside its earlier seals; any
other difference is damage.
"""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import ClassVar, NamedTuple

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.io import read_bytes
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.workspace import Workspace


class Sealed(Model):
    """A results file at one time."""

    sha256: str = pydantic.Field(description="Of its bytes.")
    timestamp: pydantic.AwareDatetime = pydantic.Field(description="That it states.")


class Seal(FileModel):
    """`history/seals/<evaluation_id>.json`."""

    file_type: ClassVar[str] = "seal"

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Of this file's form.")
    states: tuple[Sealed, ...] = pydantic.Field(min_length=1, description="The last is the one that holds.")


def history_folder(workspace: Workspace) -> Path:
    """Where the history's tables and seals lie."""
    return workspace.results.parent / "history"


def is_sealed(workspace: Workspace, path: Path) -> bool:
    """Whether a results file is as it was sealed."""
    known = _read(workspace, path)
    return known is not None and known.states[-1].sha256 == hashlib.sha256(read_bytes(path)).hexdigest()


def seal(workspace: Workspace, path: Path) -> None:
    """Seals a results file as it is, unless it is damaged."""
    data = read_bytes(path)
    known = _read(workspace, path)
    if known is not None and fault_of(workspace, path, data) is not None:
        return
    state = Sealed(sha256=hashlib.sha256(data).hexdigest(), timestamp=_timestamp(data))
    Seal(states=(*(known.states if known else ()), state)).write(_file(workspace, path))


class SealLook(NamedTuple):
    """What a results file's seal says of it.

    Args:
        is_sealed: The file is as it was sealed.
        fault: A line when it is not, and was not published again; None when all is well, or nothing is sealed.
    """

    is_sealed: bool
    fault: str | None


def look_at_seal(workspace: Workspace, path: Path, data: bytes, digest: str) -> SealLook:
    """A results file against its seal.

    Args:
        workspace: Where.
        path: Of the file.
        data: Its bytes.
        digest: Their sha256.
    """
    try:
        known = _read(workspace, path)
    except InputError as error:
        return SealLook(False, str(error))
    if known is None or known.states[-1].sha256 != digest:
        return SealLook(False, fault_of(workspace, path, data))
    return SealLook(True, None)


def fault_of(workspace: Workspace, path: Path, data: bytes) -> str | None:
    """A line when a results file is not what was sealed and was not published again; None when all is well.

    Args:
        workspace: Where.
        path: Of the file.
        data: Its bytes.
    """
    try:
        known = _read(workspace, path)
    except InputError as error:
        return str(error)
    if known is None or known.states[-1].sha256 == hashlib.sha256(data).hexdigest():
        return None
    try:
        is_newer = _timestamp(data) > known.states[-1].timestamp
    except (ValueError, KeyError, TypeError):
        is_newer = False
    if is_newer:
        return None
    damage = InputError(
        "changed_result", path, "the file that was published",
        found=f"sha256 {hashlib.sha256(data).hexdigest()[:12]}, not {known.states[-1].sha256[:12]}",
        hint="Restore it from a backup; its figures are shown as they stand.",
    )  # fmt: skip
    return str(damage)


def _timestamp(data: bytes) -> datetime:
    return datetime.fromisoformat(json.loads(data)["timestamp"])


def _file(workspace: Workspace, path: Path) -> Path:
    return history_folder(workspace) / "seals" / f"{path.name.partition('.')[0]}.json"


def _read(workspace: Workspace, path: Path) -> Seal | None:
    file = _file(workspace, path)
    return Seal.read(file) if file.exists() else None
