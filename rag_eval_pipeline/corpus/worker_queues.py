"""The browser and fonts of the machines that take runs from a queue, and the queue's name.

A page that another browser or other fonts printed is printed again by the next conversion, so the machines of a
deployment must be alike. Their queue carries the fingerprint of the renderer: a machine with another one takes no run.
"""

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import msgspec

from rag_eval_pipeline.corpus.rendering.browser import browser_version, find_browser, font_digest
from rag_eval_pipeline.corpus.rendering.render import renderer_fingerprint
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import Workspace

LIVING = timedelta(minutes=15)  # workers record themselves once a minute; the clocks of machines may differ by minutes
NO_BROWSER = "nobrowser"
_DIGITS = 12


class Worker(msgspec.Struct, frozen=True):
    """What decides the bytes of the pages that a machine prints.

    Args:
        browser: Name and version; the error where there is none.
        fonts: Digest of the list of installed fonts.
        queue: First part of the name of the queue whose runs this machine can take; the Dagster instance follows.
    """

    version: str
    browser: str
    fonts: str
    queue: str


class _Record(msgspec.Struct, frozen=True):
    name: str
    recorded_at: datetime
    worker: Worker


@functools.cache
def this_worker() -> Worker:
    """Return the browser, fonts and queue of this machine; the browser is not started."""
    package = version("rag-eval-pipeline")
    try:
        executable = find_browser()
        browser, fingerprint = browser_version(executable), renderer_fingerprint(executable)[:_DIGITS]
    except ServiceError as error:
        browser, fingerprint = f"none: {error}", NO_BROWSER
    return Worker(package, browser, font_digest()[:_DIGITS], f"rag-eval-{package}-{fingerprint}")


def record_worker(workspace: Workspace, name: str, worker: Worker, *, now: datetime) -> None:
    """Write a worker's record, and remove those of workers that ended without removing theirs a day ago."""
    record = _Record(name, now, worker)
    atomic_write(_path(workspace, name), msgspec.json.encode(record) + b"\n")
    for path, other in _records(workspace).items():
        if now - other.recorded_at > timedelta(days=1):
            path.unlink(missing_ok=True)


def remove_worker(workspace: Workspace, name: str) -> None:
    """Remove the record of a worker that ends."""
    _path(workspace, name).unlink(missing_ok=True)


def living_workers(workspace: Workspace, *, now: datetime) -> dict[str, Worker]:
    """Return the workers that recorded themselves within the last 15 minutes, by name."""
    records = _records(workspace).values()
    living = {record.name: record.worker for record in records if abs(now - record.recorded_at) <= LIVING}
    return dict(sorted(living.items()))


def differences(workers: Mapping[str, Worker]) -> list[str]:
    """Return a line for each worker that differs from most of the others; the first name decides between equals."""
    queues = Counter(worker.queue for worker in workers.values())
    usual_queue = queues.most_common(1)[0][0] if queues else ""
    usual = next((name for name, worker in workers.items() if worker.queue == usual_queue), "")
    return [
        f"{name} differs from {usual} in {_difference(worker, workers[usual])}"
        for name, worker in workers.items()
        if worker != workers[usual]
    ]


def _difference(worker: Worker, usual: Worker) -> str:
    pairs = ((field, getattr(worker, field), getattr(usual, field)) for field in ("version", "browser", "fonts"))
    found = [f"{field} ({one}, not {other})" for field, one, other in pairs if one != other]
    return ", ".join(found) or "the code that prints pages"


def _path(workspace: Workspace, name: str) -> Path:
    return workspace.workers / f"{re.sub(r'[^A-Za-z0-9@._-]', '_', name)}.json"


def _records(workspace: Workspace) -> dict[Path, _Record]:
    found = {}
    for path in workspace.workers.glob("*.json"):
        with contextlib.suppress(FileNotFoundError, ValueError):
            found[path] = msgspec.json.decode(path.read_bytes(), type=_Record)
    return found
