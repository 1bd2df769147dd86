"""A request to the guard, read as strictly as a proxy can: what two readers could understand differently is refused."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BARE_IPV6 = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*):([0-9]{1,5})")
_HOP_BY_HOP = {"connection", "keep-alive", "upgrade", "te", "trailer", "expect", "host"}


class Refused(Exception):
    """An answer that the guard gives itself.

    Args:
        status: HTTP status.
        code: Stands for the reason phrase; `egress_blocked`, `host_unresolved`, `connect_failed`, `bad_request`.
        reason: One line for a person.
    """

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code


class ProxyRequest(NamedTuple):
    """Where a connection wants to go, and what is sent there first.

    Args:
        method: `CONNECT` for a tunnel.
        host: Without brackets.
        port: As stated, else 80.
        head: The head as the server gets it; empty for a tunnel.
        body_bytes: Length of the body that follows.
    """

    method: str
    host: str
    port: int
    head: bytes
    body_bytes: int


def parse_request(head: bytes) -> ProxyRequest:
    """The one request of a connection, with its head as the server gets it.

    Raises:
        Refused: 400 for what a well-behaved client never sends.
    """
    line, *fields = head[:-4].decode("latin-1").split("\r\n")
    parts = line.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or re.search(r"[\x00-\x1f\x7f-\xff]", line):
        raise Refused(400, "bad_request", "the request line cannot be read")
    method, target, _ = parts
    if method == "CONNECT":
        # httpx leaves out the brackets; a tunnel's target always ends with a port, so there is one way to read it.
        target = _BARE_IPV6.sub(r"[\1]:\2", target) if _BARE_IPV6.fullmatch(target) else target
    try:
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = url.hostname, url.port or 80
    except ValueError as error:
        raise Refused(400, "bad_request", str(error)) from error
    if not host or "@" in url.netloc or (url.path if method == "CONNECT" else url.scheme != "http"):
        raise Refused(400, "bad_request", "only http:// without credentials, and CONNECT host:port")
    if method == "CONNECT":
        return ProxyRequest(method, host, port, b"", 0)
    kept = [f"Host: {url.netloc}"]
    length = 0
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or re.search(r"[\x00\r\n]", value):
            raise Refused(400, "bad_request", "a header cannot be read")
        if name.lower() == "transfer-encoding":
            raise Refused(400, "bad_request", "a request body needs a length")
        if name.lower() == "content-length":
            if length or not value.strip().isdecimal():
                raise Refused(400, "bad_request", "the length of the body cannot be read")
            length = int(value)
        if name.lower() not in _HOP_BY_HOP and not name.lower().startswith("proxy-"):
            kept.append(field)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
    return ProxyRequest(method, host, port, "\r\n".join(lines).encode("latin-1"), length)
