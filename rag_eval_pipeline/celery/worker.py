"""The Celery app of a worker: Dagster's, and the record of its browser and fonts that `rag-eval doctor` compares.

Start it with: dagster-celery worker start -A rag_eval_pipeline.celery.worker -q "$(rag-eval worker-queue)"
"""

import time
from pathlib import Path
from typing import Any

from celery.signals import heartbeat_sent, worker_ready, worker_shutdown
from dagster_celery.app import app

from rag_eval_pipeline import clock
from rag_eval_pipeline.corpus.worker_queues import record_worker, remove_worker, this_worker
from rag_eval_pipeline.workspace import Workspace, default_root

__all__ = ["app"]

RECORD_SECONDS = 60.0  # heartbeats are 2 s apart

_workspace = Workspace(Path(default_root()).resolve())
_name = ""
_recorded_at = 0.0  # monotonic


def _begin(sender: Any, **_: object) -> None:
    global _name
    _name = sender.hostname
    _record()


def _refresh(**_: object) -> None:
    if _name and time.monotonic() - _recorded_at >= RECORD_SECONDS:
        _record()


def _end(**_: object) -> None:
    if _name:
        remove_worker(_workspace, _name)


def _record() -> None:
    global _recorded_at
    _recorded_at = time.monotonic()
    record_worker(_workspace, _name, this_worker(), now=clock.now())


worker_ready.connect(_begin)
heartbeat_sent.connect(_refresh)
worker_shutdown.connect(_end)
