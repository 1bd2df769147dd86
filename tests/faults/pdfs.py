"""PDFs made by hand: object by object, so that what is wrong with one is all that is wrong with it."""

import zlib
from collections.abc import Iterable

FONT = b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"


def pdf(objects: Iterable[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of objects 1, 2, ...; the first is its catalogue."""
    parts, offsets, position = [b"%PDF-1.7\n"], [], 9
    for number, body in enumerate(objects, 1):
        offsets.append(position)
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, body))
        position += len(parts[-1])
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1))
    parts += [b"%010d 00000 n \n" % offset for offset in offsets]
    parts.append(b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(offsets) + 1, trailer, position))
    return b"".join(parts)


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(data), entries, data)


def deflated(data: bytes, times: int = 1) -> bytes:
    """A stream compressed once or several times over."""
    for _ in range(times):
        data = zlib.compress(data, 9)
    return stream(data, b"/Filter[%s]" % (b"/FlateDecode" * times))


def shown(text: str) -> bytes:
    """The drawing of a line of Latin text."""
    return b"BT /F 12 Tf 72 700 Td (%s) Tj ET" % text.encode("latin-1")


def one_page(contents: bytes, catalogue: bytes = b"", more: Iterable[bytes] = (), resources: bytes = FONT) -> bytes:
    """A PDF of one page: objects are catalogue, page tree, page, contents, and `more` from number 5 on."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources%s/Contents 4 0 R>>" % resources
    return pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R%s>>" % catalogue,
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            page,
            contents,
            *more,
        ]
    )


def many_pages(count: int) -> bytes:
    """A PDF of so many pages that share their contents."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources%s/Contents 3 0 R>>" % FONT
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 4 + count))
    return pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count),
            stream(shown("page")),
            *[page] * count,
        ]
    )


def bomb(times: int, size: int) -> bytes:
    """A page whose contents are so many bytes of blanks, compressed several times over."""
    data = _packed_blanks(size)
    for _ in range(times - 1):
        data = zlib.compress(data, 9)
    return one_page(stream(data, b"/Filter[%s]" % (b"/FlateDecode" * times)))


def huge_image(width: int, height: int) -> bytes:
    """A page with one grey image of so many pixels, compressed twice to next to nothing."""
    entries = b"/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/BitsPerComponent 8/Width %d/Height %d" % (
        width,
        height,
    )
    packed = zlib.compress(_packed_blanks(width * height), 9)
    image = stream(packed, entries + b"/Filter[/FlateDecode/FlateDecode]")
    return one_page(stream(b"500 0 0 500 0 0 cm /X Do"), more=[image], resources=b"<</XObject<</X 5 0 R>>>>")


def _packed_blanks(size: int) -> bytes:
    """So many bytes of blanks in whole megabytes, compressed."""
    block = b" " * (1 << 20)
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)  # stands for itself, and may be repeated
    count = size >> 20 << 20
    low, high = 1 + 32 * count, count + 16 * count * (count + 1)  # Adler-32 (RFC 1950) of so many bytes of 32
    checksum = (high % 65_521 << 16) + low % 65_521
    return b"\x78\xda" + packed * (size >> 20) + b"\x03\x00" + checksum.to_bytes(4, "big")
