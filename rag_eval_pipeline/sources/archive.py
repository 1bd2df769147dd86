"""Unpack zip and tar archives in one pass, safely: all of an archive or nothing.

Members are written to a hidden folder that is renamed once the whole archive proved to be good. Names are used as they
are or refused, never corrected. What is unpacked depends on the archive alone: plain modes, no owners, one time.
"""

import contextlib
import fnmatch
import io
import itertools
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import msgspec

from rag_eval_pipeline.errors import MACHINE_ERRORS, InputError
from rag_eval_pipeline.sources.compression import (
    UNPACKED,
    Compression,
    Limits,
    detect_compression,
    open_decoded,
)
from rag_eval_pipeline.storage.atomic_files import atomic_write, errors_about, fsync_folder
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.text.folding import composed

ArchiveKind = Literal["zip", "tar"]

MAX_NAME_BYTES = 255  # of one component: what Linux file systems hold
MAX_PATH_BYTES = 1024  # of a whole name: leaves three quarters of PATH_MAX to the folder above it
UNPACKED_TIME_S = 315_532_800  # 1980-01-01, the first day that zip can represent

_MAC_METADATA = re.compile(r"(?:^|/)(?:__MACOSX/|\._|\.DS_Store$)")
_COPY_BYTES = 1 << 20
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # surrogates are bytes that are not UTF-8


class Member(NamedTuple):
    """A file of an archive: its name, with `/` between components, and its size in bytes."""

    name: str
    size: int


class Caps(NamedTuple):
    """How much an archive may hold."""

    members: int = 10_000  # files and folders
    sizes: Limits = UNPACKED  # of all files together


CAPS = Caps()


class Container(NamedTuple):
    """How a file is packed: a compression, an archive, an archive under a compression, or neither."""

    compression: Compression | None
    archive: ArchiveKind | None


class Extracted(NamedTuple):
    """The folder with an archive's files, each under its name, and the files sorted by name."""

    folder: Path
    members: tuple[Member, ...]
    guessed_names: tuple[str, ...] = ()  # that are in no encoding which the archive states


class _Contents(msgspec.Struct):
    """The record beside unpacked files."""

    members: tuple[Member, ...]
    guessed_names: tuple[str, ...]


def detect_archive(sample: bytes) -> ArchiveKind | None:
    """Return the kind of an archive by its first 512 bytes; None if it is none."""
    if sample.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return "zip"
    return "tar" if sample[257:].startswith((b"ustar\0", b"ustar  \0")) else None


def detect_container(path: Path, shown: str) -> Container:
    """Return how a file is packed, by its content; under a compression only its first block is decoded."""
    with path.open("rb") as file:
        sample = file.read(tarfile.BLOCKSIZE)
    compression = detect_compression(sample)
    if compression is None:
        return Container(None, detect_archive(sample))
    with open_decoded(path, compression, shown=shown) as stream:
        kind = detect_archive(stream.read(tarfile.BLOCKSIZE))
    if kind == "zip":
        found = f"a zip archive inside {compression} data"
        raise InputError("double_compression", shown, "a file compressed once", found=found, hint="Decode it by hand.")
    return Container(compression, kind)


def extract(archive: Path, target: Path, *, shown: str, caps: Caps = CAPS) -> Extracted:
    """Unpack an archive; later calls find its files without opening the archive.

    Archives inside the archive stay files. Names that differ in case or in their Unicode form are kept apart; a file
    system that cannot do so is an `unsafe_archive`.

    Args:
        target: A folder for the content of this archive; its name has to follow from the content (its sha256).
        shown: The archive's name in messages.
    """
    place = target / "all"
    known = _extracted_before(place)
    if known is not None:
        return known
    container = detect_container(archive, shown)
    if container.archive is None:
        raise InputError("unsupported_format", shown, "a zip or tar archive", hint="Name the file itself as `path`.")
    validator = _Validator(shown, archive.stat().st_size, caps)
    target.mkdir(parents=True, exist_ok=True)
    with locked(target / ".lock", holder=f"unpacking of {shown}, process {os.getpid()}", exclusive=True):
        known = _extracted_before(place)
        if known is not None:
            return known
        temp = target / ".tmp-all"
        shutil.rmtree(temp, ignore_errors=True)  # of a process that was killed while it held the lock
        try:
            with errors_about(place):
                (temp / "files").mkdir(parents=True)
            with _damage_as_input_error(shown):
                if container.archive == "zip":
                    members = _zip_members(archive, validator)
                else:
                    members = _tar_members(archive, container.compression, validator)
                for member, source in members:
                    _write(temp / "files", member, source, validator)
            kept = validator.data_files()
            with errors_about(place):
                contents = _Contents(kept, tuple(validator.guessed_names))
                atomic_write(temp / "contents.json", msgspec.json.encode(contents))
                shutil.rmtree(place, ignore_errors=True)
                os.rename(temp, place)
        except BaseException:
            shutil.rmtree(temp, ignore_errors=True)
            raise
        fsync_folder(target)
    return Extracted(place / "files", kept, tuple(validator.guessed_names))


def list_zip(path: Path, shown: str) -> tuple[frozenset[str], str]:
    """Return the names in a zip archive, and the start of its member `mimetype`, which office documents have."""
    with _damage_as_input_error(shown), path.open("rb") as file:
        _check_zip_directory(file, _Validator(shown, path.stat().st_size, CAPS))
        with zipfile.ZipFile(file) as archive:
            names = frozenset(archive.namelist())
            is_plain = "mimetype" in names and archive.getinfo("mimetype").compress_type == zipfile.ZIP_STORED
            kind = archive.open("mimetype").read(100).decode("ascii", "replace") if is_plain else ""
            return names, kind


def is_wanted(name: str, wanted: str) -> bool:
    """Return whether a member's name is the wanted one or fits the glob, in which `**` is any number of folders."""
    name, wanted = composed(name), composed(wanted)
    return name == wanted or _fits(name.split("/"), wanted.split("/"))


def is_mac_metadata(name: str) -> bool:
    """Return whether a Mac wrote a file beside the user's: `__MACOSX/._a.csv`, `._a.csv` or `.DS_Store`."""
    return _MAC_METADATA.search(name) is not None


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _extracted_before(place: Path) -> Extracted | None:
    try:
        known = msgspec.json.decode((place / "contents.json").read_bytes(), type=_Contents)
        if all((place / "files" / member.name).lstat().st_size == member.size for member in known.members):
            return Extracted(place / "files", known.members, known.guessed_names)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass
    return None


def _write(folder: Path, member: Member, source: BinaryIO, validator: "_Validator") -> None:
    path = folder / member.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The mode is the umask's, never the archive's; an existing file or link is an error and not a way out.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except (FileExistsError, NotADirectoryError):
        expected = "names that this file system keeps apart, each a file or a folder"
        raise validator.unsafe(expected, member.name) from None
    with source, errors_about(path), os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(source, file, _COPY_BYTES)
        if file.tell() != member.size:
            raise EOFError(f"{member.name} has {file.tell():,} of {member.size:,} bytes")
        file.flush()
        os.fsync(file.fileno())
    with errors_about(path):
        os.utime(path, (UNPACKED_TIME_S, UNPACKED_TIME_S))


class _Validator:
    """Checks an archive's headers one after another; the first unsafe one refuses the archive."""

    def __init__(self, shown: str, archive_bytes: int, caps: Caps) -> None:
        self.shown, self.caps = shown, caps
        self.files: dict[str, Member] = {}
        self.guessed_names: list[str] = []
        self._archive_bytes = archive_bytes
        self._count = 0
        self._size = 0

    def accept_file(self, raw_name: str, size: int) -> Member:
        """Return an accepted file."""
        self.accept_folder(raw_name)
        name = "/".join(_parts(raw_name))
        if not name:
            raise self.unsafe("a member with a name", raw_name)
        if name in self.files:
            raise self.unsafe("unique member names", raw_name, hint="Pack it again from a folder.")
        self._size += size
        sizes = self.caps.sizes
        if self._size > sizes.max_bytes:
            raise self.bomb(f"at most {sizes.max_bytes:,} bytes unpacked", "more")
        if self._size > sizes.allowed(self._archive_bytes):
            found = f"{self._size:,} from {self._archive_bytes:,}"
            raise self.bomb(f"at most {sizes.ratio:g} bytes for each byte of the archive", found)
        self.files[name] = Member(name, size)
        return self.files[name]

    def accept_folder(self, raw: str) -> None:
        """Accept a folder, which is not created unless it has files."""
        self._count += 1
        if self._count > self.caps.members:
            raise self.bomb(f"at most {self.caps.members:,} members", "more")
        if _UNPRINTABLE.search(raw):
            raise self.unsafe("names in UTF-8 without control characters", raw)
        if raw.startswith("/") or re.match(r"[A-Za-z]:", raw):
            raise self.unsafe("names relative to the archive", raw)
        if "\\" in raw:
            raise self.unsafe("names with / between their components", raw)
        parts = _parts(raw)
        if ".." in parts:
            raise self.unsafe("names without ..", raw)
        if any(len(part.encode()) > MAX_NAME_BYTES for part in parts) or len(raw.encode()) > MAX_PATH_BYTES:
            raise self.unsafe(f"names of at most {MAX_NAME_BYTES} bytes, {MAX_PATH_BYTES} with their folders", raw)

    def data_files(self) -> tuple[Member, ...]:
        """Return the files by name."""
        if "[Content_Types].xml" in self.files:
            expected, hint = "an archive of data files", "Save it as CSV."
            raise InputError("unsupported_format", self.shown, expected, found="an Office document", hint=hint)
        return tuple(sorted(member for member in self.files.values() if not is_mac_metadata(member.name)))

    def unsafe(self, expected: str, found: str, *, hint: str = "Unpack it by hand.") -> InputError:
        """Return the refusal of the archive for a member."""
        return InputError("unsafe_archive", self.shown, expected, found=found, hint=hint)

    def bomb(self, expected: str, found: str) -> InputError:
        """Return the refusal of the archive for its size."""
        hint = "If the archive is to be trusted, unpack it by hand and name its files."
        return InputError("archive_bomb", self.shown, expected, found=found, hint=hint)


def _parts(raw_name: str) -> list[str]:
    """Return the components of a name without `.` and doubled slashes, which mean nothing."""
    return [part for part in raw_name.split("/") if part not in ("", ".")]


@contextlib.contextmanager
def _damage_as_input_error(shown: str) -> Iterator[None]:
    """Convert what zipfile, tarfile and zlib raise on a damaged archive to `bad_archive`."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        struct.error,
        EOFError,
        ValueError,
        OverflowError,
        NotImplementedError,
        RecursionError,
    ) as error:
        # zipfile calls a file that the disk does not give no zip file.
        if isinstance(error.__context__, OSError) and error.__context__.errno in MACHINE_ERRORS:
            raise error.__context__ from None
        found = f"{type(error).__name__}: {error}"
        hint = "Download or pack it anew."
        raise InputError("bad_archive", shown, "a whole archive", found=found, hint=hint) from error


# Of all headers of one member, with the 10 KiB that tarfile reads ahead. A path of 1,024 bytes, times and owners take
# 2 KiB. tarfile searches extended headers in quadratic time: 4 s for 64 KiB.
_HEADERS_BYTES = 24 << 10


def _tar_members(
    path: Path, compression: Compression | None, validator: _Validator
) -> Iterator[tuple[Member, BinaryIO]]:
    """Yield each accepted file of a tar archive; its content has to be read before the next one is requested.

    tarfile stops silently at a header that it cannot read; here the archive has its end mark or is damaged.
    """
    caps = validator.caps
    sizes = caps.sizes._replace(max_bytes=caps.sizes.max_bytes + caps.members * _HEADERS_BYTES)
    with open_decoded(path, compression, shown=validator.shown, limits=sizes) as file:
        limited = _HeaderLimitReader(file, validator)
        with tarfile.open(
            fileobj=limited, mode="r|", tarinfo=_StrictHeader, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            while (info := tar.next()) is not None:
                limited.limit = tar.offset + _HEADERS_BYTES
                if info.isdir():
                    validator.accept_folder(info.name)
                    continue
                if not info.isreg() or info.issparse():
                    raise validator.unsafe("files and folders, no links and no devices", info.name)
                member = validator.accept_file(info.name, info.size)
                tarfile.data_filter(info, "/nowhere")  # a second check; tarfile itself unpacks nothing
                yield member, cast(BinaryIO, tar.extractfile(info))
            limited.limit = None
            # What follows the end mark is NULs to a full record, or a second archive that tar would never show.
            rest = cast(BinaryIO, tar.fileobj)
            while chunk := rest.read(1 << 20):
                if chunk.strip(b"\0"):
                    raise tarfile.ReadError("data follows the end of the archive")


class _StrictHeader(tarfile.TarInfo):
    """A header that is complete and has a valid size, or an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_StrictHeader":
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError("the archive is cut short: its end mark is missing")
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):
                raise  # the end mark
            raise tarfile.ReadError(f"a header cannot be read: {error}") from None
        if header.size < 0:
            raise tarfile.ReadError(f"a member of {header.size:,} bytes")
        return header


class _HeaderLimitReader(io.RawIOBase):
    """The archive's bytes up to a limit that moves with each member, so that headers cannot fill the memory."""

    def __init__(self, stream: io.BufferedReader, validator: _Validator) -> None:
        self._stream, self._validator = stream, validator
        self._position = 0
        self.limit: int | None = _HEADERS_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what `read` passes
        count = self._stream.readinto(buffer)
        self._position += count
        if self.limit is not None and self._position > self.limit:
            raise self._validator.bomb(f"headers of at most {_HEADERS_BYTES:,} bytes a member", "more")
        return count


_ZIP_END = b"PK\x05\x06"
_ZIP_END_BYTES = 22
_ZIP64_END = b"PK\x06\x06"
_ZIP64_LOCATOR = b"PK\x06\x07"
_ZIP_LOCAL = struct.Struct("<4s22xHH")  # signature, lengths of name and extra field
_ZIP_DIRECTORY_BYTES = 512  # of the directory for each member that the caps allow; a name of 60 bytes takes 140
_ZIP_ENCRYPTED = 0x1 | 0x40 | 0x2000  # traditional, strong, and a masked directory
_ZIP_PATCH = 0x20
_ZIP_UTF8 = 0x800
_ZIP_EXTRA = struct.Struct("<HH")  # of a field in `extra`: its kind, and the size of what follows
_ZIP_UNICODE_PATH = 0x7075
_ZIP_METHODS = {8: "deflated", 9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "zstandard", 95: "xz", 98: "PPMd"}


def _zip_members(path: Path, validator: _Validator) -> Iterator[tuple[Member, BinaryIO]]:
    """Yield each file of a zip archive, after its directory and all local headers were checked.

    zipfile cuts names at NUL, lets entries share their data, decodes bzip2 and LZMA without a limit, and reads a
    directory of any size into memory.
    """
    with path.open("rb") as file:
        _check_zip_directory(file, validator)
        with zipfile.ZipFile(file) as archive:
            _check_zip_extents(archive, file, validator)
            accepted = [(_accepted_zip_entry(info, validator), info) for info in archive.infolist()]
            for member, info in accepted:
                if member is not None:
                    yield member, cast(BinaryIO, archive.open(info))


def _accepted_zip_entry(info: zipfile.ZipInfo, validator: _Validator) -> Member | None:
    name, kind = _zip_name(info, validator), stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise validator.unsafe("files and folders, no links and no devices", name)
    if info.flag_bits & _ZIP_ENCRYPTED:
        raise validator.unsafe("members without a password", f"{name}: encrypted")
    if info.flag_bits & _ZIP_PATCH or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        method = _ZIP_METHODS.get(info.compress_type, f"method {info.compress_type}")
        hint = "Unpack it and pack it anew with the usual method."
        raise validator.unsafe("members stored or deflated", f"{name}: {method}", hint=hint)
    if kind == stat.S_IFDIR or name.endswith("/"):
        validator.accept_folder(name)
        return None
    return validator.accept_file(name, info.file_size)


def _zip_name(info: zipfile.ZipInfo, validator: _Validator) -> str:
    """Return an entry's name: UTF-8 where the archive says so or the bytes are, else code page 437.

    Source: PKWARE's appnote, 4.4.4 (bit 11) and 4.6.9 (Info-ZIP Unicode Path); appendix D for code page 437.
    """
    if info.flag_bits & _ZIP_UTF8 or info.orig_filename.isascii():
        return info.orig_filename
    raw = info.orig_filename.encode("cp437")
    with contextlib.suppress(UnicodeDecodeError):
        return _unicode_path(info.extra, raw) or raw.decode()  # Macs write UTF-8 without saying so
    validator.guessed_names.append(info.orig_filename)
    return info.orig_filename


def _unicode_path(extra: bytes, raw_name: bytes) -> str | None:
    """Return the name in Info-ZIP's extra field; None without one, and for one of another name."""
    while len(extra) >= _ZIP_EXTRA.size:
        kind, size = _ZIP_EXTRA.unpack_from(extra)
        body, extra = extra[_ZIP_EXTRA.size : _ZIP_EXTRA.size + size], extra[_ZIP_EXTRA.size + size :]
        if kind == _ZIP_UNICODE_PATH and body[:5] == struct.pack("<BI", 1, zlib.crc32(raw_name)):
            return body[5:].decode()
    return None


def _check_zip_extents(archive: zipfile.ZipFile, file: BinaryIO, validator: _Validator) -> None:
    """Refuse entries that share bytes: a small archive could otherwise unpack to any size without a high ratio.

    Source: David Fifield, A better zip bomb, 2019.
    """
    extents = []
    for info in archive.infolist():
        if not 0 <= info.header_offset < archive.start_dir:
            raise zipfile.BadZipFile(f"{info.orig_filename!r} begins outside the file's data")
        file.seek(info.header_offset)
        signature, name_bytes, extra_bytes = _ZIP_LOCAL.unpack(file.read(_ZIP_LOCAL.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"no header where {info.orig_filename!r} should begin")
        end = info.header_offset + _ZIP_LOCAL.size + name_bytes + extra_bytes + info.compress_size
        extents.append((info.header_offset, end, info.orig_filename))
    extents.sort()
    for (_, end, name), (start, _, other) in itertools.pairwise(extents):
        if start < end:
            raise validator.bomb("members that share no bytes", f"{name} and {other}")
    if extents and extents[-1][1] > archive.start_dir:
        raise validator.bomb("members that end before the directory", extents[-1][2])


def _check_zip_directory(file: BinaryIO, validator: _Validator) -> None:
    """Refuse a directory larger than the caps can need, before zipfile makes an object of each entry."""
    tail_start = max(0, file.seek(0, 2) - _ZIP_END_BYTES - 0xFFFF)
    file.seek(tail_start)
    tail = file.read()
    # zipfile reads the very end first, then searches for the last signature before a comment.
    at = len(tail) - _ZIP_END_BYTES
    if not (tail[at : at + 4] == _ZIP_END and tail.endswith(b"\0\0")):
        at = tail.rfind(_ZIP_END)
    if at < 0:
        raise zipfile.BadZipFile("its directory is missing: was it cut short?")
    count, size = struct.unpack_from("<10xHI", tail, at)
    if tail[at - 20 : at - 16] == _ZIP64_LOCATOR and at >= 20:
        (end64,) = struct.unpack_from("<8xQ", tail, at - 20)
        file.seek(min(end64, tail_start + at))
        record = file.read(56)
        if record[:4] != _ZIP64_END:
            raise zipfile.BadZipFile("its directory's end cannot be found")
        count, size = struct.unpack_from("<32xQQ", record)
    caps = validator.caps
    if count > caps.members or size > caps.members * _ZIP_DIRECTORY_BYTES:
        raise validator.bomb(f"at most {caps.members:,} members", f"{count:,}, in a directory of {size:,} bytes")
    file.seek(0)
