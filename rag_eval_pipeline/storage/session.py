"""Work on a workspace whose files are in an object store: lease, fetch, work, put.

`SCOPES` says for each kind of work what it reads and writes. Without RAG_EVAL_STORE a session does nothing: the folder
is the workspace.
"""

import atexit
import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lease import Lease, lease_tag, lease_term, seconds, wait_until_free
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.store import ConflictError, Store, open_store
from rag_eval_pipeline.storage.working_copy import WorkingCopy, lock_here
from rag_eval_pipeline.workspace import STORE_VARIABLE

PUT_SECONDS = 30.0  # what a machine that dies loses at most
PUT_VARIABLE = "RAG_EVAL_STORE_PUT_SECONDS"
IDS = "ids"  # folder of the store with an object for each evaluation id that was ever taken
RUNS = "data/evaluation/runs"
JUDGE_CACHE = "data/evaluation/judge_cache"
POINTERS = f"{RUNS}/by_pair"

logger = logging.getLogger(__name__)


class Scope(NamedTuple):
    """What a kind of work reads and writes: patterns of paths with `{benchmark}` and `{system}`.

    Args:
        leases: Held while it goes on; nobody else writes what it writes.
        shares, shared: Leases that nobody may hold while these files are fetched: no half of a conversion is read.
        writes: Only the holder of the leases writes there.
        adds: Files that it adds to those of others.
        removes: Of these it only removes files.
        runs: Of the newest evaluations it reads all (`own`, and writes them) or the records that are not `newest`.
        is_long: What is done so far is put every 30 s.
        plan: A file whose `digest` names the plan that is worked on; nothing is put once the store has another.
    """

    leases: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    runs: str = ""
    is_long: bool = False
    plan: str = ""


_CONFIG = ("data/config/*",)
_SOURCES = ("data/sources/*",)
_STAMPS = (
    "data/datasets/*/conversion.json",
    f"{POINTERS}/*",
    "data/evaluation/nights/*",
    "data/evaluation/baselines/*",
)
_SHARDS = (  # the plan and the records of a corpus that is made in shards, and what it is current by
    "data/datasets/*/.steps/questions.json", "data/datasets/*/.steps/shards/plan.json",
    "data/datasets/*/.steps/shards/*[0-9].json",
)  # fmt: skip
_DATASETS = (
    "data/datasets/{benchmark}/*", "corpus/{benchmark}/*",
    "data/evaluation/datasets/{benchmark}_v*.eval.json", "data/evaluation/ground_truth/{benchmark}_v*.gt.json",
)  # fmt: skip
_PUBLISHED = (
    *_SOURCES, *_CONFIG, *_STAMPS, "data/datasets/*/documents.parquet", "data/datasets/*/pages.parquet",
    "data/datasets/*/.steps/*.json", "data/datasets/*/quarantine.jsonl", "data/evaluation/datasets/*",
    "data/evaluation/ground_truth/*", "data/evaluation/trust_cards/*", "data/evaluation/results/*",
    "data/evaluation/evaluations/*", "data/evaluation/spending/*", "data/evaluation/history/*", "data/reports/*",
    "data/benchmarks/*", f"{RUNS}/*/evaluation.json", f"{RUNS}/*/judgements.jsonl", f"{RUNS}/*.parquet",
)  # fmt: skip
SCOPES = {
    "convert": Scope(
        leases=("benchmark/{benchmark}",),
        reads=(*_CONFIG, "data/sources/{benchmark}/*", "data/evaluation/ground_truth/annotations/*"),
        writes=_DATASETS,
        is_long=True,
    ),
    "shard": Scope(
        leases=("shard/{shard}",),
        reads=(*_CONFIG, "data/sources/{benchmark}/*", *_DATASETS),
        adds=("corpus/{benchmark}/*", "data/datasets/{benchmark}/.steps/shards/*"),
        is_long=True,
        plan="data/datasets/{benchmark}/.steps/shards/plan.json",
    ),
    "evaluate": Scope(
        leases=("pair/{benchmark}/{system}",),
        shares=("benchmark/{benchmark}",),
        shared=_DATASETS,
        reads=(
            *_CONFIG, "data/sources/{benchmark}/*", "data/evaluation/baselines/{benchmark}/*",
            "data/evaluation/nights/{benchmark}/{system}/*", "data/evaluation/trust_cards/*",
            "data/evaluation/spending/*",
        ),
        writes=(f"{POINTERS}/{{benchmark}}/{{system}}.json", "data/evaluation/systems/{system}/{benchmark}/*"),
        adds=(f"{JUDGE_CACHE}/*",),
        runs="own",
        is_long=True,
    ),
    "aggregate": Scope(
        leases=("reports",),
        reads=_PUBLISHED,
        writes=(
            "data/reports/*", "data/benchmarks/*", "data/evaluation/history/*", "data/evaluation/nights/*",
            "data/evaluation/baselines/*",
        ),
    ),
    "look": Scope(reads=_PUBLISHED),
    "read": Scope(shares=("benchmark/{benchmark}",), shared=_DATASETS, reads=_PUBLISHED),
    "tick": Scope(reads=(*_SOURCES, *_CONFIG, *_STAMPS, *_SHARDS, "data/reports/alerts/*"), runs="newest"),
    "alert": Scope(leases=("reports",), reads=_CONFIG, writes=("data/reports/alerts/*",)),
    "edit": Scope(leases=("sources",), writes=(*_SOURCES, *_CONFIG)),
    "calibrate": Scope(
        leases=("trust_cards",), reads=(*_PUBLISHED, *_DATASETS), writes=("data/evaluation/trust_cards/*",),
        adds=("data/evaluation/spending/*", f"{JUDGE_CACHE}/*"),
    ),
    "prune": Scope(
        leases=("reports",), reads=("data/evaluation/*", *_CONFIG, *_SOURCES), removes=("data/evaluation/*",)
    ),
}  # fmt: skip
SCOPES["rescore"] = SCOPES["evaluate"]._replace(reads=(*SCOPES["evaluate"].reads, *_PUBLISHED))
SCOPES["pin"] = SCOPES["rescore"]._replace(
    leases=("reports", *SCOPES["evaluate"].leases),
    writes=(*SCOPES["evaluate"].writes, "data/evaluation/baselines/*", "data/evaluation/nights/*"),
)


class Session:
    """Work of one scope: its leases are held and its files fetched; a thread puts what has changed now and then."""

    def __init__(self, root: Path, store: Store, scope: str, names: Iterable[dict[str, str]]) -> None:
        self.copy = WorkingCopy(root, store)
        self.scope = SCOPES[scope]
        self._names = list(names) or [{}]
        self._store = store
        self._taken: dict[str, set[str]] = {}  # ids by date
        self._ids: set[str] = set()  # evaluations that this session writes
        self._plans: set[object] = set()  # that may be in the store while this session puts
        self._is_replanned = False
        self._put_seconds = seconds(PUT_VARIABLE, PUT_SECONDS)
        self._ended = threading.Event()
        self._locks = contextlib.ExitStack()
        self._leases = [
            Lease(store, name, f"{scope} {' '.join(self._names[0].values())}".rstrip(" *"), term=lease_term())
            for name in sorted({name.format(**one) for one in self._names for name in self.scope.leases})
        ]
        self._thread = threading.Thread(target=self._put_always, name="store", daemon=True)

    def open(self) -> None:
        """Take the leases and fetch.

        Raises:
            ServiceError: `locked`, and that of a store that cannot be used.
        """
        held: list[Lease] = []
        try:
            for lease in self._leases:  # this machine's other processes wait for a lock, which ends with its process
                self._locks.enter_context(self._locked_here(lease.name))
                lease.acquire()
                held.append(lease)
            planned = self._planned()
            self._fetch()
            if self.scope.plan:  # a conversion of this machine may not have put its plan yet
                self._plans = {planned, _read(self.copy.root / self._plan_path()).get("digest")}
        except BaseException:
            self._leases = held
            self.close()
            raise
        if self.scope.is_long:
            self._thread.start()

    def put(self, *, whole: bool = True) -> None:
        """Put what has changed; see `WorkingCopy.put`."""
        if (writes := self._writes()) or self.scope.adds:
            self.copy.put(writes, self.confirm, adds=self._patterns(self.scope.adds), whole=whole)
        self.copy.remove(self.scope.removes, self.confirm)

    def confirm(self) -> None:
        """Raise `lease_lost` unless all leases are held, and `no_shard` if another machine has planned anew."""
        for lease in self._leases:
            lease.confirm()
        if self.scope.plan and (self._is_replanned or self._planned() not in self._plans):
            self._is_replanned = True
            hint = "Another machine has converted the benchmark meanwhile; nothing more was put."
            raise InputError("no_shard", self._plan_path(), "the plan that this shard is a part of", hint=hint)

    @property
    def is_lost(self) -> bool:
        """Whether another machine has been seen to have taken over."""
        return self._is_replanned or any(lease.is_lost for lease in self._leases)

    def close(self) -> None:
        """Give the leases back."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for lease in self._leases:
            lease.release()
        self._locks.close()
        self.copy.close()

    def reserve(self, evaluation_id: str) -> bool:
        """Take an evaluation id for ever; return whether no machine has taken it before."""
        folder = f"{IDS}/{evaluation_id.rpartition('_')[0]}"
        if folder not in self._taken:
            self._taken[folder] = {found.path.rpartition("/")[2] for found in self._store.list(folder)}
        if evaluation_id in self._taken[folder]:
            return False
        self._taken[folder].add(evaluation_id)
        if any(True for _ in self._store.list(f"{RUNS}/{evaluation_id}")):  # of a workspace that was copied here
            return False
        try:
            self._store.put(f"{folder}/{evaluation_id}", os.urandom(16), replaces=None)
        except ConflictError:
            return False
        self._ids.add(evaluation_id)
        return True

    def results_listed(self) -> str | None:
        """Return the number of results files in the store and the time of the newest; None if there is none."""
        times = [found.modified for found in self._store.list("data/evaluation/results")]
        return f"{len(times)}-{max(times)}" if times else None

    def _writes(self) -> list[str]:
        own = [
            pattern
            for one in sorted(self._ids)
            for pattern in (
                f"{RUNS}/{one}/*", f"data/evaluation/results/{one}.results.json",
                f"data/evaluation/evaluations/{one}.evaluations.json", f"data/evaluation/spending/*/{one}.json",
            )
        ]  # fmt: skip
        return [*own, *self._patterns(self.scope.writes)]

    def _patterns(self, patterns: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(pattern.format(**one) for one in self._names for pattern in patterns))

    def _fetch(self) -> None:
        shares = self._patterns(self.scope.shares)
        self.copy.fetch(self._patterns(self.scope.writes), exactly=True)
        self.copy.fetch(self._patterns(self.scope.reads))
        with contextlib.ExitStack() as stack:
            for name in shares:
                stack.enter_context(self._locked_here(name))
            tags: list[str | None] | None = None
            while shares and tags != [lease_tag(self._store, name) for name in shares]:
                tags = [wait_until_free(self._store, name) for name in shares]
                self.copy.fetch(self._patterns(self.scope.shared), exactly=True)
        if self.scope.runs:
            self._fetch_runs()
        for one in self._names:
            if "benchmark" in one:
                _link_corpus(self.copy.root, one["benchmark"])

    def _fetch_runs(self) -> None:
        """Fetch the newest evaluations of the pairs, with `own` all of their files, else only their records."""
        root = self.copy.root
        pointers = [
            file
            for pattern in (self._patterns(self.scope.writes) if self.scope.runs == "own" else [f"{POINTERS}/*/*.json"])
            for file in root.glob(pattern)
            if file.parent.parent == root / POINTERS
        ]
        for pointer in pointers:
            evaluation_id = str(_read(pointer).get("evaluation_id", ""))
            record = f"{RUNS}/{evaluation_id}/evaluation.json"
            if self.scope.runs == "own":
                self._ids.add(evaluation_id)
            elif _read(root / record).get("state") != "published":
                self.copy.fetch_file(record)
        self.copy.fetch(self._writes(), exactly=True)
        if self.scope.runs == "own":
            for evaluation_id in self._ids:
                if earlier := _read(root / RUNS / evaluation_id / "evaluation.json").get("rescored_from"):
                    self.copy.fetch_file(f"data/evaluation/results/{earlier}.results.json")

    def _plan_path(self) -> str:
        return self._patterns([self.scope.plan])[0]

    def _planned(self) -> object:
        """Return the digest of the plan in the store; None if there is none."""
        found = self._store.get(self._plan_path()) if self.scope.plan else None
        return None if found is None else _parsed(found[0]).get("digest")

    def _locked_here(self, name: str) -> contextlib.AbstractContextManager[None]:
        return locked(self.copy.root / lock_here(name), holder=f"process {os.getpid()}", exclusive=True)

    def _put_always(self) -> None:
        while not self.is_lost and not self._ended.wait(self._put_seconds):
            try:
                self.put(whole=False)
            except (InputError, ServiceError, OSError) as error:
                if not self.is_lost:  # else the work itself ends with that
                    logger.warning("Not put into the store yet: %s", error)


def _read(file: Path) -> dict[str, object]:
    try:
        return _parsed(file.read_bytes())
    except FileNotFoundError:
        return {}


def _parsed(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _link_corpus(root: Path, benchmark: str) -> None:
    """Make the link of the evaluation root, as a conversion on this machine would have."""
    link = root / "data" / "datasets" / benchmark / "corpus"
    if link.parent.is_dir() and not link.is_symlink() and (root / "corpus" / benchmark).is_dir():
        with contextlib.suppress(FileExistsError):
            link.symlink_to(os.path.relpath(root / "corpus" / benchmark, link.parent), target_is_directory=True)


_current: ContextVar[Session | None] = ContextVar("store_session", default=None)
_of_runs: dict[tuple[str, str], Session] = {}  # by run and scope: a run's steps go on with the session of its first


@contextlib.contextmanager
def working_on(
    root: Path, scope: str, *names: dict[str, str], run: str | None = None, is_last: bool = True
) -> Iterator[None]:
    """Fetch before a block and put after it, also after one that fails, so that its journal is continued elsewhere.

    Args:
        names: `benchmark` and `system`, once for each pair.
        run, is_last: The run that the block is a step of, and whether it is its last: the leases are held until then,
            or until a step fails.

    Raises:
        ServiceError: `locked`; `lease_lost` if the machine stood still for so long that another has taken over; the
            store's.
    """
    url = os.environ.get(STORE_VARIABLE)
    if not url or _current.get() is not None:
        yield
        return
    key = (run or "", scope)
    session = _of_runs.pop(key, None)
    if session is None:
        session = Session(root, open_store(url), scope, names)
        session.open()
    token = _current.set(session)
    keep = False
    try:
        try:
            yield
        except BaseException:
            try:
                if not session.is_lost:
                    session.put(whole=False)
            except (InputError, ServiceError, OSError) as error:
                logger.warning("What was done before this failed is not in the store: %s", error)
            raise
        session.put()
        keep = not is_last
    finally:
        _current.reset(token)
        if keep:
            _of_runs[key] = session
        else:
            session.close()


@atexit.register
def _end_all() -> None:
    while _of_runs:
        _of_runs.popitem()[1].close()


def reserve_id(evaluation_id: str) -> bool:
    """Return whether an evaluation id may be used: always, unless a store says that another machine has taken it."""
    session = _current.get()
    return session is None or session.reserve(evaluation_id)


def fetch_missing(file: Path, sha256: str | None = None) -> None:
    """Fetch a file that is not here, or had another digest when it was fetched, if the workspace is in a store."""
    session = _current.get()
    if session is not None:
        path = file.relative_to(session.copy.root).as_posix()
        if not file.exists() or (sha256 is not None and session.copy.sha256(path) != sha256):
            session.copy.fetch_file(path)


def stop_if_lost() -> None:
    """Raise as `Session.confirm` once another machine has taken over what this process is at: no more is spent."""
    session = _current.get()
    if session is not None and session.is_lost:
        session.confirm()


def results_listed(default: str | None) -> str | None:
    """Return a text that changes with the results files in the store; without a store the default, of the folder."""
    session = _current.get()
    return default if session is None else session.results_listed()
