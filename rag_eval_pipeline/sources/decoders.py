"""Decoders of compressed data: members or frames one after another, in pieces no larger than asked for."""

import io
import re
import zlib
from collections.abc import Callable
from typing import Protocol

HEAD_BYTES = 10  # what a mark has to see of a member or frame

_READ_BYTES = 1 << 18


class Decoder(Protocol):
    """A source of decoded bytes."""

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none only at the end."""


class Fault(Exception):
    """What is wrong with the data, and at which byte of the file."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


class Decompressor(Protocol):
    """What `bz2` and `lzma` offer, and `GzipMember` for `zlib`."""

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes without further bytes."""

    @property
    def unused_data(self) -> bytes:
        """What followed the member's end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next bytes."""


class GzipMember:
    """A member of gzip, with its checksum and length verified at its end; see `Decompressor`."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: header, checksum and length are gzip's

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes without further bytes."""
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What followed the member's end."""
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next bytes."""
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)


class Members:
    """Members of gzip, bzip2 or xz one after another; NULs may follow, as tapes and block devices leave them."""

    def __init__(self, file: io.FileIO, new_member: Callable[[], Decompressor], mark: re.Pattern[bytes]) -> None:
        self._file = file
        self._new_member = new_member
        self._mark = mark
        self._member: Decompressor | None = None
        self._input = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none only at the end.

        Raises:
            Fault: The data is cut short, or something else follows a member.
        """
        while True:
            if self._member is None or self._member.eof:
                rest = b"" if self._member is None else self._member.unused_data
                if not self._begin(rest, first=self._member is None):
                    return b""
            assert self._member is not None
            data = b""
            if hungry := self._member.needs_input:
                data, self._input = self._input or self._file.read(_READ_BYTES) or b"", b""
            decoded = self._member.decompress(data, size)
            if decoded:
                return decoded
            if hungry and not data and not self._member.eof:
                raise Fault("the data is cut short", self._file.tell())

    def _begin(self, rest: bytes, *, first: bool) -> bool:
        """Starts the next member; False when there is none."""
        if not first:
            rest = rest.lstrip(b"\0")
        while len(rest) < HEAD_BYTES:
            more = self._file.read(_READ_BYTES)
            if not more:
                break
            rest = rest + more if rest or first else more.lstrip(b"\0")
        if not rest and not first:
            return False
        if not self._mark.match(rest):
            what = f"the data begins with {rest[:8]!r}" if first else f"after the end of the data stands {rest[:8]!r}"
            raise Fault(what, self._file.tell() - len(rest))
        self._input = rest
        self._member = self._new_member()
        return True


class Frames:
    """Frames of zstandard, read by Arrow: Python 3.11 has no decoder of its own.

    Measured with pyarrow 26: frames one after another, empty and skippable ones are read; 1 GiB from 33 KB takes
    0.15 s within 71 MB of memory; cut data, and anything but a frame after a frame, is an error.
    """

    def __init__(self, file: io.FileIO, mark: re.Pattern[bytes]) -> None:
        import pyarrow as pa

        head = file.read(HEAD_BYTES) or b""
        self._fault = None if mark.match(head) else Fault(f"the data begins with {head[:8]!r}", 0)
        file.seek(0)
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none only at the end.

        Raises:
            Fault: The data is something else from its first byte.
        """
        if self._fault is not None:
            raise self._fault
        data: bytes = self._stream.read(size)
        return data
