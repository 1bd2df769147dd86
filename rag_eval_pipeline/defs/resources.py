"""The workspace that assets, sensors and schedules work on, and the executor of runs."""

import multiprocessing
import os
import signal
import threading
from pathlib import Path

import dagster as dg
from pydantic import Field

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import WORKSPACE_VARIABLE, Workspace, default_root, is_workspace

WATCHER = "parent-watcher"


class WorkspaceResource(dg.ConfigurableResource):
    """One project folder."""

    root: str = Field(
        default_factory=default_root,
        description="Folder that holds data/sources. Another one has other benchmarks, corpora, results and reports.",
    )

    @property
    def workspace(self) -> Workspace:
        """The paths.

        Raises:
            Failure: `no_workspace`.
        """
        root = Path(self.root).resolve()
        if not is_workspace(root):
            hint = f"Name one: {WORKSPACE_VARIABLE}=DIR, or make one: rag-eval new DIR"
            raise dg.Failure(str(InputError("no_workspace", root, "a folder that holds data/sources", hint=hint)))
        return Workspace(root)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """End the run with its code server; otherwise it would work beside its retry, after the server's next start."""
        end_with_code_server()


def end_with_code_server() -> None:
    """Kill this run when the process from which `multiprocessing` started it has ended.

    It is not interrupted: Dagster would retry a run that records its failure at once, in vain while its code server is
    down, and never again. The next code server finds it (`find_orphaned_runs`). Does nothing in a process that was
    started otherwise: the code server itself, a Celery worker's run, a Job's.
    """
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == WATCHER for thread in threading.enumerate()):
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name=WATCHER, daemon=True).start()


@dg.definitions
def resources() -> dg.Definitions:
    """Bind the workspace; run the steps of a run in one process."""
    # A process for each step costs 5 to 10 times the run; work inside an asset is concurrent, and several runs go at
    # once.
    return dg.Definitions(resources={"workspace": WorkspaceResource()}, executor=dg.in_process_executor)
