"""A temporary folder that is there for as long as somebody refers to it."""

import shutil
import tempfile
import weakref
from pathlib import Path

SCRATCH_PREFIX = "rag-eval-"


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
