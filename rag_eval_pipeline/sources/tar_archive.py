"""Files of a tar archive, plain or compressed, in one pass from its first byte to its last.

tarfile ends quietly at a header that it cannot read and keeps whole extended headers in memory; here the archive ends
at its end mark or is damaged, and headers have a size limit.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from rag_eval_pipeline.sources.archive_members import Gate, Opened
from rag_eval_pipeline.sources.compression import Compression, open_decoded

# Of all headers of one member, with the 10 KiB that tarfile reads ahead. A path of 1,024 bytes, times and owners take
# 2 KiB. tarfile searches extended headers in quadratic time (measured: 16 KiB 0.26 s, 64 KiB 4.1 s).
_HEADERS_BYTES = 24 << 10
_HEADERS_MEAN_BYTES = 2 << 10  # of all headers of the archive, for each member that the caps allow
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


def tar_files(path: Path, compression: Compression | None, gate: Gate) -> Iterator[Opened]:
    """Each file of the archive, once its header was admitted.

    Raises:
        InputError: The gate's; `bad_compression`. What tarfile raises otherwise is for `damage_named`.
    """
    headers = gate.caps.members * _HEADERS_MEAN_BYTES
    size = gate.caps.size_bytes + 2 * headers  # padding, and the record at the end
    with open_decoded(path, compression, shown=gate.shown, max_bytes=size, max_ratio=gate.caps.ratio) as stream:
        metered = _Metered(stream, gate)
        with tarfile.open(
            fileobj=metered, mode="r|", tarinfo=_Header, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            start = 0
            while (info := tar.next()) is not None:
                headers -= info.offset_data - start
                if headers < 0:
                    raise gate.bomb(f"headers of {_HEADERS_MEAN_BYTES:,} bytes a member", "more")
                start = tar.offset
                metered.limit = start + _HEADERS_BYTES
                opened = _admitted(tar, info, gate)
                if opened is not None:
                    yield opened
            metered.limit = None
            _check_end(tar)


def _admitted(tar: tarfile.TarFile, info: tarfile.TarInfo, gate: Gate) -> Opened | None:
    """The member when it is a file, None when it is a folder."""
    if info.isdir():
        gate.folder(info.name)
        return None
    if not info.isreg() or info.issparse():
        kind = _KINDS.get(info.type, "a sparse file" if info.issparse() else f"a member of type {info.type!r}")
        raise gate.unsafe("files and folders only", f"{info.name}: {kind}")
    member = gate.file(info.name, info.size)
    # A second pair of eyes: the folder does not matter, because nothing is unpacked by tarfile itself.
    tarfile.data_filter(info, "/nowhere")
    return Opened(member, lambda: cast(BinaryIO, tar.extractfile(info)))


def _check_end(tar: tarfile.TarFile) -> None:
    """Reads what follows the end mark: NULs to a full record, or a second archive that tar would never show."""
    rest = cast(BinaryIO, tar.fileobj)
    while chunk := rest.read(1 << 20):
        if chunk.strip(b"\0"):
            raise tarfile.ReadError("data follows the end of the archive")


class _Header(tarfile.TarInfo):
    """A header that is whole and of lawful size, or an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
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


class _Metered(io.RawIOBase):
    """The archive's bytes, up to a limit that is moved on with each member: headers must not fill the memory."""

    def __init__(self, stream: io.BufferedReader, gate: Gate) -> None:
        self._stream = stream
        self._gate = gate
        self._position = 0
        self.limit: int | None = _HEADERS_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what `read` passes
        count = self._stream.readinto(buffer)
        self._position += count
        if self.limit is not None and self._position > self.limit:
            raise self._gate.bomb(f"headers of at most {_HEADERS_BYTES:,} bytes a member", "more")
        return count
