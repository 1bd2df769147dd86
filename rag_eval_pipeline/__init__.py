"""Nightly evaluation of RAG systems. In Python, `open` gives the results of a workspace as pandas frames."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_eval_pipeline.frames import WorkspaceFrames

__all__ = ["open"]


def open(folder: Path | str = ".") -> "WorkspaceFrames":
    """Open a workspace, or its data folder: `ws.results()`, `ws.questions(b)`, `ws.answers(run)`, `ws.compare(a, b)`.

    Raises:
        InputError: `no_workspace`.
    """
    from rag_eval_pipeline.frames import WorkspaceFrames  # pandas takes a second, which no command should pay

    return WorkspaceFrames.open(folder)
