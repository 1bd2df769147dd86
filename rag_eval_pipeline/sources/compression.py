"""Compressed files as streams of what they hold: told by content, decoded piece by piece, whole or an error.

A stream gives no byte beyond a stated size, nor beyond a stated multiple of the bytes it was decoded from, and memory
stays flat however large either is. Members that follow one another (`cat a.gz b.gz`) are one stream, as the formats
say; anything else after the end is reported, because nobody can tell what it was meant to be.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoders import HEAD_BYTES, Decoder, Decompressor, Fault, Frames, GzipMember, Members

Compression = Literal["gz", "bz2", "xz", "zst"]

MAX_DECODED_BYTES = 2 << 30  # above any source that one machine maps in a night, below what fills its disk
MAX_RATIO = 200  # JSONL of repetitive text reaches 20-50, a gzip of nothing but zeros 1,030
RATIO_FLOOR_BYTES = 10_000_000  # so little does no harm at any ratio, and short files of one repeated row are lawful

_BUFFER_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 256 << 20  # `xz -9` needs 65 MiB; the format's dictionary may ask for 4 GiB

_SIGNATURES: dict[Compression, re.Pattern[bytes]] = {
    "gz": re.compile(rb"\x1f\x8b\x08"),
    # "BZh9" alone could open a text file; a block's or the end's mark has to follow.
    "bz2": re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # a frame, or one to be skipped (pzstd)
}

_MEMBERS: dict[Compression, Callable[[], Decompressor]] = {
    "gz": GzipMember,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES),
}


def detect_compression(sample: bytes) -> Compression | None:
    """Compression of a file by its first bytes, of which ten suffice; None when there is none."""
    return next((kind for kind, mark in _SIGNATURES.items() if mark.match(sample)), None)


def open_decoded(
    path: Path,
    compression: Compression | None,
    *,
    shown: str,
    max_bytes: int = MAX_DECODED_BYTES,
    max_ratio: float = MAX_RATIO,
    refuse_double: bool = True,
) -> io.BufferedReader:
    """What a compressed file holds, as a stream to read once from its start; use as a context manager.

    Args:
        path: The file.
        compression: From `detect_compression`; None gives the file itself, without limits.
        shown: How messages name it.
        max_bytes: Decoded size that is not exceeded.
        max_ratio: Decoded bytes for each byte read from the file; enforced from 10 MB decoded.
        refuse_double: Whether what comes out may not be compressed again.

    Raises:
        InputError: On reading, `bad_compression` for cut or damaged data and for what follows its end, with the place;
            `archive_bomb` at a limit; `double_compression` when what comes out is compressed again.
    """
    if compression is None:
        return path.open("rb")
    file = path.open("rb", buffering=0)
    try:
        mark = _SIGNATURES[compression]
        make = _MEMBERS.get(compression)
        decoder: Decoder = Frames(file, mark) if make is None else Members(file, make, mark)
        decoded = _Decoded(file, decoder, compression, _Limits(shown, max_bytes, max_ratio, refuse_double))
        return io.BufferedReader(decoded, _BUFFER_BYTES)
    except BaseException:
        file.close()
        raise


class _Limits(NamedTuple):
    """What `open_decoded` was told of a file."""

    shown: str
    max_bytes: int
    max_ratio: float
    refuse_double: bool


class _Decoded(io.RawIOBase):
    """Counts what comes out against what went in, and turns faults into the house's error."""

    def __init__(self, file: io.FileIO, decoder: Decoder, compression: Compression, limits: _Limits) -> None:
        self._file = file
        self._decoder = decoder
        self._compression = compression
        self._limits = limits
        self._size = 0
        self._head = b""

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_BUFFER_BYTES) or b"", b""))  # the inherited one reads 8 KiB at a time

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader and `read` pass
        try:
            data = self._decoder.read(len(buffer)) if len(buffer) else b""
        except Fault as fault:
            raise self._damaged(fault.what, fault.at) from None
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk's fault, not the data's
            raise self._damaged(str(error), self._file.tell()) from error
        if self._limits.refuse_double and len(self._head) < HEAD_BYTES:
            self._head = (self._head + data)[:HEAD_BYTES]
            self._check_head()
        self._size += len(data)
        self._check_limits()
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check_head(self) -> None:
        again = detect_compression(self._head)
        if again is not None:
            raise InputError(
                "double_compression",
                self._limits.shown,
                "a file compressed once",
                found=f"{again} data inside {self._compression} data",
                hint="Decode it once by hand.",
            )

    def _check_limits(self) -> None:
        read = self._file.tell()
        if self._size > self._limits.max_bytes:
            expected, found = (
                f"at most {self._limits.max_bytes:,} bytes decoded",
                f"more, from {read:,} bytes of the file",
            )
        elif self._size > max(RATIO_FLOOR_BYTES, self._limits.max_ratio * read):
            expected = f"at most {self._limits.max_ratio:g} bytes for each byte of the file"
            found = f"{self._size:,} bytes from {read:,}"
        else:
            return
        hint = "If the file is to be trusted, decode it by hand and name the decoded file."
        raise InputError("archive_bomb", self._limits.shown, expected, found=found, hint=hint)

    def _damaged(self, what: str, at: int) -> InputError:
        return InputError(
            "bad_compression",
            self._limits.shown,
            f"whole {self._compression} data",
            found=f"{what} (byte {at:,} of the file)",
            hint="Download or compress the file anew.",
        )
