"""Uploads as HTTP clients send them: the parts of a multipart/form-data body.

A file's name is taken as it stands: `%22`, which clients write for a quotation mark, is not decoded, because the
servers that are stood in for do not decode it either.
"""

import re
from email.message import Message
from typing import NamedTuple

_BOUNDARY = re.compile(r'boundary=(?:"([^"]+)"|([^\s;]+))', re.IGNORECASE)
_DISPOSITION = re.compile(rb"(?im)^content-disposition:[ \t]*(form-data.*?)\r?$")


class Part(NamedTuple):
    """One part; `filename` is None for a field that is no file."""

    name: str
    filename: str | None
    content: bytes


def parts_of(body: bytes, content_type: str) -> list[Part]:
    """The parts in order.

    Raises:
        ValueError: It is no multipart/form-data, or its end is missing.
    """
    boundary = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or boundary is None:
        raise ValueError("a multipart/form-data body is wanted")
    mark = b"--" + (boundary[1] or boundary[2]).encode("latin-1")
    parts: list[Part] = []
    position = body.find(mark)
    while position >= 0:
        begin = position + len(mark)
        if body[begin : begin + 2] == b"--":
            return parts
        position = body.find(b"\r\n" + mark, begin)
        if position < 0:
            break
        head, _, content = body[begin + 2 : position].partition(b"\r\n\r\n")
        parts.append(_part(head, content))
        position += 2
    raise ValueError("the end of the multipart body is missing")


def _part(head: bytes, content: bytes) -> Part:
    disposition = _DISPOSITION.search(head)
    if disposition is None:
        raise ValueError("a part without a form-data disposition")
    message = Message()
    message["content-disposition"] = disposition[1].decode("latin-1")
    found = {str(name).lower(): str(value) for name, value in message.get_params([], "content-disposition")}
    if "name" not in found:
        raise ValueError("a part without a name")
    return Part(_text(found["name"]), _text(found["filename"]) if "filename" in found else None, content)


def _text(value: str) -> str:
    return value.encode("latin-1").decode("utf-8", "surrogateescape")
