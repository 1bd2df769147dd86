"""The target folder of an export, which appears completely or not at all and never replaces files of others.

An earlier export looks like any other folder, so a target has to be missing or empty. With `overwrite` it may hold only
files that the export writes: a PDF left over in `corpus/` would be ingested, and other files would be lost.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.storage.atomic_files import fsync_folder, walk
from rag_eval_pipeline.storage.lock import temporary_folder
from rag_eval_pipeline.workspace import Workspace

CHUNK_BYTES = 1024 * 1024


def check_target(workspace: Workspace, target: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before anything else is done."""
    if target.is_symlink():
        raise InputError(
            "target_is_link", target, "a folder", found=os.readlink(target), hint="Name the folder itself."
        )
    place = target.resolve()
    if any(place.is_relative_to((workspace.root / part).resolve()) for part in ("corpus", "data")):
        raise InputError("target_in_workspace", target, "a folder outside the workspace's corpus/ and data/")
    if target.exists() and not target.is_dir():
        raise InputError("target_is_file", target, "a folder, or nothing")
    if not overwrite and target.is_dir() and any(target.iterdir()):
        hint = "Name another folder, or use --overwrite."
        raise InputError("target_not_empty", target, "a folder that is missing or empty", hint=hint)


@contextlib.contextmanager
def publishing_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a folder that is renamed to `target` if the block succeeds and removed if it fails.

    A reader sees nothing or everything; with `overwrite` there is a moment without a folder, but never a mixture. What
    an export that was killed in that moment has moved away is put back by the next.
    """

    def put_back(temp: Path) -> None:
        if (temp / "old").exists() and not target.exists():  # the only copy of the old files
            os.rename(temp / "old", target)

    target.parent.mkdir(parents=True, exist_ok=True)
    purpose = f"export-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}"
    with temporary_folder(target.parent, purpose, rescue=put_back) as temp:
        folder = temp / "new"
        folder.mkdir()
        yield folder
        for parent, _, _ in walk(folder):
            fsync_folder(Path(parent))
        _replace(target, folder, temp / "old", overwrite=overwrite)
        fsync_folder(target.parent)


def files_below(folder: Path) -> set[str]:
    """Return the relative paths of files and links below a folder; links are not followed."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def copy_checked(source: Path, target: Path, sha256: str) -> None:
    """Copy a document; never link it, because changes to the copy must not reach the corpus."""
    digest = hashlib.sha256()
    hint = "Convert the benchmark again."
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise InputError("missing_document", source, "a document of the manifest", hint=hint) from None
    with os.fdopen(descriptor, "rb") as original, target.open("xb") as copy:
        while chunk := original.read(CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    if digest.hexdigest() != sha256:
        raise InputError("changed_document", source, "the bytes that the conversion wrote", hint=hint)


def _replace(target: Path, folder: Path, old: Path, *, overwrite: bool) -> None:
    present = files_below(target) if target.is_dir() else set()
    if present and not overwrite:
        raise InputError("target_not_empty", target, "a folder that is still empty")
    if foreign := sorted(present - files_below(folder)):
        hint = f"{counted(len(foreign), 'such file')}. Remove what is foreign, or name another folder."
        expected = "only files that the export writes"
        raise InputError("foreign_file", target, expected, found=foreign[0], hint=hint)
    if target.exists():
        os.rename(target, old)
    os.rename(folder, target)
