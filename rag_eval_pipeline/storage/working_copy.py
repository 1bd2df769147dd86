"""A folder that mirrors a part of an object store: fetched before work, put after it; the work is on local files.

`.store/index.sqlite` in the folder has the tag of each object that was fetched or put, with size, time and SHA-256 of
its file: what has not changed is not sent again. A file gets the time of its object, so that all machines see the same.
A journal, which only grows, goes up in parts, `<journal>.parts/<offset>`, until it is put whole.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.files import SCRATCH_PREFIX, TEMP_PREFIX, errors_about, temp_path, walk
from rag_eval_pipeline.storage.lock import is_locked, locked
from rag_eval_pipeline.storage.store import ConflictError, Found, Store
from rag_eval_pipeline.workspace import STORE_VARIABLE, WORKSPACE_VARIABLE

STATE = ".store"  # folder of what is not of the workspace
PARTS = ".parts/"
JOURNALS = ("journal.jsonl", "corpus.journal")
REQUESTS_AT_ONCE = 16


class _Row(NamedTuple):
    tag: str
    size: int
    mtime_ns: int
    sha256: str

    def is_of(self, status: os.stat_result | None) -> bool:
        return status is not None and (self.size, self.mtime_ns) == (status.st_size, status.st_mtime_ns)


class WorkingCopy:
    """The folder, its index and the store; used by several threads, and the folder by several processes.

    Raises:
        InputError: `foreign_workspace` for a folder that is no mirror of this store.
        ServiceError: `index_unusable`, which every method may raise.
    """

    def __init__(self, root: Path, store: Store) -> None:
        self.root = root
        self.store = store
        state = root / STATE
        if not state.is_dir() and (root / "data").exists():
            raise _foreign(root, store, "a workspace of its own")
        (root / "data" / "sources").mkdir(parents=True, exist_ok=True)
        (root / "corpus").mkdir(exist_ok=True)
        state.mkdir(exist_ok=True)
        self._lock = threading.Lock()  # of the index
        self._turn = threading.Lock()  # of putting
        path = state / "index.sqlite"
        with self._errors_of_index():
            self._index = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = NORMAL")
        self._execute("CREATE TABLE IF NOT EXISTS store (url TEXT PRIMARY KEY)")
        self._execute(
            "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, tag TEXT, size INTEGER, mtime_ns INTEGER, "
            "sha256 TEXT) WITHOUT ROWID"
        )
        self._execute("INSERT INTO store SELECT ? WHERE NOT EXISTS (SELECT 1 FROM store)", store.url)
        if (url := self._execute("SELECT url FROM store")[0][0]) != store.url:
            raise _foreign(root, store, f"a copy of {url}")
        self._sent: dict[str, int] = {}  # of a journal, the bytes that are in the store

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def fetch(self, patterns: Iterable[str], *, exactly: bool = False) -> None:
        """Bring files up to date with the store; those that have gone there go here.

        Args:
            patterns: Of paths; `*` stands for anything, also for `/`.
            exactly: Also undo what was changed here and not put, which a killed process has left; else it stays, as
                another process of this machine may be at work on it.
        """
        patterns = list(patterns)
        known = dict(self._rows(patterns))  # before the listing: what another process puts meanwhile has not gone
        found = self._list(patterns)
        wanted = [one for one in found.values() if self._is_wanted(one, known.get(one.path), exactly)]
        gone = {path for path in known.keys() - found.keys() if not self._is_in_use(path, exactly)}
        if exactly:
            gone |= {path for path in self._local(patterns) if path not in found}
        with contextlib.ExitStack() as stack:
            # Evaluations of this machine may be reading the benchmark.
            for name in sorted(
                {*map(_benchmark_of, gone), *(_benchmark_of(one.path) for one in wanted)} - {None}, key=str
            ):
                lock = self.root / "data" / "datasets" / str(name) / ".lock"
                holder = f"an update from {self.store.url}, process {os.getpid()}"
                stack.enter_context(locked(lock, holder=holder, exclusive=True))
            for path in gone:
                (self.root / path).unlink(missing_ok=True)
                self._forget(path)
            with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
                list(pool.map(lambda one: self._download(one, exactly), wanted))
        for path, one in found.items():
            row, file = self._row(path), self.root / path
            if row is not None and row.tag == one.tag and row.mtime_ns != (time_ns := round(one.modified * 1e9)):
                with contextlib.suppress(FileNotFoundError):
                    if row.is_of(file.stat()):
                        os.utime(file, ns=(time_ns, time_ns))
                        self._remember(path, row._replace(mtime_ns=time_ns))
            if path.endswith(JOURNALS) and file.exists():
                self._sent[path] = file.stat().st_size

    def fetch_file(self, path: str) -> bool:
        """Fetch one file if it is in the store and another than the one here; return whether it is here now."""
        row, file = self._row(path), self.root / path
        found = self.store.get(path)
        if found is not None and (row is None or row.tag != found[1] or not file.exists()):
            self._write(path, found[0], found[1])
        return file.exists()

    def sha256(self, path: str) -> str | None:
        """Return the digest of a file as it was fetched or put; None if it never was."""
        row = self._row(path)
        return None if row is None else row.sha256

    def put(
        self, patterns: Iterable[str], confirm: Callable[[], None], *, adds: Iterable[str] = (), whole: bool
    ) -> None:
        """Put what has changed here, and delete there what has gone here; what names other files comes last.

        Args:
            confirm: Called before each step; raises when this process may no longer write.
            adds: Patterns of files that other machines add to as well: what has gone here stays there.
            whole: Whether journals are put as they are; else only what they have grown by.

        Raises:
            ServiceError: `changed_meanwhile`, and what `confirm` and the store raise.
        """
        with self._turn:
            confirm()
            patterns, adds = list(patterns), list(adds)
            known, local = dict(self._rows([*patterns, *adds])), self._local([*patterns, *adds])
            changed = [path for path, status in local.items() if not _is_same(known.get(path), status, whole=whole)]
            gone = [path for path in sorted(known.keys() - local.keys()) if _matches(path, patterns)]
            journals = [path for path in changed if path.endswith(JOURNALS)]
            data = [path for path in changed if not _rank(path) and path not in journals]
            names = sorted((p for p in changed if _rank(p)), key=lambda p: (_rank(p), local[p].st_mtime_ns))
            self._delete([path for path in gone if _rank(path)], confirm)
            with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
                list(pool.map(lambda path: self._upload(path, confirm, is_shared=not _matches(path, patterns)), data))
            for path in journals:
                if whole:
                    self._upload(path, confirm)
                    self._delete_parts(path)
                else:
                    self._upload_part(path, confirm)
            for path in names:
                self._upload(path, confirm)
            self._delete([path for path in gone if not _rank(path)], confirm)
            confirm()

    def remove(self, patterns: Iterable[str], confirm: Callable[[], None]) -> None:
        """Delete there what has gone here, and nothing else."""
        gone = [path for path, _ in self._rows(patterns) if not (self.root / path).exists()]
        if gone:
            self._delete(gone, confirm)

    # --- the store's side

    def _list(self, patterns: Iterable[str]) -> dict[str, Found]:
        """Return the objects by path; a journal in parts is one, whose tag names the parts."""
        found: dict[str, Found] = {}
        parts: dict[str, list[Found]] = {}
        patterns = list(patterns)
        for prefix in {_folder(pattern) for pattern in patterns}:
            for one in self.store.list(prefix):
                path, is_part, _ = one.path.partition(PARTS)
                if not _is_ours(path) or not _matches(path, patterns):
                    continue
                if is_part:
                    parts.setdefault(path, []).append(one)
                else:
                    found[path] = one
        for path, of_journal in parts.items():
            whole = found.get(path, Found(path, "", 0, 0.0))
            last = max(of_journal)
            tag = f"{whole.tag}+{last.path.rpartition('/')[2]}+{last.tag}"
            size = whole.size + sum(part.size for part in of_journal)
            found[path] = Found(path, tag, size, max(whole.modified, last.modified))
        return found

    def _download(self, one: Found, exactly: bool) -> None:
        row = self._row(one.path)  # put by another process of this machine since: its file is that object or a newer
        if not exactly and row is not None and row.tag == one.tag and (self.root / one.path).exists():
            return
        found = self.store.get(one.path)
        data, tag = found or (b"", "")
        if "+" in one.tag:
            data, tag = self._with_parts(one.path, data), one.tag
        elif found is None:  # deleted since it was listed
            return
        self._write(one.path, data, tag, time_ns=round(one.modified * 1e9))

    def _with_parts(self, path: str, whole: bytes) -> bytes:
        """Return a journal: what was put whole, and the parts that follow; parts of earlier bytes are leftovers."""
        data = bytearray(whole)
        for part in sorted(self.store.list(path + PARTS.rstrip("/"))):
            if int(part.path.rpartition("/")[2]) == len(data) and (found := self.store.get(part.path)):
                data += found[0]
        return bytes(data)

    def _upload(self, path: str, confirm: Callable[[], None], *, is_shared: bool = False) -> None:
        file, row = self.root / path, self._row(path)
        try:
            status = file.stat()
            data = file.read_bytes()
        except FileNotFoundError:  # replaced or removed since; the next put sees to it
            return
        sha256 = hashlib.sha256(data).hexdigest()
        tag = None if row is None else row.tag.partition("+")[0] or None
        if row is None or row.sha256 != sha256 or "+" in row.tag:
            confirm()
            try:
                tag = self.store.put(path, data, replaces=tag)
            except ConflictError:
                if (
                    is_shared
                ):  # two asked a judge the same, or two processes of this machine put one file: the first stays
                    return
                raise _changed(self.store, path) from None
        self._remember(path, _Row(tag or "", status.st_size, status.st_mtime_ns, sha256))
        if path.endswith(JOURNALS):
            self._sent[path] = len(data)

    def _upload_part(self, path: str, confirm: Callable[[], None]) -> None:
        """Put the whole lines that a journal has grown by; only the holder of the lease can be the first to.

        A process that stood still may have put them after another machine had finished the journal: those are removed.
        """
        start = self._sent.get(path, 0)
        with (self.root / path).open("rb") as file:
            file.seek(start)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return
        name = f"{path}{PARTS}{start:015d}"
        try:
            part = self.store.put(name, data, replaces=None)
        except ConflictError:
            raise _changed(self.store, path) from None
        self._sent[path] = start + len(data)
        row = self._row(path)
        tag = f"{'' if row is None else row.tag.partition('+')[0]}+{start:015d}+{part}"
        self._remember(path, _Row(tag, -1, 0, ""))  # of no file: the next put looks at it again
        try:
            confirm()
        except ServiceError as error:
            if error.code == "lease_lost":
                self.store.delete(name)
            raise

    def _delete_parts(self, path: str) -> None:
        for part in list(self.store.list(path + PARTS.rstrip("/"))):
            self.store.delete(part.path)

    def _delete(self, paths: Iterable[str], confirm: Callable[[], None]) -> None:
        for path in paths:
            confirm()  # deletion has no condition, and that of thousands may take longer than a lease
            self.store.delete(path)
            if path.endswith(JOURNALS):
                self._delete_parts(path)
                self._sent.pop(path, None)
            self._forget(path)

    # --- this machine's side

    def _is_wanted(self, one: Found, row: _Row | None, exactly: bool) -> bool:
        file = self.root / one.path
        status = file.stat() if file.is_file() else None
        if row is None or row.tag != one.tag:
            return exactly or not self._is_in_use(one.path, exactly)
        if exactly:
            return not row.is_of(status)
        return status is None and not self._is_in_use(one.path, exactly)

    def _is_in_use(self, path: str, exactly: bool) -> bool:
        """Whether another process of this machine is converting the benchmark that a file belongs to."""
        benchmark = _benchmark_of(path)
        return not exactly and benchmark is not None and is_locked(self.root / lock_here(f"benchmark/{benchmark}"))

    def _local(self, patterns: Iterable[str]) -> dict[str, os.stat_result]:
        found: dict[str, os.stat_result] = {}
        patterns = list(patterns)
        for prefix in {_folder(pattern) for pattern in patterns}:
            for folder, folders, names in walk(self.root / prefix):
                folders[:] = [name for name in folders if not name.startswith((TEMP_PREFIX, f".{SCRATCH_PREFIX}"))]
                for name in names:
                    file = Path(folder, name)
                    path = file.relative_to(self.root).as_posix()
                    if _is_ours(path) and _matches(path, patterns) and not file.is_symlink():
                        _check_text(path)
                        with contextlib.suppress(FileNotFoundError):
                            found[path] = file.stat()
        return found

    def _write(self, path: str, data: bytes, tag: str, *, time_ns: int | None = None) -> None:
        """Replace a file; nothing waits for the disk, as the store has it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        temp = temp_path(file.parent)
        try:
            with errors_about(file):
                temp.write_bytes(data)
                if time_ns is not None:
                    os.utime(temp, ns=(time_ns, time_ns))
                status = temp.stat()
                os.replace(temp, file)
        except BaseException:
            temp.unlink(missing_ok=True)
            raise
        self._remember(path, _Row(tag, status.st_size, status.st_mtime_ns, hashlib.sha256(data).hexdigest()))

    def _rows(self, patterns: Iterable[str]) -> Iterator[tuple[str, _Row]]:
        patterns = list(patterns)
        for prefix in {_folder(pattern) for pattern in patterns}:
            query = "SELECT * FROM files WHERE path >= ? AND path < ?"
            for path, *row in self._execute(query, f"{prefix}/", f"{prefix}0"):
                if _matches(path, patterns):
                    yield path, _Row(*row)

    def _row(self, path: str) -> _Row | None:
        rows = self._execute("SELECT * FROM files WHERE path = ?", path)
        return _Row(*rows[0][1:]) if rows else None

    def _remember(self, path: str, row: _Row) -> None:
        self._execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", path, *row)

    def _forget(self, path: str) -> None:
        self._execute("DELETE FROM files WHERE path = ?", path)

    def _execute(self, query: str, *values: str | int) -> list[Any]:
        with self._lock, self._errors_of_index():
            return self._index.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _errors_of_index(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            path = self.root / STATE / "index.sqlite"
            hint = f"Make room on the disk; a damaged file is made again if you remove {self.root}."
            raise ServiceError("index_unusable", f"{path} cannot be used: {error}", hint=hint) from error


def _is_same(row: _Row | None, status: os.stat_result, *, whole: bool) -> bool:
    return row is not None and row.is_of(status) and not (whole and "+" in row.tag)


def _rank(path: str) -> int:
    """Return 0 for data; higher for files that say that others are there, in the order in which they are put."""
    name = path.rpartition("/")[2]
    if name == "conversion.json" or "/by_pair/" in path:
        return 3
    is_record = "/.steps/" in path and name.endswith(".json") and not name.endswith(".web.json")  # of a step or a shard
    if name == "evaluation.json" or is_record:
        return 2
    return int(name.endswith(".results.json"))


def _is_ours(path: str) -> bool:
    """Whether a file is a part of the workspace: no lock, no temporary file, no link, nothing that is unpacked."""
    name = path.rpartition("/")[2]
    if (
        name.endswith(".lock")
        or name in ("made.eval.json", "corpus.hashes")
        or f"/{TEMP_PREFIX}" in path
        or f"/.{SCRATCH_PREFIX}" in path
    ):
        return False
    in_cache = "/.cache/" in path and "/.cache/downloads/" not in path
    return not in_cache and not fnmatchcase(path, "data/datasets/*/corpus/*")


def lock_here(name: str) -> str:
    """Return the path of the lock between the processes of this machine that goes with a lease."""
    return f"{STATE}/locks/{name}.lock"


def _benchmark_of(path: str) -> str | None:
    """Return the benchmark that a converted file belongs to."""
    parts = path.split("/")
    if parts[:2] == ["data", "datasets"] and len(parts) > 3:
        return parts[2]
    return parts[1] if parts[0] == "corpus" and len(parts) > 2 else None


def _check_text(path: str) -> None:
    if not path.isascii() and path.encode("utf-8", "replace").decode() != path:
        hint = "Rename the file, or what it is made from."
        raise InputError("bad_name", ascii(path), "a name in UTF-8, as an object's is", hint=hint)


def _folder(pattern: str) -> str:
    """Return the folder whose listing has all paths of a pattern."""
    return pattern.partition("*")[0].rpartition("/")[0]


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _changed(store: Store, path: str) -> ServiceError:
    text = f"{store.url}/{path} was changed by somebody else while this was at work: what was made here is not put"
    return ServiceError("changed_meanwhile", text, hint="Run it again.")


def _foreign(root: Path, store: Store, found: str) -> InputError:
    expected = f"an empty folder or a copy of {store.url}, as {STORE_VARIABLE} is set"
    hint = (
        f"Name another in {WORKSPACE_VARIABLE}, or leave that out. To bring a workspace into the store, copy it there."
    )
    return InputError("foreign_workspace", root, expected, found=found, hint=hint)
