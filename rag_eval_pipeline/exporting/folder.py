"""The folder an export goes to: whole or not at all, real files, and nobody's file is lost unasked.

Others' formats have no place for a mark of ours, so an earlier export cannot be told from anybody's files. A target
must be missing or empty. With `overwrite` it may hold files, but none that the export does not write: a PDF left over
in `corpus/` would be ingested, and a file of somebody's own would be gone.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import TEMP_PREFIX, fsync_folder
from rag_eval_pipeline.workspace import Workspace

CHUNK_BYTES = 1024 * 1024


def check_target(workspace: Workspace, target: Path, *, overwrite: bool) -> None:
    """Raises for a target that cannot be written, before anything else is done.

    Raises:
        InputError: `target_is_link`, `target_is_file`, `target_in_workspace` for a place where this project reads,
            `target_not_empty`.
    """
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
        raise InputError(
            "target_not_empty", target, "a folder that is empty or not there", hint="Name another, or use --overwrite."
        )


@contextlib.contextmanager
def publishing_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder to write to, renamed to `target` when the block ends well and removed when it does not.

    Args:
        target: The final path; its parents are made. Only one rename stands between nothing and the whole; with
            `overwrite`, two: a reader between them finds no folder, never a mixed one.
        overwrite: Replace files that are there.

    Raises:
        InputError: `target_not_empty`; `foreign_file` when the target holds a file that was not written now.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=target.parent))
    try:
        folder = temp / "new"
        folder.mkdir()  # inside, because mkdtemp makes folders that only their owner may read
        yield folder
        _make_durable(folder)
        _replace(target, folder, temp / "old", overwrite=overwrite)
        fsync_folder(target.parent)
    finally:
        if target.exists() or not (temp / "old").exists():  # else the only copy of what was there lies in it
            shutil.rmtree(temp, ignore_errors=True)


def files_below(folder: Path) -> set[str]:
    """Relative paths of everything below a folder that is no folder; links are neither followed nor left out."""
    found = set()
    for parent, folders, names in os.walk(folder, followlinks=False):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        found |= {os.path.relpath(os.path.join(parent, name), folder) for name in [*names, *links]}
    return found


def copy_checked(source: Path, target: Path, sha256: str) -> None:
    """Copies a document, never as a link: what others do to their copy must not reach the corpus.

    Raises:
        InputError: `missing_document`, `changed_document` when its bytes are not those of the manifest.
    """
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


def _make_durable(folder: Path) -> None:
    for parent, _, _ in os.walk(folder):
        fsync_folder(Path(parent))


def _replace(target: Path, folder: Path, old: Path, *, overwrite: bool) -> None:
    present = files_below(target) if target.is_dir() else set()
    if present and not overwrite:
        raise InputError("target_not_empty", target, "a folder that is still empty")
    if foreign := sorted(present - files_below(folder)):
        raise InputError(
            "foreign_file", target, "no file but those that the export writes", found=foreign[0],
            hint=f"There are {len(foreign)} such files. Remove them, or name another folder.",
        )  # fmt: skip
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(folder, target)
    except BaseException:
        if old.exists():
            os.rename(old, target)
        raise
