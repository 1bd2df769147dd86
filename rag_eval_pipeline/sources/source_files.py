"""Resolve the files that a benchmark names (in its folder, members of archives, URLs) to local paths.

Archives are unpacked and URLs downloaded into a cache. Messages and rows keep the stated name, such as
`docs.zip/a.pdf` or `https://x.org/q.csv`.
"""

import errno
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.archive import Container, detect_container, extract, is_mac_metadata, is_wanted
from rag_eval_pipeline.sources.compression import Compression
from rag_eval_pipeline.sources.format_detection import zip_format
from rag_eval_pipeline.sources.source_spec import SourceSpec, shown_path
from rag_eval_pipeline.storage.atomic_files import ScratchFolder, file_sha256
from rag_eval_pipeline.storage.json_files import JsonError, decode_utf8, strict_json
from rag_eval_pipeline.text.folding import composed
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    from rag_eval_pipeline.web.egress import EgressPolicy
    from rag_eval_pipeline.web.fetcher import Progress

NAMES_SHOWN = 10
GLOB = re.compile(r"[*?\[]")
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.[\w.]+)")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read; `name` is what benchmark.yaml and the rows call it."""

    name: str
    path: Path
    compression: Compression | None = None


@dataclass
class SourceFiles:
    """The files of one benchmark."""

    paths: BenchmarkPaths
    cache: Path | None = None  # the folder for unpacked files; by default a temporary one
    policy: "EgressPolicy | None" = None  # for downloads; None: nothing is downloaded
    progress: "Progress | None" = None  # called during downloads
    notes: dict[str, None] = field(default_factory=dict)  # what was decided about names in archives
    _scratch: ScratchFolder | None = None
    _unpacked: dict[str, Path] = field(default_factory=dict)  # archive -> folder of its files

    def data_files(self, spec: SourceSpec) -> list[SourceFile]:
        """Return the data files of a source in stated order; files of a glob are ordered by name."""
        found = {}
        for name, path in self._stated(spec):
            packing = detect_container(path, shown_path(self.paths, name))
            if packing == Container(None, "zip") and zip_format(path, shown_path(self.paths, name)):
                found[name] = SourceFile(name, path)
            elif packing.archive is not None:
                found.update({member.name: member for member in self._members(name, path, spec.member)})
            else:
                found[name] = SourceFile(name, path, packing.compression)
        return list(found.values())

    def listed_files(self, spec: SourceSpec) -> list[SourceFile]:
        """Return the files that `files:` matches in the benchmark's folder or in archives, ordered by name."""
        pattern = spec.files or ""
        if not spec.path and not spec.url:
            return [SourceFile(name, self.local(name)) for name in self._matching(pattern)]
        found = []
        for name, path in self._stated(spec):
            if detect_container(path, shown_path(self.paths, name)).archive is None:
                raise InputError("bad_archive", shown_path(self.paths, name), "an archive, because `files` lists one")
            found += self._matching_members(name, path, pattern)
        return found

    def local(self, name: str) -> Path:
        """Return the absolute path of a regular file of the benchmark's folder or of an unpacked archive."""
        for archive, folder in self._unpacked.items():
            if name.startswith(f"{archive}/"):
                return _inside(folder, name.removeprefix(f"{archive}/"), shown_path(self.paths, name))
        return _inside(self.paths.source, name, shown_path(self.paths, name))

    def _stated(self, spec: SourceSpec) -> list[tuple[str, Path]]:
        names = dict.fromkeys(name for pattern in spec.path for name in self._matching(pattern))
        return [*((name, self.local(name)) for name in names), *((url, self._fetched(url, spec)) for url in spec.url)]

    def _matching(self, pattern: str) -> list[str]:
        """Return the names of the regular files that a path or a glob matches in the benchmark's folder, sorted."""
        source = self.paths.source
        try:
            is_folder = (source / pattern).is_dir()
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise InputError(
                "missing_file", shown_path(self.paths, "benchmark.yaml"), "a name that a file can have", found=pattern
            ) from None
        if is_folder:
            return self._dataset_files(pattern)
        if (source / pattern).exists() or not GLOB.search(pattern):
            found = [source / pattern]
        else:
            matching = (path for path in source.glob(pattern) if path.is_symlink() or path.is_file())
            found = [path for path in matching if not is_mac_metadata(path.relative_to(source).as_posix())]
            found = [path for path in found if path not in (self.paths.spec, self.paths.audit)]
        names = sorted(path.relative_to(source).as_posix() for path in found)
        for name in names:
            self.local(name)
        if not names:
            shown, hint = shown_path(self.paths, pattern), "Check the glob in benchmark.yaml."
            raise InputError("missing_file", shown, "at least one file", hint=hint)
        return names

    def _dataset_files(self, folder: str) -> list[str]:
        """Return the data files of a folder that `Dataset.save_to_disk` of Hugging Face's `datasets` wrote.

        Raises:
            InputError: `missing_split` for a `DatasetDict`, `missing_file` for another folder.
        """
        path, shown = self.paths.source / folder, shown_path(self.paths, folder)
        prefix = "" if folder == "." else folder.rstrip("/") + "/"
        if (path / "dataset_dict.json").is_file():
            splits = _json_member(self.local(f"{prefix}dataset_dict.json"), "splits", shown)
            hint = f"State `path: {prefix}{'test' if 'test' in splits else splits[0]}`." if splits else None
            raise InputError("missing_split", shown, f"one of its splits {', '.join(map(str, splits))}", hint=hint)
        if (path / "state.json").is_file():
            state = self.local(f"{prefix}state.json")
            parts = _json_member(state, "_data_files", shown)
            if _json_member(state, "_indices_data_files", shown):
                hint = "Save it again after `dataset.flatten_indices()`."
                raise InputError("bad_arrow", shown, "a dataset without a selection of rows kept beside it", hint=hint)
            names = [prefix + str(part.get("filename")) for part in parts if isinstance(part, dict)]
            for name in names:
                self.local(name)
            return names
        inside = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        globs = list(dict.fromkeys(glob for name in inside if (glob := shard_glob(name)) is not None))
        names = globs or inside
        hint = f'State one, such as `path: "{prefix}{names[0]}"`, or a glob.' if names else None
        raise InputError(
            "missing_file", shown, "a data file", found=f"a folder with {', '.join(names[:10])}", hint=hint
        )

    def _members(self, name: str, path: Path, wanted: str | None) -> list[SourceFile]:
        members = self._matching_members(name, path, wanted or "**")
        if wanted is None and len(members) > 1:
            expected = "one file in the archive, or `member` in benchmark.yaml"
            found = [member.name.removeprefix(f"{name}/") for member in members[:10]]
            hint = "State `member`, a name or a glob."
            raise InputError("archive_member", shown_path(self.paths, name), expected, found=found, hint=hint)
        return members

    def _matching_members(self, name: str, path: Path, pattern: str) -> list[SourceFile]:
        shown = shown_path(self.paths, name)
        if self.cache is None:
            self._scratch = self._scratch or ScratchFolder("unpacked")
        cache = self._scratch.path if self._scratch is not None else self.cache or Path()
        folder, members, guessed_names = extract(path, cache / file_sha256(path), shown=shown)
        self._unpacked[name] = folder
        if guessed_names:
            listed = ", ".join(guessed_names[:NAMES_SHOWN]) + (", ..." if len(guessed_names) > NAMES_SHOWN else "")
            count = f"{len(guessed_names)} of its {len(members)} names are"
            self.notes[f"{name}: {count} in no stated encoding and were read as code page 437: {listed}"] = None
        chosen = sorted(member.name for member in members if is_wanted(member.name, pattern))
        if not chosen:
            found = [member.name for member in members[:10]]
            raise InputError("archive_member", shown, f"a member that matches {pattern!r}", found=found)
        packed = {member: detect_container(folder / member, f"{shown}/{member}").compression for member in chosen}
        return [SourceFile(f"{name}/{member}", folder / member, packed[member]) for member in chosen]

    def _fetched(self, url: str, spec: SourceSpec) -> Path:
        from rag_eval_pipeline.sources.download import cached, download

        downloads = self.paths.downloads
        known = cached(url, downloads)
        if known is not None:
            return known
        if self.policy is None:
            hint = f"Run: rag-eval convert {self.paths.name}, which downloads it."
            raise InputError("not_downloaded", url, "a file that was downloaded before", hint=hint)
        return download(url, downloads, self.policy, headers=spec.headers, progress=self.progress)


def shard_glob(name: str) -> str | None:
    """Return the glob of a split's files by the name of one: `test-*.parquet` of `test-00000-of-00002.parquet`."""
    shard = _SHARD.fullmatch(name)
    return f"{shard['split']}-*{shard['suffix']}" if shard else None


def shard_notes(names: Sequence[str]) -> Iterator[str]:
    """Yield what is odd about files that are parts of splits: missing parts, and several splits in one table."""
    found: dict[str, set[int]] = {}
    counts: dict[str, int] = {}
    for name in names:
        if shard := _SHARD.fullmatch(name):
            found.setdefault(shard["split"], set()).add(int(shard["number"]))
            counts[shard["split"]] = int(shard["count"])
    for split, numbers in found.items():
        if len(numbers) < counts[split]:
            yield f"{split}: {len(numbers)} of its {counts[split]} files are read"
    if len(found) > 1:
        yield f"{', '.join(found)}: these splits are read as one table"


def _json_member(path: Path, name: str, shown: str) -> list[Any]:
    try:
        value = strict_json(decode_utf8(path.read_bytes(), shown))
    except (json.JSONDecodeError, JsonError) as error:
        found = f"{path.name}: {error}"
        raise InputError("bad_json", shown, "a folder of `save_to_disk`", found=found) from None
    items = value.get(name) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _inside(folder: Path, name: str, shown: str) -> Path:
    """Return the path of a regular file below a folder; no part of it may be a link."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or "\x00" in name:
        raise InputError("path_outside", shown, "a file inside the benchmark's folder", found=name)
    path = folder
    for part in inside.parts:
        path = _entry(path, part)
        if _is_too_long(path):
            raise InputError("bad_path", shown, "a path that the file system can hold", found=name)
        if path.is_symlink():
            hint = "Copy the file into the folder."
            raise InputError("path_outside", shown, "a file, not a link", found=part, hint=hint)
    if not path.is_file():
        raise InputError("missing_file", shown, "a file", hint="Check `path` in benchmark.yaml.")
    return path


def _entry(folder: Path, name: str) -> Path:
    """Return the entry of a folder with this name, in whichever Unicode form the disk has it."""
    path = folder / name
    if name.isascii() or os.path.lexists(path) or not folder.is_dir():
        return path
    return next((entry for entry in folder.iterdir() if composed(entry.name) == composed(name)), path)


def _is_too_long(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False
