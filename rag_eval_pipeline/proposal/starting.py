"""Starting a benchmark: its files copied into the registry, and a benchmark.yaml proposed for them.

A benchmark appears whole or not at all: it is put together in a hidden folder, which no sensor takes for a benchmark,
and renamed at the end.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import atomic_write, fsync_folder
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

Download = Callable[[str, Path], None]
"""Writes the body behind an address to a file; raises `InputError` or `ServiceError` when it cannot be had."""

SPEC_NAME = "benchmark.yaml"
STAGING_PREFIX = ".init-"  # no lawful name of a benchmark begins with a dot
_SUFFIXES = re.compile(r"(\.[A-Za-z][A-Za-z0-9]{0,9}){1,2}$")
HINT_OTHER_NAME = "Choose another name, or remove the folder."


@dataclass(frozen=True, slots=True)
class Proposal:
    """A benchmark.yaml that was proposed.

    Args:
        text: The file, comments included.
        guesses: What was taken for granted, a sentence each.
        files: Paths of the files that belong to the benchmark, relative to its folder; none for a URL.
        shape: What was recognised.
        missing: What has to be filled in before it converts; empty when it converts as it stands.
    """

    text: str
    guesses: list[str]
    files: list[str]
    shape: str
    missing: list[str]


def propose(workspace: Workspace, name: str, origin: Path | str, *, download: Download | None = None) -> Proposal:
    """A benchmark.yaml for a file, a folder or a URL; nothing is written into the workspace.

    Args:
        workspace: Where the benchmark is to be.
        name: Of the benchmark; no folder may have it.
        origin: A path, or a text that begins with http:// or https://.
        download: Needed for a URL; the body is looked at and not kept.

    Raises:
        InputError: `bad_name`, `benchmark_exists`, `missing_origin`, `already_a_benchmark`, `nothing_to_propose`, and
            the readers' own for a single file that cannot be read.
    """
    _check_free(workspace, name)
    if not _is_url(origin):
        folder, files, notes = _local(Path(origin))
        return _proposal(name, folder, files, notes)
    url = str(origin)
    if download is None:
        raise InputError("missing_origin", url, "a file or a folder", hint="Download it first.")
    with tempfile.TemporaryDirectory(prefix="rag-eval-init-") as scratch:
        file = _file_name(url)
        download(url, Path(scratch) / file)
        return _proposal(name, Path(scratch), [file], [], url=url)


def start_benchmark(
    workspace: Workspace, name: str, origin: Path | str, *, download: Download | None = None
) -> tuple[BenchmarkPaths, Proposal]:
    """Copies the files into `data/sources/<name>/` and writes the proposed benchmark.yaml beside them.

    Raises:
        InputError: As `propose`; then nothing is left behind.
    """
    paths = workspace.benchmark(name)
    proposal = propose(workspace, name, origin, download=download)
    with _staging(workspace) as staging:
        for file in proposal.files:
            target = staging / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_folder(Path(origin)) / file, target, follow_symlinks=False)
        atomic_write(staging / SPEC_NAME, proposal.text.encode())
        _check_free(workspace, name)
        try:
            os.rename(staging, paths.source)
        except OSError as error:
            raise _exists(paths) from error
    fsync_folder(workspace.sources)
    return paths, proposal


def _folder(origin: Path) -> Path:
    origin = origin.resolve()
    return origin.parent if origin.is_file() else origin


@contextmanager
def _staging(workspace: Workspace) -> "Iterator[Path]":
    """A hidden folder in the registry; removed, unless it was renamed."""
    staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=workspace.sources))
    try:
        mask = os.umask(0)
        os.umask(mask)
        staging.chmod(0o777 & ~mask)  # mkdtemp makes folders that only their owner may enter
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _proposal(name: str, folder: Path, files: list[str], notes: list[str], *, url: str | None = None) -> Proposal:
    from rag_eval_pipeline.proposal.columns import SAMPLE_ROWS
    from rag_eval_pipeline.proposal.licences import licence_of
    from rag_eval_pipeline.proposal.looking import look
    from rag_eval_pipeline.proposal.shapes import recognise
    from rag_eval_pipeline.proposal.writing import write_yaml

    seen = look(folder, files, url=url)
    draft = recognise(seen)
    shown = url or str(folder if len(files) != 1 else folder / files[0])
    if draft is None:
        raise InputError(
            "nothing_to_propose",
            shown,
            "a file with rows: CSV, TSV, JSONL, JSON or parquet",
            found=list(seen.notes) or files[:5],
        )
    rows = ", ".join(f"{file.origin.shown} ({file.rows} rows)" for file in seen.data)
    bodies = f"; {len(seen.documents)} files that can be documents" if seen.documents else ""
    looked = [f"Looked at: {rows}{bodies}."]
    if any(file.rows > SAMPLE_ROWS for file in seen.data):
        looked.append(f"Values were looked at in the first {SAMPLE_ROWS} rows only.")
    notes = [*notes, *seen.notes]
    text = write_yaml(name, draft, licence=licence_of(folder, files), sources=[*looked, *notes])
    guesses = [*(guess.text for guess in draft.guesses), *notes]
    return Proposal(text, guesses, [] if url else files, draft.shape, list(draft.missing))


def _local(origin: Path) -> tuple[Path, list[str], list[str]]:
    """The folder, its regular files, and what was left out of it."""
    origin = origin.resolve()  # the path itself may be a link: it is the user's own word
    if not origin.is_file() and not origin.is_dir():
        raise InputError("missing_origin", origin, "a file, a folder or a URL", hint="Check --from.")
    spec = _folder(origin) / SPEC_NAME
    if origin == spec or (origin.is_dir() and spec.exists()):
        raise InputError(
            "already_a_benchmark", spec, "data without one", hint="Copy its folder into data/sources instead."
        )
    if origin.is_file():
        return origin.parent, [origin.name], []
    files, left_out = [], []
    for parent, folders, names in os.walk(origin):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(origin).as_posix()
            if name.startswith("."):
                continue
            if path.is_symlink() or not path.is_file() or not _is_text(relative):
                left_out.append(relative)
            else:
                files.append(relative)
        left_out += [Path(parent, f).relative_to(origin).as_posix() for f in folders if Path(parent, f).is_symlink()]
    if not files:
        raise InputError("nothing_to_propose", origin, "a folder with files", found="none")
    notes = [f"Left out, because they are links or no plain files: {', '.join(map(ascii, left_out))}."]
    return origin, sorted(files), notes if left_out else []


def _is_text(name: str) -> bool:
    """Whether a file's name can stand in a YAML file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_free(workspace: Workspace, name: str) -> None:
    paths = workspace.benchmark(name)
    if os.path.lexists(paths.source):
        raise _exists(paths)


def _exists(paths: BenchmarkPaths) -> InputError:
    return InputError("benchmark_exists", paths.source, "a name that is free", found=paths.name, hint=HINT_OTHER_NAME)


def _is_url(origin: Path | str) -> bool:
    return isinstance(origin, str) and origin.lower().startswith(("http://", "https://"))


def _file_name(url: str) -> str:
    """A name for the downloaded body; its suffix decides between formats that look alike."""
    ending = _SUFFIXES.search(unquote(urlsplit(url).path))
    return f"source{ending[0] if ending else ''}"
