"""The way out through a corporate proxy, for networks that have no other.

The guard still decides first: names and addresses that it knows to be private are refused, and allowed hosts are
dialled directly. A name that only the proxy can resolve is the proxy's to judge.
"""

import asyncio
import base64
import re

from rag_eval_pipeline.corpus.egress.config import EgressConfig, secret
from rag_eval_pipeline.corpus.egress.proxy_request import Refused

_TUNNEL_LIMIT_S = 15.0


def proxy_authorization(config: EgressConfig) -> bytes:
    """The header line that the proxy wants; empty when it wants none.

    Raises:
        InputError: `missing_secret`, `bad_secret`.
    """
    if config.proxy is None or config.proxy_credentials is None:
        return b""
    pair = secret(config.proxy_credentials, "proxy_credentials").encode("latin-1")
    return b"Proxy-Authorization: Basic " + base64.b64encode(pair) + b"\r\n"


async def open_tunnel(
    proxy: tuple[asyncio.StreamReader, asyncio.StreamWriter], host: str, port: int, authorization: bytes
) -> None:
    """Has the proxy make a tunnel of the connection.

    Raises:
        Refused: `connect_failed` with the proxy's own words.
    """
    target = _target(host, port)
    proxy[1].write(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (target, target, authorization))
    try:
        head = await asyncio.wait_for(proxy[0].readuntil(b"\r\n\r\n"), _TUNNEL_LIMIT_S)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise Refused(504, "connect_failed", "the proxy does not answer") from error
    status = head.partition(b"\r\n")[0].decode("latin-1")
    if not re.match(r"HTTP/1\.[01] 2\d\d\b", status):
        raise Refused(502, "connect_failed", f"the proxy says: {status}")


def for_proxy(head: bytes, host: str, port: int, authorization: bytes) -> bytes:
    """A plain request as a proxy reads it: with the whole URL (RFC 9112, 3.2.2)."""
    method, _, rest = head.partition(b" ")
    line, _, fields = rest.partition(b"\r\n")
    return b"%b http://%b%b\r\n%b%b" % (method, _target(host, port), line, authorization, fields)


def _target(host: str, port: int) -> bytes:
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode("latin-1")
