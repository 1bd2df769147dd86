"""The workspace that assets, sensors and schedules work on, and the executor of runs."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import dagster as dg
from pydantic import Field

from rag_eval_pipeline.workspace import Workspace, default_root

# An interrupt is an exception, raised wherever the run happens to be; in a callback of the browser's driver it is
# logged and lost, so it is sent again.
AGAIN_SECONDS = 8.0
INTERRUPTS = 5  # before the run is killed
WATCHER = "parent-watcher"


class WorkspaceResource(dg.ConfigurableResource):
    """One project folder."""

    root: str = Field(
        default_factory=default_root,
        description="Folder that holds data/sources. Another one has other benchmarks, corpora, results and reports.",
    )

    @property
    def workspace(self) -> Workspace:
        """The paths."""
        return Workspace(Path(self.root).resolve())

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """End the run with its code server; otherwise it would work beside its retry, after the server's next start."""
        end_with_code_server()


def end_with_code_server() -> None:
    """Interrupt this run when the process from which `multiprocessing` started it ends; kill it if that does not help.

    Does nothing in a process that was started otherwise: the code server itself, a Celery worker's run, a Job's.
    """
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == WATCHER for thread in threading.enumerate()):
        return

    def watch() -> None:
        parent.join()
        for _ in range(INTERRUPTS):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(AGAIN_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name=WATCHER, daemon=True).start()


@dg.definitions
def resources() -> dg.Definitions:
    """Bind the workspace; run the steps of a run in one process."""
    # A process for each step costs 5 to 10 times the run; work inside an asset is concurrent, and several runs go at
    # once.
    return dg.Definitions(resources={"workspace": WorkspaceResource()}, executor=dg.in_process_executor)
