"""The egress policy: which hosts and addresses may be reached, and its settings in `data/config/egress.config.yaml`.

A host is resolved once, all of its addresses must be public, and the caller dials an address from the answer and never
the name again. Private hosts are allowed by exact host and port, in a settings file and never by data, and only to
documents that come from them or that the file names: a public page cannot show a private one.
"""

import asyncio
import ipaddress
import os
import re
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import read_model
from rag_eval_pipeline.web.server_settings import HOST_PORT, VARIABLE_NAME, ProxyAddress, is_free_header
from rag_eval_pipeline.web.tls import authorities

_PORTS = {"http": 80, "https": 443}


class HostPort(NamedTuple):
    """A host in lower case, without brackets, and a port."""

    host: str
    port: int


class AllowedHost(BaseModel):
    """An entry of `allowed_hosts`: `host:port` alone, or `{host: host:port, for: [host:port, ...]}`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    host: str = Field(description="Private host as exact `host:port`. Documents that come from it may ask it for more.")
    for_: tuple[str, ...] = Field(
        default=(),
        alias="for",
        description="Further hosts, each as exact `host:port`: documents that come from them may also ask this host.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"host": value} if isinstance(value, str) else value

    @field_validator("host", "for_")
    @classmethod
    def _exact(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for entry in (value,) if isinstance(value, str) else value:
            if not HOST_PORT.fullmatch(entry):
                raise ValueError(f"{entry!r} is not an exact host:port")
        return value


class EgressConfig(BaseModel):
    """`data/config/egress.config.yaml`."""

    # The text of an error that becomes the cause of ours must not show a secret in the wrong place.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    allowed_hosts: tuple[AllowedHost, ...] = Field(
        default=(),
        description="Private hosts that documents may come from, each as exact `host:port`; none by "
        "default. A host is open only to documents that come from it, whatever other documents embed or redirect "
        "to; `{host: host:port, for: [host:port, ...]}` also opens it to documents from the hosts under `for`.",
    )
    allowed_ports: tuple[int, ...] = Field(
        default=(80, 443, 8080, 8443), description="Ports of public hosts that may be asked; others are refused."
    )
    max_redirects: int = Field(default=5, ge=0, le=20, description="Redirects that a document may take to its body.")
    max_body_bytes: int = Field(
        default=100_000_000,
        gt=0,
        description="Maximum size of a decoded body; a larger one is rejected (`body_too_large`).",
    )
    fetch_limit_s: float = Field(
        default=30.0, gt=0, description="Time limit for one attempt to fetch a document, including redirects and body."
    )
    page_load_limit_s: float = Field(
        default=15.0,
        gt=0,
        description="Time limit for a page to load; a slower page is printed as far as it has loaded.",
    )
    attempts: int = Field(default=3, ge=1, le=10, description="Attempts at a busy or broken server.")
    host_requests: int = Field(default=4, ge=1, le=64, description="Concurrent requests for documents to one host.")
    host_delay_s: float = Field(
        default=0.0, ge=0, le=3600, description="Minimum seconds between two requests for documents to one host."
    )
    credentials: dict[str, dict[str, str]] = Field(
        default={},
        description="Headers by origin (such as `https://wiki.example.com`), each with the name of the "
        "environment variable that holds its value. They are sent only to this scheme, host "
        "and port.",
    )
    proxy: ProxyAddress | None = Field(
        default=None,
        description="Corporate proxy as `host:port`, through which public hosts are reached; allowed hosts never are.",
    )
    proxy_resolves: bool = Field(
        default=False,
        description="Whether hosts that this machine cannot resolve are left to `proxy`, unchecked. Only for a proxy "
        "that itself refuses private addresses.",
    )
    proxy_credentials: str | None = Field(
        default=None, description="Environment variable with the proxy's `user:password`."
    )
    ca_file: str | None = Field(
        default=None,
        description="PEM file with the certificates of a company's own authorities, relative to this file's folder. "
        "They are trusted in addition to the usual ones when documents are fetched and sources "
        "downloaded, and by the browser when it loads parts of pages, which on Linux needs `certutil` (apt "
        "package libnss3-tools); "
        "elsewhere the browser uses the machine's keychain.",
    )
    allow_no_sandbox: bool = Field(
        default=False,
        description="Whether pages from URLs may be rendered where the browser's sandbox cannot be used.",
    )

    @field_validator("credentials")
    @classmethod
    def _credentials(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for entry, headers in value.items():
            if origin_of(entry) is None or urlsplit(entry).path not in {"", "/"}:
                raise ValueError(f"{entry!r} is not an origin such as https://wiki.example.com")
            for header, variable in headers.items():
                if not is_free_header(header):
                    raise ValueError(f"{header!r} cannot be sent as a header of credentials")
                if not VARIABLE_NAME.fullmatch(variable):
                    raise ValueError(
                        f"the value of {header} is not the name of an environment variable; secrets do not belong "
                        "in this file"
                    )
        return {str(origin_of(entry)): headers for entry, headers in value.items()}

    @property
    def openings(self) -> dict[HostPort, frozenset[HostPort]]:
        """Maps the host of a document to the private hosts that the document may ask."""
        openings: dict[HostPort, frozenset[HostPort]] = {}
        for entry in self.allowed_hosts:
            host = _parsed(entry.host)
            for document in (host, *(_parsed(other) for other in entry.for_)):
                openings[document] = openings.get(document, frozenset()) | {host}
        return openings

    @property
    def allowed(self) -> frozenset[HostPort]:
        """The private hosts."""
        return frozenset(_parsed(entry.host) for entry in self.allowed_hosts)


def read_egress_config(path: Path) -> EgressConfig:
    """Read the settings; the defaults if there is no file.

    Raises:
        InputError: `bad_yaml`, `bad_format`, `bad_ca_file`.
    """
    config = read_model(EgressConfig, path)
    if config.ca_file is None:
        return config
    ca_file = path.parent / config.ca_file
    authorities(ca_file)  # refused before anything is requested
    return config.model_copy(update={"ca_file": str(ca_file)})


def origin_of(url: str) -> str | None:
    """Return scheme, host and port of an http or https URL in one spelling; None if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or port is None or "@" in parts.netloc:
        return None
    host = host_port(parts.hostname, port).host
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def read_secret(variable: str, setting: str) -> str:
    """Return the value of an environment variable that the settings name."""
    value = os.environ.get(variable)
    if not value:
        hint = "Set it where the pipeline runs; secrets themselves do not belong in files."
        raise InputError(
            "missing_secret", "egress.config.yaml", f"the environment variable {variable}", field=setting, hint=hint
        )
    if re.search(r"[\x00-\x1f\x7f]|[^\x00-\xff]", value):
        raise InputError("bad_secret", "egress.config.yaml", f"{variable} as Latin-1 text in one line", field=setting)
    return value


def host_of(url: str) -> HostPort | None:
    """Return host and port of an http or https URL; None if it has none."""
    origin = origin_of(url)
    return None if origin is None else _parsed(origin.partition("://")[2])


def _parsed(entry: str) -> HostPort:
    return host_port(*entry.rsplit(":", 1))


def host_port(host: str, port: str | int) -> HostPort:
    """Return a host and a port in the form that is compared."""
    return HostPort(host.strip("[]").rstrip(".").lower(), int(port))


Resolver = Callable[[str, int], Awaitable[list[str]]]

# `ip_address.is_global` alone is wrong on 13 of 40 hostile addresses (multicast, NAT64, 6to4, ::127.0.0.1, ...).
_REFUSED_NETWORKS = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # Azure's own endpoint, which only its machines reach; by its number it is public
        "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "3fff::/20", "5f00::/16",
        "fc00::/7", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip
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
    """Which addresses a host may be dialled at; `resolver` is the system's by default."""

    def __init__(self, config: EgressConfig | None = None, *, resolver: Resolver | None = None) -> None:
        self.config = config or EgressConfig()
        self._resolve = resolver or system_resolver

    def goes_by_proxy(self, host: str, port: int) -> bool:
        """Whether a host is reached through the corporate proxy; allowed private hosts are reached directly."""
        return self.config.proxy is not None and host_port(host, port) not in self.config.allowed

    def is_allowed(self, host: str, port: int, document: HostPort | None) -> bool:
        """Whether a host is a private one that a document may request.

        Args:
            document: The host of the requesting document; None for one that the settings do not name.

        Raises:
            EgressBlocked: Only other documents may request this private host.
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
            allow = f'; add "{_written(HostPort(host, port))}" to allowed_hosts in data/config/egress.config.yaml'
            if port not in self.config.allowed_ports:
                raise EgressBlocked(f"port {port} is not allowed{allow}")
            # A corporate proxy may resolve names of its own network, and those have no dot.
            is_bare = self.config.proxy is not None and not re.search(r"[.:]", host)
            if host == "localhost" or host.endswith(_LOCAL_SUFFIXES) or is_bare:
                raise EgressBlocked(f"{host} is a local name{allow}")
            if host.endswith(_NOWHERE_SUFFIXES):
                raise HostNowhere(f"{host} is no host of the internet")
        addresses = await self._resolve(host, port)
        if not addresses:
            raise HostUnresolved(f"{host} has no address")
        if not allowed:
            # One bad address refuses all: a name server must not choose which of them is dialled.
            for address in addresses:
                if not is_public(address):
                    raise EgressBlocked(f"{host} has the address {address}, which is not public{allow}")
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
    """Resolve a host with the system's resolver, without repeats; an address resolves to itself."""
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
