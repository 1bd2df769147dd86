"""Files of a zip archive, after its directory and every local header were judged.

zipfile cuts names at NUL, lets entries share their data, decodes bzip2 and LZMA without bound, and reads a directory of
any size into memory; each is refused before it gets that far.
"""

import itertools
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from rag_eval_pipeline.sources.archive_members import Gate, Member, Opened
from rag_eval_pipeline.sources.compression import Compression

_END = b"PK\x05\x06"
_END_BYTES = 22
_END64 = b"PK\x06\x06"
_LOCATOR64 = b"PK\x06\x07"
_LOCAL = struct.Struct("<4s22xHH")  # signature, lengths of name and extra field
_DIRECTORY_BYTES = 512  # of the directory for each member that the caps allow; a name of 60 bytes takes 140

_ENCRYPTED = 0x1 | 0x40 | 0x2000  # traditional, strong, and a masked directory
_PATCH = 0x20
_UTF8 = 0x800
_KINDS = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "a symbolic link"}


def zip_files(path: Path, compression: Compression | None, gate: Gate) -> Iterator[Opened]:
    """Each file of the archive, once all headers were admitted.

    Raises:
        InputError: The gate's. What zipfile raises otherwise is for `damage_named`.
    """
    assert compression is None, "a compressed zip is refused when its kind is told"
    with path.open("rb") as file:
        _check_directory_size(file, gate)
        with zipfile.ZipFile(file) as archive:
            _check_extents(archive, file, gate)
            admitted = [(_admitted(info, gate), info) for info in archive.infolist()]
            for member, info in admitted:
                if member is not None:
                    yield Opened(member, lambda info=info: cast(BinaryIO, archive.open(info)))  # type: ignore[misc]


def _admitted(info: zipfile.ZipInfo, gate: Gate) -> Member | None:
    """The entry when it is a file, None when it is a folder."""
    name = _name(info)
    kind = _KINDS.get(stat.S_IFMT(info.external_attr >> 16), "a device or a pipe")
    if kind not in ("file", "folder"):
        raise gate.unsafe("files and folders only", f"{name}: {kind}")
    if info.flag_bits & _ENCRYPTED:
        raise gate.unsafe("members without a password", f"{name}: encrypted")
    if info.flag_bits & _PATCH or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        found = f"{name}: method {info.compress_type}"
        raise gate.unsafe("members stored or deflated", found, hint="Pack it anew with the usual method.")
    if kind == "folder" or name.endswith("/"):
        gate.folder(name)
        return None
    return gate.file(name, info.file_size)


def _name(info: zipfile.ZipInfo) -> str:
    """The entry's name as its author wrote it; macOS writes UTF-8 without saying so."""
    name = info.orig_filename
    if not info.flag_bits & _UTF8:
        with_marks = name.encode("cp437")  # the bytes: zipfile has decoded them so
        try:
            return with_marks.decode("utf-8")
        except UnicodeDecodeError:
            return name
    return name


def _check_extents(archive: zipfile.ZipFile, file: BinaryIO, gate: Gate) -> None:
    """Refuses entries that share bytes: a small archive can otherwise unpack to any size without a high ratio.

    Source: David Fifield, A better zip bomb, 2019.
    """
    extents = []
    for info in archive.infolist():
        if not 0 <= info.header_offset < archive.start_dir:
            raise zipfile.BadZipFile(f"{info.orig_filename!r} begins outside the file's data")
        file.seek(info.header_offset)
        signature, name_bytes, extra_bytes = _LOCAL.unpack(file.read(_LOCAL.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"no header where {info.orig_filename!r} should begin")
        end = info.header_offset + _LOCAL.size + name_bytes + extra_bytes + info.compress_size
        extents.append((info.header_offset, end, _name(info)))
    extents.sort()
    for (_, end, name), (start, _, other) in itertools.pairwise(extents):
        if start < end:
            raise gate.bomb("members that share no bytes", f"{name} and {other}")
    if extents and extents[-1][1] > archive.start_dir:
        raise gate.bomb("members that end before the directory", extents[-1][2])


def _check_directory_size(file: BinaryIO, gate: Gate) -> None:
    """Refuses a directory larger than the caps can need, before zipfile makes an object of each entry."""
    tail_start = max(0, file.seek(0, 2) - _END_BYTES - 0xFFFF)
    file.seek(tail_start)
    tail = file.read()
    # The places where zipfile looks, in its order: the very end, else the last signature before a comment.
    at = len(tail) - _END_BYTES
    if not (tail[at : at + 4] == _END and tail.endswith(b"\0\0")):
        at = tail.rfind(_END)
    if at < 0:
        raise zipfile.BadZipFile("its directory is missing: was it cut short?")
    count, size = struct.unpack_from("<10xHI", tail, at)
    if tail[at - 20 : at - 16] == _LOCATOR64 and at >= 20:
        (end64,) = struct.unpack_from("<8xQ", tail, at - 20)
        file.seek(min(end64, tail_start + at))
        record = file.read(56)
        if record[:4] != _END64:
            raise zipfile.BadZipFile("its directory's end cannot be found")
        count, size = struct.unpack_from("<32xQQ", record)
    if count > gate.caps.members or size > gate.caps.members * _DIRECTORY_BYTES:
        raise gate.bomb(f"at most {gate.caps.members:,} members", f"{count:,}, in a directory of {size:,} bytes")
    file.seek(0)
