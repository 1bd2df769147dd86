"""Start a benchmark: copy its files into the registry and write a proposed benchmark.yaml beside them.

The benchmark is assembled in a hidden folder, which no sensor takes for a benchmark, and renamed into place at the end,
so that it appears completely or not at all.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.scaffold.profile import profile_folder
from rag_eval_pipeline.scaffold.recipe import Recipe, read_recipes
from rag_eval_pipeline.scaffold.recognition import recognise
from rag_eval_pipeline.scaffold.writer import write_yaml
from rag_eval_pipeline.sources.source_spec import STORAGE_VARIABLES
from rag_eval_pipeline.storage.atomic_files import atomic_write, errors_about, fsync_folder, walk
from rag_eval_pipeline.storage.lock import temporary_folder
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

Download = Callable[[str, Path], None]
"""Writes the body of a URL to a file; raises `InputError` or `ServiceError` if it cannot be fetched."""

SPEC_NAME = "benchmark.yaml"
AUDIT_NAME = "audit.yaml"  # decisions on the questions of a benchmark, and no data
# What a workspace consists of, except hidden files.
_WORKSPACE = [
    *map(Path, ("README.md", "dagster.yaml", "workspace.yaml", "corpus")),
    *(Path("data", name) for name in ("sources", "config", "datasets", "evaluation", "reports", "recipes")),
]
_SCHEMES = ("http://", "https://", *(f"{scheme}://" for scheme in STORAGE_VARIABLES))
_SUFFIXES = re.compile(r"(\.[A-Za-z][A-Za-z0-9]{0,9}){1,2}$")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed benchmark.yaml."""

    text: str
    guesses: list[str]  # the assumptions that it makes, one sentence each
    files: list[str]  # of the benchmark, relative to its folder; empty for a URL
    shape: str  # what was recognised
    missing: list[str]  # what has to be filled in; empty if the benchmark converts as it is


def propose(workspace: Workspace, name: str, origin: Path | str, *, download: Download | None = None) -> Proposal:
    """Propose a benchmark.yaml for a file, a folder or a URL, without writing into the workspace."""
    _check_free(workspace.benchmark(name))
    recipes = read_recipes(workspace.recipes)
    if not (isinstance(origin, str) and origin.lower().startswith(_SCHEMES)):
        folder, files, notes = list_files(Path(origin), workspace.root.resolve())
        return _proposal(name, folder, files, notes, recipes)
    if download is None:
        raise InputError("missing_origin", origin, "a file or a folder", hint="Download it first.")
    suffixes = _SUFFIXES.search(unquote(urlsplit(origin).path))
    file = f"source{suffixes[0] if suffixes else ''}"  # the suffix decides between formats with equal content
    with tempfile.TemporaryDirectory(prefix="rag-eval-init-") as scratch:
        download(origin, Path(scratch) / file)
        return _proposal(name, Path(scratch), [file], [], recipes, url=origin)


def start_benchmark(
    workspace: Workspace, name: str, origin: Path | str, *, download: Download | None = None
) -> tuple[BenchmarkPaths, Proposal]:
    """Copy the files into `data/sources/<name>/` and write the proposed benchmark.yaml beside them."""
    paths = workspace.benchmark(name)
    proposal = propose(workspace, name, origin, download=download)
    with temporary_folder(workspace.sources, "init") as temp:
        staging = temp / name
        staging.mkdir()
        for file in proposal.files:
            target = staging / file
            target.parent.mkdir(parents=True, exist_ok=True)
            with errors_about(paths.source / file):
                shutil.copyfile(_folder(Path(origin)) / file, target, follow_symlinks=False)
        atomic_write(staging / SPEC_NAME, proposal.text.encode())
        _check_free(paths)
        os.rename(staging, paths.source)
    fsync_folder(workspace.sources)
    return paths, proposal


def _folder(origin: Path) -> Path:
    origin = origin.resolve()
    return origin.parent if origin.is_file() else origin


def _proposal(
    name: str,
    folder: Path,
    files: list[str],
    notes: list[str],
    recipes: Mapping[str, Recipe],
    *,
    url: str | None = None,
) -> Proposal:
    draft, profile, found = recognise(profile_folder(folder, files, url=url), recipes)
    notes = [*notes, *found, *profile.notes, *dict.fromkeys(note for file in profile.data for note in file.notes)]
    if draft is None:
        raise InputError(
            "nothing_to_propose",
            url or str(folder if len(files) != 1 else folder / files[0]),
            "a file with rows: CSV, TSV, JSONL, JSON or parquet",
            found=None if notes else files[:5],
            hint=" ".join(
                [*notes, "Put a CSV with the columns Question, Answer and Document into the folder of the documents."]
            ),
        )
    rows = ", ".join(f"{file.origin.shown} ({counted(file.rows, 'row')})" for file in profile.data)
    documents = (
        f"; {counted(len(profile.documents), 'file that can be a document', 'files that can be documents')}"
        if profile.documents
        else ""
    )
    read = [f"Read: {rows}{documents}."]
    read += [
        f"Values of {file.origin.shown} were read from the first {file.sampled} rows only."
        for file in profile.data
        if file.rows > file.sampled > 0
    ]
    guesses = [*(guess.text for guess in draft.guesses), *notes]
    text = write_yaml(name, draft, [*read, *notes])
    return Proposal(text, guesses, [] if url else files, draft.shape, list(draft.missing))


def list_files(origin: Path, workspace: Path) -> tuple[Path, list[str], list[str]]:
    """Return the folder, its regular files without hidden ones, and notes on what was left out.

    Of a folder that holds the workspace, what the workspace itself consists of is left out.
    """
    origin = origin.resolve()  # the path itself may be a link: the user gave it
    if not origin.is_file() and not origin.is_dir():
        raise InputError("missing_origin", origin, "a file, a folder or a URL", hint="Check --from.")
    spec = _folder(origin) / SPEC_NAME
    if origin == spec or (origin.is_dir() and spec.exists()):
        raise InputError(
            "already_a_benchmark", spec, "data without one", hint="Copy its folder into data/sources instead."
        )
    if origin.is_file():
        return origin.parent, [origin.name], []
    files: list[str] = []
    left_out: list[str] = []
    for parent, folders, names in walk(origin):
        own = {path for path in _WORKSPACE if Path(parent) == (workspace / path).parent}
        own_names = {path.name for path in own}
        folders[:] = sorted(folder for folder in folders if not folder.startswith(".") and folder not in own_names)
        for path in (Path(parent, name) for name in sorted(set(names) - own_names) if not name.startswith(".")):
            relative = path.relative_to(origin).as_posix()
            is_regular = path.is_file() and not path.is_symlink() and _is_encodable(relative)
            is_regular = is_regular and relative != AUDIT_NAME
            (files if is_regular else left_out).append(relative)
        left_out += [Path(parent, f).relative_to(origin).as_posix() for f in folders if Path(parent, f).is_symlink()]
    if not files:
        raise InputError("nothing_to_propose", origin, "a folder with files", found="none")
    notes = [f"Links and special files were left out: {', '.join(map(ascii, left_out))}."] if left_out else []
    return origin, sorted(files), notes


def _is_encodable(name: str) -> bool:
    """Return whether a file's name can be written in a YAML file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_free(paths: BenchmarkPaths) -> None:
    if os.path.lexists(paths.source):
        hint = "Choose another name, or remove the folder."
        raise InputError("benchmark_exists", paths.source, "a name that is free", found=paths.name, hint=hint)
