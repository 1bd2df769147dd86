"""Decompress gzip, bzip2, xz and zstandard as streams, with a limit on what comes out.

Members that follow one another (`cat a.gz b.gz`) are one stream, as the formats define it. Anything else after the end
is an error: the standard library's `BZ2File` and `LZMAFile` ignore it, which would lose the rows of a damaged second
member in silence.
"""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from rag_eval_pipeline.errors import InputError

Compression = Literal["gz", "bz2", "xz", "zst"]


class Limits(NamedTuple):
    """How many bytes may come out of a file: `floor_bytes` at any ratio, else `ratio` for each byte of the file."""

    max_bytes: int
    floor_bytes: int  # so little does no harm, and short files may repeat one row
    ratio: float = 200  # JSONL of repetitive text reaches 20-50, a gzip of zeros 1,030

    def allowed(self, file_bytes: int) -> int:
        """Return how much may come out of so many bytes."""
        return int(min(self.max_bytes, max(self.floor_bytes, self.ratio * file_bytes)))


# Of archives and compressed files: above any source that one machine maps in a night, below what fills its disk.
UNPACKED = Limits(2 << 30, 10_000_000)
WORKBOOK = Limits(2 << 30, 100_000_000)
DECODED = Limits(8 << 30, 1 << 30)  # of rows on disk; columns that repeat a value may have any ratio

_BUFFER_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_HEAD_BYTES = 10  # enough for every signature
_XZ_MEMORY_BYTES = 256 << 20  # `xz -9` needs 65 MiB; a dictionary of 4 GiB is allowed by the format

_SIGNATURES: dict[Compression, re.Pattern[bytes]] = {
    "gz": re.compile(rb"\x1f\x8b\x08"),
    # "BZh9" alone could open a text file; the mark of a block or of the end has to follow.
    "bz2": re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # a frame, or a skippable one (pzstd)
}


def detect_compression(sample: bytes) -> Compression | None:
    """Return the compression of a file by its first ten bytes; None if it has none."""
    return next((kind for kind, signature in _SIGNATURES.items() if signature.match(sample)), None)


def open_decoded(
    path: Path,
    compression: Compression | None,
    *,
    shown: str,
    limits: Limits = UNPACKED,
) -> io.BufferedReader:
    """Open a file as a stream of its decompressed bytes; without a compression, the file itself, without limits.

    Args:
        shown: The file's name in messages.
    """
    if compression is None:
        return path.open("rb")
    file = path.open("rb", buffering=0)
    try:
        decode = _decoder(file, compression)
        reader = _CountingReader(file, decode, f"{compression} data", shown, limits)
        return io.BufferedReader(reader, _BUFFER_BYTES)
    except BaseException:
        file.close()
        raise


class _CountingReader(io.RawIOBase):
    """Compares what comes out with what went in, and converts errors of the decoders.

    Args:
        decode: Returns at most so many decompressed bytes; none only at the end.
    """

    def __init__(
        self,
        file: io.FileIO,
        decode: Callable[[int], bytes],
        kind: str,
        shown: str,
        limits: Limits,
    ) -> None:
        self._file, self._decode, self._kind, self._shown, self._limits = file, decode, kind, shown, limits
        self._size = 0
        self._head = b""

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_BUFFER_BYTES) or b"", b""))  # the inherited one reads 8 KiB at a time

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader and `read` pass
        try:
            data = self._decode(len(buffer)) if len(buffer) else b""
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk failed, not the data
            found, hint = f"{error} (byte {self._file.tell():,} of the file)", "Download or compress the file anew."
            raise InputError("bad_compression", self._shown, f"whole {self._kind}", found=found, hint=hint) from error
        if len(self._head) < _HEAD_BYTES:
            self._head = (self._head + data)[:_HEAD_BYTES]
            again = detect_compression(self._head)
            if again is not None:
                found, hint = f"{again} data inside {self._kind}", "Decode it once by hand."
                raise InputError("double_compression", self._shown, "a file compressed once", found=found, hint=hint)
        self._size += len(data)
        self._check_limits()
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check_limits(self) -> None:
        read = self._file.tell()
        if self._size <= self._limits.allowed(read):
            return
        expected = f"at most {self._limits.ratio:g} bytes for each byte of the file"
        if self._size > self._limits.max_bytes:
            expected = f"at most {self._limits.max_bytes:,} bytes decoded"
        found, hint = (
            f"{self._size:,} bytes from {read:,}",
            "If you trust it, decompress it yourself and put the new file into `path`.",
        )
        raise InputError("archive_bomb", self._shown, expected, found=found, hint=hint)


def _decoder(file: io.FileIO, compression: Compression) -> Callable[[int], bytes]:
    """Return what decodes the next bytes, at most so many; none only at the end."""
    if compression == "zst":
        return _Frames(file).read
    if compression == "gz":
        return gzip.GzipFile(fileobj=file).read
    if compression == "bz2":
        return _Members(file, bz2.BZ2Decompressor).read
    return _Members(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)).read


class _Members:
    """Members of bzip2 or xz in sequence; NULs may follow, as tapes and block devices leave them."""

    def __init__(self, file: io.FileIO, new_member: Callable[[], Any]) -> None:
        self._file, self._new_member, self._member = file, new_member, new_member()

    def read(self, size: int) -> bytes:
        while True:
            if self._member.eof:
                rest = self._member.unused_data.lstrip(b"\0")
                while not rest and (more := self._file.read(_READ_BYTES)):
                    rest = more.lstrip(b"\0")
                if not rest:
                    return b""
                self._member = self._new_member()  # which refuses what is no member
            else:
                rest = (self._file.read(_READ_BYTES) or b"") if self._member.needs_input else b""
                if self._member.needs_input and not rest:
                    raise EOFError("the data is cut short")
            if decoded := self._member.decompress(rest, size):
                return bytes(decoded)


class _Frames:
    """Frames of zstandard in sequence, read by Arrow; Python 3.11 has no decoder."""

    def __init__(self, file: io.FileIO) -> None:
        self._head = file.read(_HEAD_BYTES) or b""
        file.seek(0)
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")

    def read(self, size: int) -> bytes:
        if not _SIGNATURES["zst"].match(self._head):
            raise ValueError(f"the data begins with {self._head[:8]!r}")
        data: bytes = self._stream.read(size)
        return data
