"""Cache of a model judge's replies by their request: a file for each, which several machines may share.

Only replies that were read as verdicts are kept. Files are written aside and renamed, so that a reader sees a whole
reply or none; a damaged one is a miss. A file's modification time is its last use, to within a day.
"""

import contextlib
import hashlib
import math
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.atomic_files import TEMP_PREFIX, replace_file, walk

TOUCH_SECONDS = 86_400.0  # a hit is noted at most once a day: reading must not become writing
UNUSABLE_FILES = 1_000  # replies that could not be read, kept for people


class CachedReply(NamedTuple):
    """A reply as the model wrote it, and the model that the server reports."""

    reply: str
    model: str | None


class _Entry(msgspec.Struct, frozen=True):
    key: str
    model: str | None
    reply: str
    crc: int


class JudgementCache:
    """The cache in one folder: `replies/<server>/<ab>/<key>.json`, `models/<server>.json`, and `unusable/` for people.

    Every method raises `ServiceError` `cache_unusable` if the disk is full or refuses.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        with _as_service_error(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: str, server: str) -> CachedReply | None:
        """Return the reply to a request; None if there is none."""
        path = self._path(key, server)
        with _as_service_error(self._folder):
            try:
                with path.open("rb") as file:
                    data, used_at = file.read(), os.fstat(file.fileno()).st_mtime
            except FileNotFoundError:
                return None
            entry = _decode(data)
            if entry is None or entry.key != key:
                return None
            now = self._clock()
            if now - used_at > TOUCH_SECONDS:
                with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                    os.utime(path, (now, now))
        return CachedReply(entry.reply, entry.model)

    def keep(self, key: str, server: str, reply: CachedReply) -> None:
        """Keep a reply; it replaces an older one of the same key."""
        entry = _Entry(key, reply.model, reply.reply, _checksum(key, reply.reply, reply.model))
        with _as_service_error(self._folder):
            _write(self._path(key, server), msgspec.json.encode(entry), self._clock())

    def newest_model(self, server: str) -> str | None:
        """Return the model that a server reported last; None if it never did."""
        path = self._model_file(server)
        with _as_service_error(self._folder):
            try:
                return msgspec.json.decode(path.read_bytes(), type=str)
            except (FileNotFoundError, msgspec.MsgspecError):
                return None

    def note_model(self, server: str, model: str) -> None:
        """Note the model that a server reports now."""
        with _as_service_error(self._folder):
            replace_file(self._model_file(server), msgspec.json.encode(model))

    def keep_unusable(self, key: str, fault: str, reply: str) -> None:
        """Keep a reply that could not be read, for people; `find` never returns it."""
        folder = self._folder / "unusable"
        now = self._clock()
        name = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}.json"
        unusable = {"key": key, "fault": fault, "reply": reply.encode(errors="replace").decode()}
        with _as_service_error(self._folder):
            _write(folder / name, msgspec.json.encode(unusable), now)
            names = sorted(one for one in os.listdir(folder) if not one.startswith(TEMP_PREFIX))
            for old in names[:-UNUSABLE_FILES]:
                (folder / old).unlink(missing_ok=True)

    def prune(self, *, max_bytes: int | None = None, max_age_days: float | None = None) -> int:
        """Remove replies that were not used for long, then the least recently used ones; return how many.

        Args:
            max_bytes: Of the files that are kept.
            max_age_days: Since the last use, to within a day.
        """
        oldest = -math.inf if max_age_days is None else self._clock() - max_age_days * 86_400
        removed = kept_bytes = 0
        with _as_service_error(self._folder):
            replies = [(-status.st_mtime, path, status.st_size) for path, status in _files(self._folder / "replies")]
            for negative_use, path, size_bytes in sorted(replies):
                kept_bytes += size_bytes
                if -negative_use < oldest or (max_bytes is not None and kept_bytes > max_bytes):
                    path.unlink(missing_ok=True)
                    removed += 1
            for path, status in _files(self._folder / "unusable"):
                if status.st_mtime < oldest:
                    path.unlink(missing_ok=True)
        return removed

    def _model_file(self, server: str) -> Path:
        return self._folder / "models" / f"{_server_name(server)}.json"

    def _path(self, key: str, server: str) -> Path:
        return self._folder / "replies" / _server_name(server) / key[:2] / f"{key}.json"


def cache_key(*parts: object) -> str:
    """Return the sha256 of what a reply depends on."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


@contextlib.contextmanager
def _as_service_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"the cache of judgements {folder} cannot be used: {error.strerror or error}"
        raise ServiceError("cache_unusable", message) from error


def _decode(data: bytes) -> _Entry | None:
    """Return what a file holds; None if it is damaged."""
    try:
        entry = msgspec.json.decode(data, type=_Entry)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return entry if entry.crc == _checksum(entry.key, entry.reply, entry.model) else None


def _write(path: Path, data: bytes, used_at: float) -> None:
    replace_file(path, data)  # a power cut may cost the last replies; a part of one is a miss
    with contextlib.suppress(FileNotFoundError):  # another process prunes
        os.utime(path, (used_at, used_at))


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for place, _, names in walk(folder):
        for name in names:
            path = Path(place) / name
            if not name.startswith(TEMP_PREFIX):
                with contextlib.suppress(FileNotFoundError):  # another process prunes
                    yield path, path.stat()


def _server_name(server: str) -> str:
    return hashlib.sha256(server.encode()).hexdigest()[:16]


def _checksum(key: str, reply: str, model: str | None) -> int:
    return zlib.crc32(f"{key}\n{model}\n{reply}".encode(errors="surrogatepass"))
