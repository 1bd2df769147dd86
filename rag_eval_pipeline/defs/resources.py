"""The workspace that assets, sensors and schedules work on."""

import os
from pathlib import Path

import dagster as dg
from pydantic import Field

from rag_eval_pipeline.workspace import Workspace

WORKSPACE_VARIABLE = "RAG_EVAL_WORKSPACE"
PROJECT = Path(__file__).resolve().parents[2]


def default_root() -> str:
    """The folder named by RAG_EVAL_WORKSPACE, else the project's own."""
    return os.environ.get(WORKSPACE_VARIABLE) or str(PROJECT)


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
