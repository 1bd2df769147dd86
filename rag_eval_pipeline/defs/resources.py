"""The workspace that assets, sensors and schedules work on."""

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
