"""The published evaluations of a pair whose scores are still there, in the order in which they began.

A process reads each record once, and again when its file has changed: thirty pairs that ask for theirs, one after the
other, would read those of all others thirty times.
"""

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.runs import Evaluation, EvaluationRecord
from rag_eval_pipeline.workspace import Workspace

RECORD = "evaluation.json"
SHELVES_KEPT = 8  # folders of runs; a process has one, but for tests

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """A record as this process has read it: it holds for as long as the file has this time, size and inode."""

    state: tuple[int, int, int]
    record: EvaluationRecord


_Shelf = dict[str, _Known]  # name of a folder -> its record
_SHELVES: dict[Path, _Shelf] = {}
_ONE_AT_A_TIME = threading.Lock()  # sensors of one process run in threads


def results_mark(workspace: Workspace) -> str | None:
    """Another text whenever a results file has come, gone or changed; None where there is none."""
    try:
        with os.scandir(workspace.results) as entries:
            times = [
                entry.stat().st_mtime_ns
                for entry in entries
                if entry.name.startswith("eval_run_") and entry.name.endswith(".results.json")
            ]
    except FileNotFoundError:
        return None
    return f"{len(times)}-{max(times)}" if times else None


def published_evaluations(workspace: Workspace, benchmark: str, system: str) -> list[Evaluation]:
    """Those of one pair, oldest first; equal times in the order of their ids."""
    return _published(workspace, (benchmark, system)).get((benchmark, system), [])


def all_published(workspace: Workspace) -> dict[tuple[str, str], list[Evaluation]]:
    """Those of every pair: (benchmark, system) -> evaluations, oldest first.

    A record that cannot be read costs its own evaluation, and the log names it.
    """
    return _published(workspace, None)


def _published(workspace: Workspace, wanted: tuple[str, str] | None) -> dict[tuple[str, str], list[Evaluation]]:
    runs = workspace.runs
    names = sorted(os.listdir(runs)) if runs.is_dir() else []
    with _ONE_AT_A_TIME:
        shelf = _shelf(runs, names)
        records = [(name, _record(shelf, runs, name, wanted)) for name in names]
    found: dict[tuple[str, str], list[Evaluation]] = {}
    for name, record in records:
        if record is not None and record.state == "published" and record.evaluation_id == name:
            found.setdefault((record.benchmark, record.system), []).append(Evaluation(runs / name, record))
    for evaluations in found.values():
        evaluations.sort(key=lambda one: (one.record.opened_at, one.record.evaluation_id))
    return found


def _shelf(runs: Path, names: list[str]) -> _Shelf:
    """The records known of a folder of runs, without those that are gone; the shelf used least lately makes room."""
    shelf = _SHELVES.pop(runs, {})
    for gone in shelf.keys() - set(names):
        del shelf[gone]
    _SHELVES[runs] = shelf
    while len(_SHELVES) > SHELVES_KEPT:
        del _SHELVES[next(iter(_SHELVES))]
    return shelf


def _record(shelf: _Shelf, runs: Path, name: str, wanted: tuple[str, str] | None) -> EvaluationRecord | None:
    """The record of a folder; None when it has none, or is of another pair than the one wanted."""
    known = shelf.get(name)
    # An evaluation's pair never changes: those of other pairs need no look at the disk.
    if known is not None and wanted is not None and (known.record.benchmark, known.record.system) != wanted:
        return None
    path = runs / name / RECORD
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None  # `by_pair`, or a folder that was just taken
    state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    if known is None or known.state != state:
        shelf.pop(name, None)
        try:
            known = shelf[name] = _Known(state, EvaluationRecord.read(path))
        except InputError as error:
            logger.warning("An evaluation is left aside: %s", error)
            return None
    return known.record
