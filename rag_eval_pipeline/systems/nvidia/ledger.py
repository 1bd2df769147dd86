"""What an upload has done so far, kept in a small checksummed file, so that a killed one is resumed."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.storage.atomic import atomic_write_json

logger = logging.getLogger(__name__)


class UploadRecord(msgspec.Struct, frozen=True):
    """One collection's upload.

    Args:
        ingestor: Base URL.
        collection: Its name there.
        is_ours: We made the collection, or were about to.
        tasks: Id of a task whose end was not seen -> its documents.
        sending: Documents of the request that was under way.
    """

    ingestor: str
    collection: str
    is_ours: bool = False
    tasks: dict[str, list[str]] = {}
    sending: list[str] = []


class UploadLedger:
    """The record of one collection, on disk after every change.

    A file that is damaged, or of another collection, is taken for none: the ingestor's own list says what is there.

    Args:
        path: Of the file.
        ingestor: Base URL.
        collection: Its name there.
    """

    def __init__(self, path: Path, ingestor: str, collection: str) -> None:
        self._path = path
        self.record = _read(path) or UploadRecord(ingestor, collection)
        if (self.record.ingestor, self.record.collection) != (ingestor, collection):
            self.record = UploadRecord(ingestor, collection)

    def save(self, **changes: Any) -> None:
        """Changes fields of the record and writes it."""
        self.record = msgspec.structs.replace(self.record, **changes)
        value = msgspec.to_builtins(self.record)
        atomic_write_json(self._path, {"sha256": _digest(value), "record": value})

    def task_begun(self, task_id: str, documents: list[str]) -> None:
        """The ingestor has taken a request."""
        self.save(tasks={**self.record.tasks, task_id: documents}, sending=[])

    def task_ended(self, task_id: str) -> None:
        """What became of a request is known."""
        self.save(tasks={known: documents for known, documents in self.record.tasks.items() if known != task_id})


def _read(path: Path) -> UploadRecord | None:
    try:
        value = json.loads(path.read_bytes())
        if value["sha256"] == _digest(value["record"]):
            return msgspec.convert(value["record"], UploadRecord)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, msgspec.ValidationError):
        pass
    logger.warning("upload_record_damaged path=%s", path)
    return None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
