"""Archives as folders: told by content, judged whole, unpacked once.

Every header is judged before a byte is written, files appear all at once or not at all, and what was unpacked depends
on the archive alone: plain modes, no owners, one time.
"""

import fnmatch
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.archive_members import CAPS, Caps, Contents, Gate, Member, Opened, damage_named
from rag_eval_pipeline.sources.compression import Compression, detect_compression, open_decoded
from rag_eval_pipeline.sources.tar_archive import tar_files
from rag_eval_pipeline.sources.zip_archive import zip_files
from rag_eval_pipeline.storage.atomic import atomic_write, fsync_folder
from rag_eval_pipeline.storage.lock import locked

ArchiveKind = Literal["zip", "tar"]

TAR_BLOCK_BYTES = 512
UNPACKED_TIME_S = 315_532_800  # 1980-01-01, the first day that zip can name

_COPY_BYTES = 1 << 20
_READERS: dict[ArchiveKind, Callable[[Path, Compression | None, Gate], Iterator[Opened]]] = {
    "zip": zip_files,
    "tar": tar_files,
}


class Packing(NamedTuple):
    """How a file is packed: a compression, an archive, an archive under a compression, or neither."""

    compression: Compression | None
    archive: ArchiveKind | None


class Extracted(NamedTuple):
    """An unpacked archive.

    Args:
        folder: Where its files lie, each under its name; nothing else is in there.
        members: The files asked for, sorted by name.
        ignored: Names of what macOS adds to archives; not unpacked.
    """

    folder: Path
    members: tuple[Member, ...]
    ignored: tuple[str, ...]


def detect_archive(sample: bytes) -> ArchiveKind | None:
    """Kind of an archive by its first 512 bytes; None when it is none."""
    if sample.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return "zip"
    if sample[257:].startswith((b"ustar\0", b"ustar  \0")) or _has_tar_checksum(sample[:TAR_BLOCK_BYTES]):
        return "tar"
    return None


def detect_packing(path: Path, shown: str) -> Packing:
    """How a file is packed, by its content; under a compression only as far as the first block.

    Raises:
        InputError: `bad_compression`; `double_compression` for a compressed zip or twice compressed data.
    """
    with path.open("rb") as file:
        sample = file.read(TAR_BLOCK_BYTES)
    compression = detect_compression(sample)
    if compression is None:
        return Packing(None, detect_archive(sample))
    with open_decoded(path, compression, shown=shown) as stream:
        kind = detect_archive(stream.read(TAR_BLOCK_BYTES))
    if kind == "zip":
        found = f"a zip archive inside {compression} data"
        raise InputError("double_compression", shown, "a file compressed once", found=found, hint="Decode it by hand.")
    return Packing(compression, kind)


def members(archive: Path, *, shown: str, caps: Caps = CAPS) -> Contents:
    """What an archive holds, without writing anything; a compressed tar is decoded once for it.

    Args:
        archive: The file.
        shown: How messages name it.
        caps: How much it may hold.

    Raises:
        InputError: `unsafe_archive`, `archive_bomb`, `bad_archive`, `bad_compression`, `double_compression`;
            `unsupported_format` for what is no archive, or an Office document, which is a zip by accident.
    """
    packing = detect_packing(archive, shown)
    if packing.archive is None:
        raise InputError("unsupported_format", shown, "a zip or tar archive", hint="Name the file itself as `path`.")
    gate = Gate(shown, archive.stat().st_size, caps)
    with damage_named(shown):
        for _ in _READERS[packing.archive](archive, packing.compression, gate):
            pass
    contents = gate.contents()
    if any(member.name == "[Content_Types].xml" for member in contents.members):
        hint = "Save it as CSV."
        raise InputError("unsupported_format", shown, "an archive of data files", found="an Office document", hint=hint)
    return contents


def extract(archive: Path, target: Path, *, shown: str, wanted: str | None = None, caps: Caps = CAPS) -> Extracted:
    """The archive's files as a folder; unpacked at the first call, found by later ones without opening the archive.

    Archives inside the archive stay files. Names that differ in case or in their Unicode form are kept apart, as the
    archive has them; a file system that cannot do so is an `unsafe_archive`.

    Args:
        archive: The file.
        target: A folder for this archive's content: its name has to follow from the content (its sha256).
        shown: How messages name it.
        wanted: A name, or a glob over whole names, in which `**` stands for any number of folders; all unless given.
        caps: How much the archive may hold, wanted or not.

    Raises:
        InputError: Those of `members`.
        ServiceError: `locked`, when another process unpacks it for longer than ten minutes.
    """
    key = "all" if wanted is None else hashlib.sha256(wanted.encode()).hexdigest()[:16]
    place = target / key
    kept = _kept(place)
    if kept is not None:
        return kept
    contents = members(archive, shown=shown, caps=caps)
    with locked(target / ".lock", holder=f"unpacking of {shown}, process {os.getpid()}", exclusive=True):
        kept = _kept(place)
        if kept is not None:
            return kept
        temp = target / f".tmp-{key}"
        shutil.rmtree(temp, ignore_errors=True)  # of a process that was killed: who holds the lock is alone
        try:
            _unpack(archive, temp, contents, wanted=wanted, shown=shown, caps=caps)
            shutil.rmtree(place, ignore_errors=True)
            os.rename(temp, place)
        except BaseException:
            shutil.rmtree(temp, ignore_errors=True)
            raise
        fsync_folder(target)
    done = _kept(place)
    assert done is not None
    return done


class _Record(msgspec.Struct, frozen=True):
    """`contents.json` beside the files: what was unpacked."""

    members: tuple[Member, ...]
    ignored: tuple[str, ...]


def _kept(place: Path) -> Extracted | None:
    """What was unpacked before, when it is all there."""
    try:
        record = msgspec.json.decode((place / "contents.json").read_bytes(), type=_Record)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    folder = place / "files"
    for member in record.members:
        try:
            found = (folder / member.name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if found.st_size != member.size:
            return None
    return Extracted(folder, record.members, record.ignored)


def _unpack(archive: Path, temp: Path, contents: Contents, *, wanted: str | None, shown: str, caps: Caps) -> None:
    chosen = tuple(member for member in contents.members if wanted is None or is_wanted(member.name, wanted))
    left = set(chosen)
    folder = temp / "files"
    folder.mkdir(parents=True)
    packing = detect_packing(archive, shown)
    gate = Gate(shown, archive.stat().st_size, caps)
    assert packing.archive is not None
    with damage_named(shown):
        for opened in _READERS[packing.archive](archive, packing.compression, gate):
            if opened.member in left:
                left.remove(opened.member)
                with opened.open() as source:
                    _write(folder, opened.member, source, gate)
    if left or gate.contents() != contents:
        raise InputError("bad_archive", shown, "an archive that does not change while it is unpacked")
    atomic_write(temp / "contents.json", msgspec.json.encode(_Record(chosen, contents.ignored)))


def _write(folder: Path, member: Member, source: BinaryIO, gate: Gate) -> None:
    path = folder / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # The mode is the umask's, never the archive's; an existing file or link is an error and not a way out.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise gate.unsafe("names that this file system keeps apart", member.name) from None
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(source, file, _COPY_BYTES)
        if file.tell() != member.size:
            raise EOFError(f"{member.name} has {file.tell():,} of {member.size:,} bytes")
        file.flush()
        os.fsync(file.fileno())
    os.utime(path, (UNPACKED_TIME_S, UNPACKED_TIME_S))


def is_wanted(name: str, wanted: str) -> bool:
    """Whether a member's name is the wanted one, or fits the glob, component by component and case by case."""
    return name == wanted or _fits(name.split("/"), wanted.split("/"))


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _has_tar_checksum(block: bytes) -> bool:
    """Whether the block's checksum field holds the block's checksum: tar before `ustar` has no other mark."""
    if len(block) < TAR_BLOCK_BYTES:
        return False
    field = block[148:156].strip(b" \0")
    if not field or field.strip(b"01234567"):
        return False
    return int(field, 8) == sum(block) - sum(block[148:156]) + 8 * ord(" ")
