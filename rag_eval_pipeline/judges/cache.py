"""Cache of a model judge's replies by their request: one SQLite file that several processes may use at once.

Only replies that were read as verdicts are kept. A damaged row is a miss; a damaged file is moved aside and replaced.
"""

import hashlib
import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import msgspec

from rag_eval_pipeline.errors import ServiceError

FILE_NAME = "judgements.sqlite"
BUSY_SECONDS = 30.0  # other processes write one row at a time
TOUCH_SECONDS = 86_400.0  # a hit is noted at most once a day: reading must not become writing
UNUSABLE_ROWS = 1_000  # replies that could not be read, kept for people

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, server TEXT NOT NULL, model TEXT, reply TEXT NOT NULL, crc INTEGER NOT NULL,
    used_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS replies_by_use ON replies (used_at);
CREATE TABLE IF NOT EXISTS unusable (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, fault TEXT NOT NULL, reply TEXT NOT NULL, at REAL NOT NULL
);
"""


class CachedReply(NamedTuple):
    """A reply as the model wrote it, and the model that the server reports."""

    reply: str
    model: str | None


class JudgementCache:
    """The cache in one folder; opened and used by one thread.

    Every method raises `ServiceError` `cache_unusable` if the disk is full or refuses.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = folder / FILE_NAME
        self._clock = clock
        self._inode = 0
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._database = self._open()
        except sqlite3.OperationalError as error:
            raise _unusable(self.path, error) from error
        except sqlite3.DatabaseError as error:
            self._database = self._start_anew(error)

    def find(self, key: str) -> CachedReply | None:
        """Return the reply to a request; None if there is none."""
        row = self._run(
            lambda db: db.execute("SELECT reply, model, crc, used_at FROM replies WHERE key = ?", (key,)).fetchone()
        )
        if row is None:
            return None
        reply, model, crc, used_at = row
        if crc != _checksum(key, reply, model):
            return None
        now = self._clock()
        if now - used_at > TOUCH_SECONDS:
            self._write("UPDATE replies SET used_at = ? WHERE key = ?", (now, key))
        return CachedReply(reply, model)

    def keep(self, key: str, server: str, reply: CachedReply) -> None:
        """Keep a reply; it replaces an older one of the same key."""
        crc = _checksum(key, reply.reply, reply.model)
        self._write(
            "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?)",
            (key, server, reply.model, reply.reply, crc, self._clock()),
        )

    def forget_others(self, server: str, model: str) -> None:
        """Remove a server's replies by other models than this one."""
        self._write("DELETE FROM replies WHERE server = ? AND model IS NOT NULL AND model != ?", (server, model))

    def keep_unusable(self, key: str, fault: str, reply: str) -> None:
        """Keep a reply that could not be read, for people; `find` never returns it."""
        values = (key, fault, reply.encode(errors="replace").decode(), self._clock())
        self._write("INSERT INTO unusable (key, fault, reply, at) VALUES (?, ?, ?, ?)", values)
        self._write("DELETE FROM unusable WHERE number <= (SELECT max(number) FROM unusable) - ?", (UNUSABLE_ROWS,))

    def prune(self, *, max_bytes: int | None = None, max_age_days: float | None = None) -> int:
        """Remove replies that were not used for long, then the least recently used ones; return how many.

        Args:
            max_bytes: Of the keys and replies kept.
            max_age_days: Since the last use, to within a day.
        """

        def removing(db: sqlite3.Connection) -> int:
            removed = 0
            if max_age_days is not None:
                oldest = self._clock() - max_age_days * 86_400
                removed += db.execute("DELETE FROM replies WHERE used_at < ?", (oldest,)).rowcount
                db.execute("DELETE FROM unusable WHERE at < ?", (oldest,))
            if max_bytes is not None:
                size = "sum(length(key) + length(CAST(reply AS BLOB))) OVER (ORDER BY used_at DESC, key)"
                removed += db.execute(
                    "DELETE FROM replies WHERE key IN "
                    f"(SELECT key FROM (SELECT key, {size} AS size FROM replies) WHERE size > ?)",
                    (max_bytes,),
                ).rowcount
            db.commit()
            db.executescript("PRAGMA incremental_vacuum")  # `execute` takes one step of it, which frees one page
            return removed

        return self._run(removing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _write(self, sql: str, values: tuple[object, ...]) -> None:
        def writing(db: sqlite3.Connection) -> None:
            with db:
                db.execute(sql, values)

        self._run(writing)

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return work(self._database)
        except sqlite3.OperationalError as error:  # a full disk or missing rights, not damage
            raise _unusable(self.path, error) from error
        except sqlite3.DatabaseError as error:
            self._database = self._start_anew(error)
            return work(self._database)

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            database.executescript(_SCHEMA)
        except sqlite3.Error:
            database.close()
            raise
        self._inode = os.stat(self.path).st_ino
        return database

    def _start_anew(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Move the damaged file aside, unless another process has already done so."""
        if hasattr(self, "_database"):
            self._database.close()
        if not self._inode or self.path.exists() and os.stat(self.path).st_ino == self._inode:
            aside = self.path.with_name(f"{FILE_NAME}.damaged-{int(self._clock())}-{os.getpid()}")
            os.replace(self.path, aside)
            for suffix in ("-wal", "-shm"):  # they belong to the damaged file and would be replayed into the new one
                self.path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
            logger.warning("The cache of judgements was damaged (%s): moved to %s, started anew", error, aside.name)
        return self._open()


def cache_key(*parts: object) -> str:
    """Return the sha256 of what a reply depends on."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def _unusable(path: Path, error: sqlite3.OperationalError) -> ServiceError:
    return ServiceError("cache_unusable", f"the cache of judgements {path} cannot be used: {error}")


def _checksum(key: str, reply: str, model: str | None) -> int:
    return zlib.crc32(f"{key}\n{model}\n{reply}".encode(errors="surrogatepass"))
