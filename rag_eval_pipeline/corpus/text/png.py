"""Pixels as PNG files. Source: Portable Network Graphics (PNG) Specification, third edition."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

_LEVELS = 6  # of red, green and blue each: 216 colours,
_GREYS = 40  # and the rest of the 256 are greys, because most of a printed page is
_GREY_WITHIN = 6  # difference of two channels that the eye takes for grey


def png(pixels: Pixels) -> bytes:
    """A picture as PNG.

    Args:
        pixels: (height, width, 3), red, green, blue.
    """
    return _file(pixels.reshape(len(pixels), -1), pixels.shape[1], colour_type=2)


def small_png(pixels: Pixels) -> bytes:
    """A picture as PNG of 256 fixed colours: a third of the size, and good enough for thumbnails.

    Args:
        pixels: (height, width, 3), red, green, blue.
    """
    wide = pixels.astype(np.int16)
    cube = (wide * (_LEVELS - 1) + 127) // 255
    colour = cube[..., 0] * _LEVELS**2 + cube[..., 1] * _LEVELS + cube[..., 2]
    grey = _LEVELS**3 + (wide[..., 1] * (_GREYS - 1) + 127) // 255
    is_grey = wide.max(axis=2) - wide.min(axis=2) <= _GREY_WITHIN
    indices = np.where(is_grey, grey, colour).astype(np.uint8)
    steps = [round(level * 255 / (_LEVELS - 1)) for level in range(_LEVELS)]
    palette = bytes(value for red in steps for green in steps for blue in steps for value in (red, green, blue))
    palette += bytes(value for level in range(_GREYS) for value in [round(level * 255 / (_GREYS - 1))] * 3)
    return _file(indices, pixels.shape[1], colour_type=3, palette=palette)


def _file(rows: Pixels, width: int, *, colour_type: int, palette: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, len(rows), 8, colour_type, 0, 0, 0)
    unfiltered = np.zeros((len(rows), 1), np.uint8)  # each row says how it is filtered; none is
    data = zlib.compress(np.hstack((unfiltered, rows)).tobytes(), 9)
    chunks = [(b"IHDR", header), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks if data or kind == b"IEND")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
