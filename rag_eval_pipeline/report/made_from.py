"""The files that the last report was made from: where none of them has changed, no report is made.

A file is unchanged if its size, times and inode are. One that was changed shortly before it was read is compared by its
content, as in git's index: another change within the tick of the file system's clock would leave the same times. So is
what a conversion writes: it writes every file again, mostly the same.
Files of the report count too: one that was edited or removed by hand is made again.
"""

import importlib.util
import logging
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.metrics.metric_info import ENTRY_POINT_GROUP
from rag_eval_pipeline.scaffold.workspaces import INSTANCE_FILE
from rag_eval_pipeline.storage.files import atomic_write, sha256_of
from rag_eval_pipeline.workspace import Workspace

RECORD = ".made-from.json"
# FAT has the coarsest clock, two seconds; the times of its files are rounded down, as is the time now.
TICK_NS = 2_000_000_000
# No report is made from these; some have a file for each question.
_LEFT_OUT = {
    "evaluation": ("judge_cache", "spending", "systems", "workers"),
    "datasets": (".cache", ".steps", "corpus"),
}
_NAMES_LEFT_OUT = (RECORD, ".lock", "__pycache__")
_CODE = Path(__file__).resolve().parents[1]
# Written while a report is made; baselines only where there was none.
_PRODUCTS = ("data/reports/", "data/evaluation/history/", "data/evaluation/nights/")
_ALERTS, _BASELINES = "data/reports/alerts/", "data/evaluation/baselines/"
_CONVERTED = ("data/datasets/", "data/evaluation/datasets/", "data/evaluation/ground_truth/")


class _File(NamedTuple):
    """What a file was like.

    Args:
        state: Size in bytes, time of modification and of change in ns, inode.
        is_settled: Another change would have changed the state.
        sha256: Empty where the state is enough.
    """

    state: tuple[int, int, int, int]
    is_settled: bool
    sha256: str = ""

    def is_same(self, found: "_File") -> bool:
        """Return whether a file has this content."""
        if self.is_settled and self.state == found.state:
            return True
        return bool(self.sha256) and self.sha256 == found.sha256


Files = dict[str, _File]


def file_system_time_ns(folder: Path) -> int:
    """Return the time that a file gets which is made beside a folder now."""
    with tempfile.TemporaryFile(dir=folder.parent) as probe:
        return os.fstat(probe.fileno()).st_mtime_ns


class MadeFrom:
    """The state of all files that a report is made from, before it is made.

    Args:
        time_ns: Returns the time of a folder's file system.
    """

    def __init__(self, workspace: Workspace, *, time_ns: Callable[[Path], int] = file_system_time_ns) -> None:
        self._workspace = workspace
        self._time_ns = time_ns
        self._record = workspace.reports / RECORD
        self._known = _read(self._record)
        self._before = self._files(self._known)

    def is_unchanged(self) -> bool:
        """Return whether the last report was made from these files and is as it was left."""
        known, found = self._known, self._before
        if not known or known.keys() != found.keys():
            return False
        if not all(one.is_same(found[name]) for name, one in known.items()):
            return False
        self._write(found)
        return True

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the files once the report is made, unless a warning was logged, which the next report is to repeat."""
        warnings, logger = _Warnings(logging.WARNING), logging.getLogger(__name__.partition(".")[0])
        logger.addHandler(warnings)
        try:
            yield
        finally:
            logger.removeHandler(warnings)
        if not warnings.count:
            self.save()

    def save(self) -> None:
        """Record the files once the report is made, unless an input has changed meanwhile."""
        after = self._files(self._before)
        before = {name: one for name, one in self._before.items() if not _is_product(name)}
        inputs = {name: one for name, one in after.items() if not _is_product(name)}
        is_steady = before.keys() <= inputs.keys() and all(
            before[name].is_same(one) if name in before else name.startswith(_BASELINES) for name, one in inputs.items()
        )
        if is_steady:
            self._write(after)

    def _files(self, known: Files) -> Files:
        """Return each file; one is opened only where neither its state nor `known` tells its content."""
        now_ns = self._slowest_clock()
        found = {}
        for name, path, status in self._walk():
            state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            one, before = _File(state, max(state[1:3]) < now_ns - TICK_NS), known.get(name)
            if before and before.is_settled and before.state == state:
                one = before
            elif not one.is_settled or name.startswith(_CONVERTED) or (before and before.sha256):
                try:
                    one = one._replace(sha256=sha256_of(Path(path)))
                except FileNotFoundError:
                    continue
            found[name] = one
        return found

    def _slowest_clock(self) -> int:
        """Return the time in the workspace's file systems, the earliest of them; 0 where one cannot be asked."""
        folders = (self._workspace.config, self._workspace.results, self._workspace.reports)
        try:
            return min((self._time_ns(folder / RECORD) for folder in folders if folder.is_dir()), default=0)
        except OSError:
            return 0

    def _walk(self) -> Iterator[tuple[str, str, os.stat_result]]:
        root, benchmarks = self._workspace.root, self._workspace.benchmarks()
        left_out = {f"data/evaluation/{name}" for name in _LEFT_OUT["evaluation"]}
        left_out |= {f"data/datasets/{one}/{name}" for one in benchmarks for name in _LEFT_OUT["datasets"]}
        for part in ("config", "datasets", "evaluation", "reports"):
            yield from _walk(str(root / "data" / part), f"data/{part}", left_out)
        for name in benchmarks:
            path = self._workspace.benchmark(name).spec
            yield f"data/sources/{name}", str(path), path.stat()
        instance = root / ".dagster" / INSTANCE_FILE  # a new one is told of the report
        if instance.is_file():
            yield "instance", str(instance), instance.stat()
        yield from _walk(str(_CODE), "code", ())
        for point in entry_points(group=ENTRY_POINT_GROUP):
            package = importlib.util.find_spec(point.module.partition(".")[0])
            name = f"metric {point.name} {point.value}"
            for folder in package.submodule_search_locations or [] if package else []:
                yield from _walk(folder, name, ())
            if package and not package.submodule_search_locations and package.has_location and package.origin:
                yield name, package.origin, Path(package.origin).stat()

    def _write(self, files: Files) -> None:
        if files != self._known:
            atomic_write(self._record, msgspec.json.encode(files))


class _Warnings(logging.Handler):
    """Counts warnings, and shows them as Python does where no other handler is."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if not logging.root.handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)


def _is_product(name: str) -> bool:
    return name.startswith(_PRODUCTS) and not name.startswith(_ALERTS)


def _read(path: Path) -> Files:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Files)
    except (OSError, msgspec.MsgspecError):
        return {}  # the report is made again


def _walk(folder: str, name: str, left_out: Collection[str]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield name, path and state of the files below a folder; links are followed, but not to a folder they are in."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # nor does the report read it
    for entry in entries:
        own = f"{name}/{entry.name}"
        if entry.name in _NAMES_LEFT_OUT or own in left_out:
            continue
        try:
            if not entry.is_dir():
                yield own, entry.path, entry.stat()
            elif not (entry.is_symlink() and Path(folder).resolve().is_relative_to(Path(entry.path).resolve())):
                yield from _walk(entry.path, own, left_out)
        except OSError:  # gone, or a link to nothing
            continue
