"""Make a workspace: a folder for benchmarks, systems and settings, outside the folder of the program."""

import os
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import Workspace

RENAMED = {"gitignore": ".gitignore"}  # the name of a template that must not be one within the package
INSTANCE_FILE = "dagster.yaml"


def template_files() -> dict[PurePosixPath, bytes]:
    """Return the files of a new workspace, by their paths in it."""
    found: dict[PurePosixPath, bytes] = {}

    def add(folder: Traversable, path: PurePosixPath) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            inner = path / RENAMED.get(entry.name, entry.name)
            if entry.is_dir():
                add(entry, inner)
            else:
                found[inner] = entry.read_bytes()

    add(resources.files("rag_eval_pipeline.scaffold") / "template", PurePosixPath())
    return found


def new_workspace(folder: Path) -> tuple[Workspace, list[str]]:
    """Make a workspace, or complete one; a file that is there stays as it is.

    Returns:
        The workspace, and the paths of the files that were written; none if all were there.

    Raises:
        InputError: `file_exists` naming the first file that is there with another content; nothing is written.
    """
    workspace = Workspace(folder.resolve())
    missing = {}
    for path, data in template_files().items():
        target = workspace.root / path
        if not os.path.lexists(target):
            missing[path] = data
        elif not target.is_file() or target.read_bytes() != data:
            hint = "It was not changed, and nothing was written. Choose another folder, or move the file away."
            raise InputError("file_exists", target, "no file of this name", hint=hint)
    workspace.sources.mkdir(parents=True, exist_ok=True)
    for path, data in missing.items():
        target = workspace.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(target, data)
    return workspace, [str(path) for path in missing]


def instance_settings(workspace: Workspace) -> bytes:
    """Return the settings of a workspace's Dagster instance: its own dagster.yaml, else that of a new workspace."""
    path = workspace.root / INSTANCE_FILE
    return path.read_bytes() if path.is_file() else template_files()[PurePosixPath(INSTANCE_FILE)]
