"""What results files say of themselves, kept in one SQLite file, so that a year of nights is not read for one page.

`data/evaluation/history/index.sqlite` is a cache: removed, damaged or of other code, it is made anew from the files. A
row holds for as long as the results file and its seal have the size, times and inode that they were read with; what
changes without them, as a disk's bits may, `verify` finds, a part of the files at a time.
"""

import contextlib
import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from rag_eval_pipeline.formats.store import AB_TEST, WEEKLY
from rag_eval_pipeline.reporting.results_headers import HeaderFault, ResultsHeader, packed, read_header_of
from rag_eval_pipeline.reporting.seals import history_folder, look_at_seal
from rag_eval_pipeline.workspace import Workspace

FILE = "index.sqlite"
ENDING = ".results.json"
SEVERAL = (WEEKLY, AB_TEST)  # files of several evaluations, which are in none's history
# Of the rows: other code makes the index anew. Raised whenever another version of results files is read.
LAYOUT = 103
BUSY_SECONDS = 30.0
# A file that is written again within a tick of the file system's clock keeps its times: what was read so soon after a
# change is read again. Linux ticks every 4 to 10 ms.
TICK_NS = 100_000_000
# What says nothing against the file: others write it, it may not be written, the disk is full.
UNDAMAGED = frozenset(
    (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)
)
ROWS_A_COMMIT = 500  # what a kill may cost of a first reading

logger = logging.getLogger(__name__)

_TABLE = """
CREATE TABLE results (
    name TEXT PRIMARY KEY, state TEXT NOT NULL, read_at INTEGER NOT NULL, checked INTEGER NOT NULL,
    sha256 TEXT NOT NULL, size INTEGER NOT NULL, evaluation_id TEXT, benchmark TEXT, system TEXT, published INTEGER,
    header BLOB, is_sealed INTEGER NOT NULL, damage TEXT, fault TEXT
) WITHOUT ROWID
"""
_NAMES = (
    "name", "state", "read_at", "checked", "sha256", "size", "evaluation_id", "benchmark", "system", "published",
    "header", "is_sealed", "damage", "fault",
)  # fmt: skip
_UPSERT = f"INSERT OR REPLACE INTO results VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608  # no value is in it


class IndexedResults(NamedTuple):
    """A results file that can be read.

    Args:
        evaluation_id: Its own.
        benchmark: Of the pair.
        system: Of the pair.
        header: The whole header, packed.
        is_sealed: The file is as it was sealed.
        fault: Why it is not what was published; None when it is, or is not sealed yet.
    """

    evaluation_id: str
    benchmark: str
    system: str
    header: bytes
    is_sealed: bool
    fault: str | None


class HistoryIndex:
    """The index of one workspace, made equal to its files when it is opened; used by one thread."""

    def __init__(self, workspace: Workspace, database: sqlite3.Connection) -> None:
        self._workspace = workspace
        self._database = database

    @classmethod
    @contextlib.contextmanager
    def opened(cls, workspace: Workspace, *, anew: bool = False) -> Iterator[Self]:
        """The index for a block; in memory where the history has no folder yet, or nothing can be written.

        Args:
            workspace: Where.
            anew: Read every file, whatever is known of it.
        """
        with contextlib.closing(_connected(history_folder(workspace) / FILE)) as database:
            index = cls(workspace, database)
            try:
                index._refresh(anew=anew)
            except sqlite3.Error as error:  # the disk is full, or another process holds the file for very long
                logger.warning("The index of the history is not used: %s", error)
            else:
                yield index
                return
        with contextlib.closing(_in_memory()) as database:
            index = cls(workspace, database)
            index._refresh(anew=True)
            yield index

    def rows(self) -> Iterator[IndexedResults]:
        """Every file that can be read, by benchmark and system, oldest first within each pair."""
        cursor = self._database.execute(
            "SELECT evaluation_id, benchmark, system, header, is_sealed, fault FROM results WHERE damage IS NULL "
            "ORDER BY benchmark, system, published, evaluation_id"
        )
        for evaluation_id, benchmark, system, header, is_sealed, fault in cursor:
            yield IndexedResults(evaluation_id, benchmark, system, header, bool(is_sealed), fault)

    def damaged(self) -> list[str]:
        """A line for each file that cannot be read or is not what was published, by name."""
        rows = self._database.execute("SELECT coalesce(damage, fault) FROM results ORDER BY name")
        return [line for (line,) in rows if line is not None]

    def verify(self, max_bytes: int) -> None:
        """Reads the files again that were not for the longest, and notes what they are now.

        Args:
            max_bytes: How much to read; one file at least.
        """
        database = self._database
        (number,) = database.execute("SELECT coalesce(max(checked), 0) + 1 FROM results").fetchone()
        rows = database.execute("SELECT name, size, sha256 FROM results ORDER BY checked, name").fetchall()
        states = _states(self._workspace)
        checked, changed, left = [], [], max_bytes
        for name, size, digest in rows:
            with contextlib.suppress(FileNotFoundError):
                if hashlib.sha256((self._workspace.results / name).read_bytes()).hexdigest() != digest:
                    changed.append(self._row(name, states.get(name, ""), number))
            checked.append((number, name))
            left -= size
            if left <= 0:
                break
        with database:  # not while files are read: other processes wait for it
            database.executemany("UPDATE results SET checked = ? WHERE name = ?", checked)
            database.executemany(_UPSERT, changed)

    def _refresh(self, *, anew: bool) -> None:
        states = _states(self._workspace)
        known: Mapping[str, tuple[str, int]] = {
            name: (state, read_at)
            for name, state, read_at in self._database.execute("SELECT name, state, read_at FROM results")
        }
        if gone := [(name,) for name in known.keys() - states.keys()]:
            with self._database:
                self._database.executemany("DELETE FROM results WHERE name = ?", gone)
        (checked,) = self._database.execute("SELECT coalesce(max(checked), 0) FROM results").fetchone()
        changed = sorted(name for name, state in states.items() if anew or not _holds(known.get(name), state))
        for start in range(0, len(changed), ROWS_A_COMMIT):
            rows = [self._row(name, states[name], checked) for name in changed[start : start + ROWS_A_COMMIT]]
            with self._database:
                self._database.executemany(_UPSERT, rows)

    def _row(self, name: str, state: str, checked: int) -> tuple[object, ...]:
        path, read_at = self._workspace.results / name, time.time_ns()
        try:
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            header: ResultsHeader = read_header_of(path, data)
        except (FileNotFoundError, IsADirectoryError, HeaderFault) as error:
            damage = str(error) if isinstance(error, HeaderFault) else f"{path}: {error}"
            return (name, state, read_at, checked, "", 0, *(None,) * 5, 0, damage, None)
        seal = look_at_seal(self._workspace, path, data, digest)
        published = round(header.timestamp.timestamp() * 1_000_000)  # whole microseconds
        return (
            name, state, read_at, checked, digest, len(data), header.evaluation_id, header.benchmark, header.system,
            published, packed(header), int(seal.is_sealed), None, seal.fault,
        )  # fmt: skip


def _connected(path: Path) -> sqlite3.Connection:
    if not path.parent.is_dir():
        return _in_memory()
    try:
        return _database(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in UNDAMAGED:
            logger.warning("The index of the history is not used: %s", error)
            return _in_memory()
        logger.warning("The index of the history is made anew: %s", error)
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        return _database(path)


def _database(path: Path | str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if database.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise _damaged()
        if database.execute("PRAGMA user_version").fetchone() != (LAYOUT,):
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("DROP TABLE IF EXISTS results")
                database.execute(_TABLE)
                database.execute(f"PRAGMA user_version = {LAYOUT}")
    except BaseException:
        database.close()
        raise
    return database


def _damaged() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("a page is damaged")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _in_memory() -> sqlite3.Connection:
    return _database(":memory:")


def _states(workspace: Workspace) -> dict[str, str]:
    """Results file -> what it and its seal are, as the file system tells without reading them."""
    files = _signatures(workspace.results)
    seals = _signatures(history_folder(workspace) / "seals")
    return {
        name: f"{signature} {seals.get(name.removesuffix(ENDING) + '.json', '-')}"
        for name, signature in files.items()
        if name.endswith(ENDING) and not name.startswith(SEVERAL)
    }


def _signatures(folder: Path) -> dict[str, str]:
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                stat = entry.stat()
                found[entry.name] = f"{max(stat.st_mtime_ns, stat.st_ctime_ns)}.{stat.st_size}.{stat.st_ino}"
    return found


def _holds(known: tuple[str, int] | None, state: str) -> bool:
    if known is None or known[0] != state:
        return False
    newest = max(int(part.partition(".")[0]) for part in state.split() if part != "-")
    return newest + TICK_NS < known[1]
