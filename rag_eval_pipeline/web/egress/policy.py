"""The egress policy: which hosts and addresses may be reached.

A host is resolved once, all of its addresses must be public, and the caller dials an address from the answer and never
the name again. Private hosts are allowed by exact host and port, in a settings file and never by data, and only to
documents that come from them or that the file names: a public page cannot show a private one.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from rag_eval_pipeline.web.egress.config import EgressConfig, HostPort, host_port

Resolver = Callable[[str, int], Awaitable[list[str]]]

# `ip_address.is_global` alone is wrong on 13 of 40 hostile addresses (multicast, NAT64, 6to4, ::127.0.0.1, ...).
_REFUSED_NETWORKS = [
    ipaddress.ip_network(network)
    for network in (
        *(
            "0.0.0.0/8",
            "100.64.0.0/10",
            "192.0.0.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
        *("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "3fff::/20", "5f00::/16"),
        *("fc00::/7", "fec0::/10", "ff00::/8"),
    )
]
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa")
_NOWHERE_SUFFIXES = (".invalid", ".onion")  # RFC 6761, RFC 7686: no server may answer for them, so none is asked
_LOOKUPS_AT_ONCE = 16  # a slow name server must not make one host wait for another
_LOOKUP_LIMIT_S = 5.0  # the C library tries for up to 40 s


class EgressBlocked(Exception):
    """The policy refuses a host."""

    code = "egress_blocked"


class HostUnresolved(Exception):
    """A host has no address."""

    code = "host_unresolved"


class HostNowhere(HostUnresolved):
    """A host can have no address anywhere."""


class EgressPolicy:
    """Which addresses a host may be dialled at.

    Args:
        config: Allowed private hosts and limits.
        resolver: Resolves a host and port to addresses; the system's by default.
    """

    def __init__(self, config: EgressConfig | None = None, *, resolver: Resolver | None = None) -> None:
        self.config = config or EgressConfig()
        self._resolve = resolver or system_resolver

    def goes_by_proxy(self, host: str, port: int) -> bool:
        """Whether a host is reached through the corporate proxy; allowed private hosts are reached directly."""
        return self.config.proxy is not None and host_port(host, port) not in self.config.allowed

    def is_allowed(self, host: str, port: int, document: HostPort | None) -> bool:
        """Whether a host is a private one that a document may ask.

        Args:
            host: The host that is asked.
            port: Its port.
            document: The host of the asking document; None for one that the settings do not name.

        Raises:
            EgressBlocked: Only other documents may ask this private host.
        """
        target = host_port(host, port)
        if target not in self.config.allowed:
            return False
        if document is not None and target in self.config.openings.get(document, ()):
            return True
        asking = f"documents from {_written(document)}" if document is not None else "other documents than its own"
        raise EgressBlocked(
            f"{_written(target)} is not open to {asking}; `for` at this host in egress.config.yaml opens it to more"
        )

    async def addresses(self, host: str, port: int, *, document: HostPort | None = None) -> list[str]:
        """Return the addresses to dial, in the resolver's order; never empty. Arguments as for `is_allowed`.

        Raises:
            EgressBlocked: An address is not public, the port is not allowed, or the host is open to others only.
            HostUnresolved: There is no address.
        """
        host, port = host_port(host, port)
        allowed = self.is_allowed(host, port, document)
        if not allowed:
            if port not in self.config.allowed_ports:
                raise EgressBlocked(f"port {port} is not allowed")
            # A corporate proxy may resolve names of its own network, and those have no dot.
            is_bare = self.config.proxy is not None and not re.search(r"[.:]", host)
            if host == "localhost" or host.endswith(_LOCAL_SUFFIXES) or is_bare:
                raise EgressBlocked(f"{host} is a local name")
            if host.endswith(_NOWHERE_SUFFIXES):
                raise HostNowhere(f"{host} is no host of the internet")
        addresses = await self._resolve(host, port)
        if not addresses:
            raise HostUnresolved(f"{host} has no address")
        if not allowed:
            # One bad address refuses all: a name server must not choose which of them is dialled.
            for address in addresses:
                if not is_public(address):
                    raise EgressBlocked(f"{host} has the address {address}, which is not public")
        return addresses


def _written(host: HostPort) -> str:
    return f"[{host.host}]:{host.port}" if ":" in host.host else f"{host.host}:{host.port}"


def is_public(address: str) -> bool:
    """Whether an address is on the internet: not private, local, shared, translated, multicast or reserved."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.scope_id is not None:
            return False
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
    if any(parsed in network for network in _REFUSED_NETWORKS if network.version == parsed.version):
        return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved and not parsed.is_unspecified


async def system_resolver(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver, without repeats; an address resolves to itself.

    Raises:
        HostUnresolved: No answer, or none within 5 s.
    """
    loop = asyncio.get_running_loop()
    lookup = loop.run_in_executor(_lookups, _getaddrinfo, host, port)
    try:
        # Spellings such as 0x7f.1 or 2130706433 are resolved by the C library and judged by what they stand for.
        return await asyncio.wait_for(lookup, _LOOKUP_LIMIT_S)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise HostUnresolved(f"{host} cannot be resolved: {error or 'no answer'}") from error


_lookups = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="lookup")


def _getaddrinfo(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
