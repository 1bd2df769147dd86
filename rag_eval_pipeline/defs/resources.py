"""The workspace that assets, sensors and schedules work on, and the executor of runs."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from rag_eval_pipeline.workspace import Workspace, default_root


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


@dg.definitions
def resources() -> dg.Definitions:
    """Bind the workspace; run the steps of a run in one process."""
    # A process for each step costs 5 to 10 times the run; work inside an asset is concurrent, and several runs go at
    # once.
    return dg.Definitions(resources={"workspace": WorkspaceResource()}, executor=dg.in_process_executor)
