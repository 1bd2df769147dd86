"""Files that a benchmark names, as files that can be opened: its own, those in archives, those behind URLs.

Archives are unpacked and addresses downloaded into a cache, by their content; a name such as `docs.zip/a.pdf` or
`https://x.org/q.csv` stays the name of what it stands for.
"""

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.archives import detect_packing, extract, is_wanted
from rag_eval_pipeline.sources.compression import Compression
from rag_eval_pipeline.sources.mends import MENDED
from rag_eval_pipeline.sources.source_spec import SourceSpec, shown_path
from rag_eval_pipeline.storage.digests import file_sha256
from rag_eval_pipeline.storage.scratch import ScratchFolder
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    from rag_eval_pipeline.corpus.egress.policy import EgressPolicy

_GLOB = re.compile(r"[*?\[]")

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known


@dataclass(frozen=True, slots=True)
class OriginFile:
    """A file to be read.

    Args:
        name: How the spec and its rows name it.
        path: Where it lies.
        compression: What it is packed with.
    """

    name: str
    path: Path
    compression: Compression | None = None


@dataclass
class Origins:
    """The files of one benchmark.

    Args:
        paths: Of the benchmark.
        cache: Folder for what is unpacked and downloaded; a temporary one unless given.
        policy: May fetch what is not in the cache; None: addresses have to be there.
        progress: Of downloads.
    """

    paths: BenchmarkPaths
    cache: Path | None = None
    policy: "EgressPolicy | None" = None
    progress: Progress | None = None
    _scratch: ScratchFolder | None = None
    _unpacked: dict[str, Path] = field(default_factory=dict)  # archive -> folder of its files

    def data_files(self, spec: SourceSpec) -> list[OriginFile]:
        """The data files of a source, in stated order, globs by name.

        Raises:
            InputError: `missing_file`, `path_outside`, `archive_member`, `not_downloaded`, those of archives and
                downloads.
        """
        found = {}
        for name, path in self._stated(spec):
            packing = detect_packing(path, shown_path(self.paths, name))
            stated = spec.compression
            if packing.archive is not None and stated is None:
                members = self._members(name, path, spec.member)
                found.update({member.name: member for member in members})
                continue
            compression = packing.compression if stated is None else None if stated == "none" else stated
            found[name] = OriginFile(name, path, compression)
        return list(found.values())

    def listed_files(self, spec: SourceSpec) -> list[OriginFile]:
        """The files that `files:` lists, of the benchmark's folder or of archives, by name.

        Raises:
            InputError: As `data_files`.
        """
        pattern = spec.files or ""
        if not spec.path and not spec.url:
            return [OriginFile(name, self.local(name)) for name in self._matching(pattern)]
        found = []
        for name, path in self._stated(spec):
            if detect_packing(path, shown_path(self.paths, name)).archive is None:
                raise InputError("bad_archive", shown_path(self.paths, name), "an archive, because `files` lists one")
            found += self._matching_members(name, path, pattern)
        return found

    def local(self, name: str) -> Path:
        """Absolute path of a file by its name: a regular file of the benchmark's folder, or one of an archive.

        Raises:
            InputError: `missing_file`, `path_outside`.
        """
        for archive, folder in self._unpacked.items():
            if name.startswith(f"{archive}/"):
                return _inside(folder, name.removeprefix(f"{archive}/"), shown_path(self.paths, name))
        return _inside(self.paths.source, name, shown_path(self.paths, name))

    def _stated(self, spec: SourceSpec) -> list[tuple[str, Path]]:
        names = dict.fromkeys(name for pattern in spec.path for name in self._matching(pattern))
        return [*((name, self.local(name)) for name in names), *((url, self._fetched(url, spec)) for url in spec.url)]

    def _matching(self, pattern: str) -> list[str]:
        """Regular files of the benchmark's folder that a path or a glob names, sorted by name."""
        source = self.paths.source
        if (source / pattern).exists() or not _GLOB.search(pattern):
            found = [source / pattern]
        else:
            # A person's mends are no data, whatever the glob says.
            files = (path for path in source.glob(pattern) if path != source / MENDED)
            found = [path for path in files if path.is_symlink() or path.is_file()]
        names = sorted(path.relative_to(source).as_posix() for path in found)
        for name in names:
            self.local(name)
        if not names:
            shown, hint = shown_path(self.paths, pattern), "Check the glob in benchmark.yaml."
            raise InputError("missing_file", shown, "at least one file", hint=hint)
        return names

    def _members(self, name: str, path: Path, wanted: str | None) -> list[OriginFile]:
        if wanted is not None:
            return self._matching_members(name, path, wanted)
        members = self._matching_members(name, path, "**")
        if len(members) > 1:
            raise InputError(
                "archive_member",
                shown_path(self.paths, name),
                "one file in the archive, or `member` in benchmark.yaml",
                found=[member.name.removeprefix(f"{name}/") for member in members[:10]],
                hint="State `member`, a name or a glob.",
            )
        return members

    def _matching_members(self, name: str, path: Path, pattern: str) -> list[OriginFile]:
        folder, members = self._extracted(name, path)
        chosen = [member for member in members if is_wanted(member, pattern)]
        if not chosen:
            raise InputError(
                "archive_member",
                shown_path(self.paths, name),
                f"a member that matches {pattern!r}",
                found=members[:10],
            )
        shown = shown_path(self.paths, name)
        found = []
        for member in sorted(chosen):
            inner = folder / member
            packing = detect_packing(inner, f"{shown}/{member}")
            found.append(OriginFile(f"{name}/{member}", inner, packing.compression))
        return found

    def _extracted(self, name: str, path: Path) -> tuple[Path, list[str]]:
        extracted = extract(path, self._place() / file_sha256(path), shown=shown_path(self.paths, name))
        self._unpacked[name] = extracted.folder
        return extracted.folder, [member.name for member in extracted.members]

    def _fetched(self, url: str, spec: SourceSpec) -> Path:
        from rag_eval_pipeline.sources.downloads import cached, download

        downloads = self.paths.downloads
        known = cached(url, downloads)
        if known is not None:
            return known.path
        if self.policy is None:
            hint = f"Run: rag-eval convert {self.paths.name}, which downloads it."
            raise InputError("not_downloaded", url, "a file that was downloaded before", hint=hint)
        return download(url, downloads, self.policy, headers=spec.headers, progress=self.progress).path

    def _place(self) -> Path:
        if self.cache is not None:
            return self.cache
        if self._scratch is None:
            self._scratch = ScratchFolder("unpacked")
        return self._scratch.path


def _inside(folder: Path, name: str, shown: str) -> Path:
    """A regular file below a folder, reached through no link."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or "\x00" in name:
        raise InputError("path_outside", shown, "a file inside the benchmark's folder", found=name)
    path = folder
    for part in inside.parts:
        path = path / part
        if _is_too_long(path):
            raise InputError("bad_path", shown, "a path that the file system can hold", found=name)
        if path.is_symlink():
            raise InputError(
                "path_outside", shown, "a file, not a link", found=part, hint="Copy the file into the folder."
            )
    if not path.is_file():
        raise InputError("missing_file", shown, "a file", hint="Check `path` in benchmark.yaml.")
    return path


def _is_too_long(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False
