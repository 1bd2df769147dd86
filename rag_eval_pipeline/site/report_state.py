"""What a report was made from, by which one that would be the same again is not made.

`data/reports/.made_from` has digests of the package's code, of the metrics, and of the names, sizes, times and inodes
of all files below `data`. No other file is read to find out that nothing has changed.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

from rag_eval_pipeline.metrics.registry import metrics_by_key
from rag_eval_pipeline.monitoring.alert_files import alerts_folder
from rag_eval_pipeline.storage.atomic_files import replace_file
from rag_eval_pipeline.workspace import Workspace

RECORD = ".made_from"
_PACKAGE = Path(__file__).parents[1]


@cache
def code_digest(package: str = "") -> str:
    """Return a digest of all templates, style sheets, scripts and modules of a package of this one, or of all."""
    digest = hashlib.sha256()
    for path in sorted((_PACKAGE / package).rglob("*")):
        if path.suffix in (".py", ".html", ".css", ".js"):
            digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


@cache
def registry_digest() -> str:
    """Return a hash of all metrics, installed ones too: pages made with other rows are made again."""
    return hashlib.blake2b(repr(sorted(metrics_by_key().items())).encode(), digest_size=8).hexdigest()


def inputs_digest(workspace: Workspace) -> str:
    """Return a digest of what a report of this moment would be made from."""
    spools = [workspace.judge_cache, workspace.spending, workspace.workers]
    for name in workspace.benchmarks():
        paths = workspace.benchmark(name)
        spools += [paths.cache, paths.corpus_link]  # the conversion's stamp has the corpus' fingerprint
    files = _files_digest([workspace.sources.parent, alerts_folder(workspace)], without=[*spools, *_outputs(workspace)])
    return f"{code_digest()} {registry_digest()} {files}"


def is_made(workspace: Workspace, inputs: str) -> bool:
    """Return whether the report was made from these inputs, and its files are as they were left."""
    try:
        return (workspace.reports / RECORD).read_text() == _record(workspace, inputs)
    except (FileNotFoundError, UnicodeDecodeError):
        return False


@contextlib.contextmanager
def making_report(workspace: Workspace, inputs: str) -> Iterator[None]:
    """Record that the block makes the report from `inputs`, taken before it.

    Nothing is recorded if it fails or warns of something, which the next report is to name again, or if another report
    was finished meanwhile, which may have overwritten newer files.
    """
    record = workspace.reports / RECORD
    record.unlink(missing_ok=True)
    with _warnings() as warnings:
        yield
    if not warnings and not record.exists():
        replace_file(record, _record(workspace, inputs).encode())


def _record(workspace: Workspace, inputs: str) -> str:
    outputs = _files_digest(_outputs(workspace), without=[workspace.reports / RECORD, alerts_folder(workspace)])
    return f"{inputs} {outputs}\n"


def _outputs(workspace: Workspace) -> list[Path]:
    """Return the folders to which only reports write, and commands that do what a report does first."""
    return [workspace.reports, workspace.nights, workspace.history]


def _files_digest(folders: Sequence[Path], *, without: Sequence[Path]) -> str:
    skipped, seen = set(map(str, without)), set[tuple[int, int]]()
    digest = hashlib.blake2b(digest_size=16)
    for folder in map(str, folders):
        for path, found in _files(folder, skipped, seen):
            line = f"{path[len(folder) :]}\0{found.st_size} {found.st_ino} {found.st_mtime_ns} {found.st_ctime_ns}\n"
            digest.update(os.fsencode(line))
    return digest.hexdigest()


def _files(folder: str, skipped: Collection[str], seen: set[tuple[int, int]]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each file below a folder with its status; links are followed, to each folder once.

    What cannot be looked at, by its rights or as a link to nothing or itself, is left out: no report can read it.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        own = os.stat(folder)
        if (own.st_dev, own.st_ino) in seen:
            return
        seen.add((own.st_dev, own.st_ino))
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.path in skipped:
                continue
            with contextlib.suppress(OSError):
                if entry.is_dir():
                    yield from _files(entry.path, skipped, seen)
                else:
                    yield entry.path, entry.stat()


@contextlib.contextmanager
def _warnings() -> Iterator[list[logging.LogRecord]]:
    """Yield a list that gets what is logged as a warning or worse."""
    make, found = logging.getLogRecordFactory(), list[logging.LogRecord]()

    def noted(*arguments: object, **named: object) -> logging.LogRecord:
        record = make(*arguments, **named)
        if record.levelno >= logging.WARNING:
            found.append(record)
        return record

    logging.setLogRecordFactory(noted)
    try:
        yield found
    finally:
        logging.setLogRecordFactory(make)
