"""One green square in each picture format that a browser shows, in a few bytes."""

import base64
import struct

from corpus.making import png

GREEN = (0, 160, 0)
_SIDE = 16

_JPEG = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8X"
    "GBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAAR"
    "CAAQABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAf/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFAEBAAAAAAAAAAAAAAAAAAAA"
    "CP/EABQRAQAAAAAAAAAAAAAAAAAAAAD/2gAMAwEAAhEDEQA/AJIAOQmP/9k="
)
_WEBP = "UklGRj4AAABXRUJQVlA4IDIAAAAQAgCdASoQABAAAMASJaACdLoB+AH6AAPIAP71J1//HMkkbBf8c2/+myeKvGf/UHgAAA=="


def gif(*frames: tuple[int, int, int]) -> bytes:
    """A square that changes its colour every 50 ms for ever; one frame stands still."""
    data = b"GIF89a" + struct.pack("<HHBBB", _SIDE, _SIDE, 0x91, 0, 0)
    data += b"".join(bytes(colour) for colour in frames).ljust(12, b"\0")
    data += b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
    for index in range(len(frames)):
        # A clear code (4) before every two pixels keeps each code of the compression three bits wide.
        codes = [4, index, index] * (_SIDE * _SIDE // 2) + [5]
        packed = sum(code << 3 * place for place, code in enumerate(codes))
        pixels = packed.to_bytes((3 * len(codes) + 7) // 8, "little")
        blocks = [pixels[at : at + 255] for at in range(0, len(pixels), 255)]
        data += b"\x21\xf9\x04\0\x05\0\0\0" + struct.pack("<BHHHHBB", 0x2C, 0, 0, _SIDE, _SIDE, 0, 2)
        data += b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"
    return data + b";"


PICTURES = {
    "png": (png(*GREEN), "image/png"),
    "jpeg": (base64.b64decode(_JPEG), "image/jpeg"),
    "gif": (gif(GREEN), "image/gif"),
    "webp": (base64.b64decode(_WEBP), "image/webp"),
    "svg": (
        b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="200" height="99"><rect width="90" '
        b'height="90" fill="rgb(0,160,0)"/><text x="95" y="20">DRAWN</text><script>document.documentElement.remove()'
        b"</script></svg>",
        "image/svg+xml",
    ),
}
