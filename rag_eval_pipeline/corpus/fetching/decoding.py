"""The decoded body of an answer; a few kilobytes of gzip can stand for gigabytes, so its decoded size is limited."""

import zlib
from collections.abc import AsyncIterator

import httpx

from rag_eval_pipeline.corpus.documents import DocumentError

_CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


class CutShort(Exception):
    """A compressed body that ends before its end."""


async def read_decoded(response: httpx.Response, limit: int) -> bytes:
    """The whole body of an answer.

    Args:
        response: Not read yet.
        limit: Bytes, decoded.

    Raises:
        DocumentError: `body_too_large`, `bad_encoding`.
        CutShort: The compressed body is not whole.
    """
    encoding = str(response.headers.get("content-encoding", "identity")).strip().lower() or "identity"
    if encoding not in {"identity", "gzip", "x-gzip", "deflate"}:
        raise DocumentError("bad_encoding", f"{response.url}: sent as {encoding!r}, which was not asked for")
    chunks = response.aiter_raw(_CHUNK_BYTES)
    data = bytearray()
    try:
        async for part in chunks if encoding == "identity" else _inflated(chunks, limit):
            data += part
            if len(data) > limit:
                raise DocumentError("body_too_large", f"{response.url}: more than {limit:,} bytes")
    except zlib.error as error:
        raise DocumentError("bad_encoding", f"{response.url}: not {encoding}: {error}") from error
    return bytes(data)


async def _inflated(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Gzip or zlib, at most a byte more than the limit at a time; gzip may have several members (RFC 1952, 2.2)."""
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
    begun = False
    async for chunk in chunks:
        while chunk:
            if decoder.eof:
                if not chunk.startswith(_GZIP_MAGIC):
                    return  # padding behind the body, which browsers pass over as well
                decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
            begun = True
            yield decoder.decompress(chunk, limit + 1)
            chunk = decoder.unconsumed_tail or decoder.unused_data
    if begun and not decoder.eof:
        raise CutShort
