"""Temporary folders, there for as long as somebody refers to them, and what killed processes leave of them."""

import shutil
import tempfile
import weakref
from pathlib import Path

SCRATCH_PREFIX = "rag-eval-"


def remove_leftover(path: Path) -> None:
    """Removes a temporary file or folder that a killed process has left; one that has gone meanwhile is no fault."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class ScratchFolder:
    """A new folder, in the system's place for temporary files unless another is given.

    It goes with its last reference, or with the process.
    """

    def __init__(self, purpose: str, parent: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f".{SCRATCH_PREFIX}{purpose}-", dir=parent))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def remove(self) -> None:
        """Removes the folder now."""
        self._remove()
