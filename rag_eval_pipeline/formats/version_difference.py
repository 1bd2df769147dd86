"""What differs between two files of one dataset version: which questions, which documents, which other field.

Made for the question whether a file may be published under a version that exists. Equal files are compared by their
bytes and nothing is parsed; of others, questions stay bytes, and only those whose bytes differ are decoded.
"""

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.formats.dataset_files import read_evaluation_dataset
from rag_eval_pipeline.formats.findings import listed
from rag_eval_pipeline.formats.json_text import unpacked
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.model_files import JSON

ITEMS = {"queries": "query_id", "documents": "document_id"}  # lists whose items have ids
IGNORED = frozenset({"schema_version"})  # a later release writes the same dataset in a later form


@dataclass(frozen=True, slots=True)
class _Parts:
    """A file, its lists cut into the bytes of their items."""

    fields: dict[str, Any]
    items: dict[str, dict[str, msgspec.Raw]]
    has_documents: bool


def version_difference(old: Path, new: Path) -> str | None:
    """What a person would say has changed from one file to the other; None when both say the same.

    Keys may stand in another order, fields without value may be written or left out, and the form (JSON, gzip, YAML,
    CSV) may differ: that is no change. The order of the questions is one.

    Args:
        old: An evaluation dataset.
        new: Another.

    Raises:
        InputError: A file cannot be read as an evaluation dataset.
    """
    if _digest(old) == _digest(new):
        return None
    before, after = _parts(old), _parts(new)
    changes = [change for name in ITEMS for change in _item_changes(name, before, after)]
    if before.has_documents != after.has_documents:
        changes.append("documents stood there and do not" if before.has_documents else "documents stand there now")
    for name in sorted(before.fields.keys() | after.fields.keys()):
        first, second = before.fields.get(name), after.fields.get(name)
        if name not in IGNORED and not _same(name, first, second):
            changes.append(f"{name} was {excerpt(first)} and is {excerpt(second)}")
    return "; ".join(changes) or None


def _digest(path: Path) -> bytes:
    return hashlib.sha256(read_bytes(path)).digest()


def _parts(path: Path) -> _Parts:
    if path.name.endswith(JSON):
        data = read_bytes(path)
        text = unpacked(data, path) if path.name.endswith(".gz") else data
    else:
        text = read_evaluation_dataset(path).dataset.model_dump_json(exclude_none=True).encode()
    try:
        fields: dict[str, Any] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        items = {name: _by_id(fields.get(name), key) for name, key in ITEMS.items()}
        given = "documents" in fields and bytes(fields["documents"]) != b"null"
        own = {name: raw for name, raw in fields.items() if name not in ITEMS}
        return _Parts({name: _normal(msgspec.json.decode(raw)) for name, raw in own.items()}, items, given)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError("bad_format", path, "an evaluation dataset", found=str(error)) from None


def _by_id(raw: msgspec.Raw | None, key: str) -> dict[str, msgspec.Raw]:
    """Bytes of the items by id, in order."""
    item = msgspec.defstruct("Item", [("id", str)], rename={"id": key})
    items = msgspec.json.decode(b"[]" if raw is None or bytes(raw) == b"null" else raw, type=list[msgspec.Raw])
    return {msgspec.json.decode(one, type=item).id: one for one in items}  # type: ignore[attr-defined]


def _item_changes(name: str, before: _Parts, after: _Parts) -> list[str]:
    old, new = before.items[name], after.items[name]
    added = [one for one in new if one not in old]
    removed = [one for one in old if one not in new]
    changed = [(one, fields) for one in new if one in old and (fields := _changed_fields(old[one], new[one]))]
    changes = []
    if added:
        changes.append(f"{_counted(added, name)} added: {listed(added)}")
    if removed:
        changes.append(f"{_counted(removed, name)} removed: {listed(removed)}")
    if changed:
        in_fields = sorted({field for _, fields in changed for field in fields})
        ids = listed(one for one, _ in changed)
        changes.append(f"{_counted(changed, name)} changed in {', '.join(in_fields)}: {ids}")
    if not added and not removed and list(old) != list(new):
        changes.append(f"{name} stand in another order")
    return changes


def _counted(items: Sequence[object], name: str) -> str:
    return f"1 {ITEMS[name].removesuffix('_id')}" if len(items) == 1 else f"{len(items)} {name}"


def _changed_fields(old: msgspec.Raw, new: msgspec.Raw) -> Sequence[str]:
    if bytes(old) == bytes(new):
        return ()
    before, after = _normal(msgspec.json.decode(old)), _normal(msgspec.json.decode(new))
    return [name for name in before.keys() | after.keys() if not _same(name, before.get(name), after.get(name))]


def _normal(value: Any) -> Any:
    """The value without fields that say nothing, so that absent, null and empty are one."""
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if item is not None and item not in ([], {})}


def _same(name: str, first: Any, second: Any) -> bool:
    """Whether two values of a field say the same: in metadata every key counts, in citations those with a value."""
    if name == "citations" and isinstance(first, list) and isinstance(second, list):
        first, second = [_normal(one) for one in first], [_normal(one) for one in second]
    if name == "created_at" and isinstance(first, str) and isinstance(second, str):
        with contextlib.suppress(ValueError, TypeError):
            return datetime.fromisoformat(first) == datetime.fromisoformat(second)
    return _equal(first, second)


def _equal(first: Any, second: Any) -> bool:
    """Equality in which 1 is 1.0 and is not true."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_equal(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)
