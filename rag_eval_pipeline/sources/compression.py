"""Decompress gzip, bzip2, xz and zstandard as streams, with a limit on what comes out.

Members that follow one another (`cat a.gz b.gz`) are one stream, as the formats define it. Anything else after the end
is an error: the standard library's `BZ2File` and `LZMAFile` ignore it, which would lose the rows of a damaged second
member in silence.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from rag_eval_pipeline.errors import InputError

Compression = Literal["gz", "bz2", "xz", "zst"]

MAX_DECODED_BYTES = 2 << 30  # above any source that one machine maps in a night, below what fills its disk
MAX_RATIO = 200  # JSONL of repetitive text reaches 20-50, a gzip of zeros 1,030
RATIO_FLOOR_BYTES = 10_000_000  # so little does no harm at any ratio, and short files may repeat one row

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
    max_bytes: int = MAX_DECODED_BYTES,
    max_ratio: float = MAX_RATIO,
) -> io.BufferedReader:
    """Open a file as a stream of its decompressed bytes; without a compression, the file itself, without limits.

    Args:
        shown: The file's name in messages.
        max_ratio: Decompressed bytes for each byte of the file; enforced from 10 MB.
    """
    if compression is None:
        return path.open("rb")
    file = path.open("rb", buffering=0)
    try:
        decoder = _Frames(file) if compression == "zst" else _Members(file, compression)
        reader = _CountingReader(file, decoder.read, f"{compression} data", shown, max_bytes, max_ratio)
        return io.BufferedReader(reader, _BUFFER_BYTES)
    except BaseException:
        file.close()
        raise


class _DamageError(Exception):
    """What is wrong with the data, and at which byte of the file."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what, self.at = what, at


class _CountingReader(io.RawIOBase):
    """Compares what comes out with what went in, and converts errors of the decoders.

    Args:
        decode: Returns at most so many decompressed bytes; none only at the end.
        kind: What is decompressed, in messages.
    """

    def __init__(
        self,
        file: io.FileIO,
        decode: Callable[[int], bytes],
        kind: str,
        shown: str,
        max_bytes: int,
        max_ratio: float,
    ) -> None:
        self._file, self._decode, self._kind, self._shown = file, decode, kind, shown
        self._max_bytes, self._max_ratio = max_bytes, max_ratio
        self._size = 0
        self._head = b""

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_BUFFER_BYTES) or b"", b""))  # the inherited one reads 8 KiB at a time

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader and `read` pass
        try:
            data = self._decode(len(buffer)) if len(buffer) else b""
        except _DamageError as damage:
            raise self._damaged(damage.what, damage.at) from None
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk failed, not the data
            raise self._damaged(str(error), self._file.tell()) from error
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
        if self._size > self._max_bytes:
            expected = f"at most {self._max_bytes:,} bytes decoded"
        elif self._size > max(RATIO_FLOOR_BYTES, self._max_ratio * read):
            expected = f"at most {self._max_ratio:g} bytes for each byte of the file"
        else:
            return
        found, hint = f"{self._size:,} bytes from {read:,}", "To trust the file, decode it by hand and name the result."
        raise InputError("archive_bomb", self._shown, expected, found=found, hint=hint)

    def _damaged(self, what: str, at: int) -> InputError:
        found, hint = f"{what} (byte {at:,} of the file)", "Download or compress the file anew."
        return InputError("bad_compression", self._shown, f"whole {self._kind}", found=found, hint=hint)


class _GzipMember:
    """A gzip member with the interface of `bz2.BZ2Decompressor`; checksum and length are verified at its end."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: gzip's header and trailer

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)


_DECOMPRESSORS: dict[Compression, Callable[[], Any]] = {
    "gz": _GzipMember,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES),
}


class _Members:
    """Members of gzip, bzip2 or xz in sequence; NULs may follow, as tapes and block devices leave them."""

    def __init__(self, file: io.FileIO, compression: Compression) -> None:
        self._file = file
        self._new_member, self._signature = _DECOMPRESSORS[compression], _SIGNATURES[compression]
        self._member: Any = None
        self._input = b""

    def read(self, size: int) -> bytes:
        while True:
            if self._member is None:
                self._begin(b"", is_first=True)
            elif self._member.eof and not self._begin(self._member.unused_data, is_first=False):
                return b""
            data = b""
            if needs_input := self._member.needs_input:
                data, self._input = self._input or self._file.read(_READ_BYTES) or b"", b""
            decoded: bytes = self._member.decompress(data, size)
            if decoded:
                return decoded
            if needs_input and not data and not self._member.eof:
                raise _DamageError("the data is cut short", self._file.tell())

    def _begin(self, rest: bytes, *, is_first: bool) -> bool:
        """Start the next member; return False if there is none."""
        if not is_first:
            rest = rest.lstrip(b"\0")
        while len(rest) < _HEAD_BYTES:
            more = self._file.read(_READ_BYTES)
            if not more:
                break
            rest = rest + more if rest or is_first else more.lstrip(b"\0")
        if not rest and not is_first:
            return False
        if not self._signature.match(rest):
            where = "the data begins with" if is_first else "the end of the data is followed by"
            raise _DamageError(f"{where} {rest[:8]!r}", self._file.tell() - len(rest))
        self._input = rest
        self._member = self._new_member()
        return True


class _Frames:
    """Frames of zstandard in sequence, read by Arrow; Python 3.11 has no decoder."""

    def __init__(self, file: io.FileIO) -> None:
        self._head = file.read(_HEAD_BYTES) or b""
        file.seek(0)
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")

    def read(self, size: int) -> bytes:
        if not _SIGNATURES["zst"].match(self._head):
            raise _DamageError(f"the data begins with {self._head[:8]!r}", 0)
        data: bytes = self._stream.read(size)
        return data
