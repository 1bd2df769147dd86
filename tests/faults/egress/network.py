"""A network of its own in which every address of the internet is this machine, and each attempt at one is counted.

Linux delivers all addresses to the loopback device of the namespace (`ip route add local default dev lo`): a request
that a guard lets through arrives, at 169.254.169.254 as at fd00:ec2::254, whatever its port.
"""

import asyncio
import contextlib
import ipaddress
import socket
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.patience import PATIENCE_S

_OUTGOING = 4  # PACKET_OUTGOING: the loopback device shows every packet twice
_ALL_PROTOCOLS = 3
_SYN, _ACK = 0x02, 0x10
_PAIR = "link add away type veth peer name far"  # WebRTC sends nothing by a loopback device alone
_SENTINEL = ("203.0.113.9", 9)


def command() -> list[str] | None:
    """Return the command that runs another one in such a namespace; None without the rights."""
    ways = (["unshare", "--net"], ["unshare", "--user", "--map-current-user", "--keep-caps", "--net"])
    for way in ways:
        with contextlib.suppress(OSError):
            if (
                subprocess.run([*way, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode
                == 0
            ):
                return way
    return None


def open_network() -> None:
    """Make every address of this namespace one of this machine's."""
    devices = ("link set lo up", _PAIR, "link set away up", "link set far up")
    addresses = (
        "addr add 192.168.7.2/24 dev away",
        "route add local 0.0.0.0/0 dev lo",
        "-6 route add local ::/0 dev lo",
    )
    for arguments in (*devices, *addresses):
        subprocess.run(["ip", *arguments.split()], check=True)


class Attempt(NamedTuple):
    """A TCP connection that was tried, or a UDP datagram."""

    protocol: str
    address: str
    port: int


class Sniffer:
    """Counts attempts, of every process in the namespace and at every address and port."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS))
        self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), 256 << 20)
        self._socket.bind(("lo", 0))
        self._seen: Counter[Attempt] = Counter()
        self._arrived = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> Counter[Attempt]:
        """Return what was tried since the last call, everything up to now included."""
        self._arrived.clear()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", _SENTINEL)  # packets are seen in their order
        if not self._arrived.wait(PATIENCE_S):
            raise RuntimeError("the packet socket sees nothing")
        seen, self._seen = self._seen, Counter()
        return seen

    def _read(self) -> None:
        while True:
            data, address = self._socket.recvfrom(128)
            if address[2] != _OUTGOING or (attempt := _attempt(data)) is None:
                continue
            if attempt == Attempt("udp", *_SENTINEL):
                self._arrived.set()
            else:
                self._seen[attempt] += 1


def _attempt(packet: bytes) -> Attempt | None:
    """Parse an IP packet; None for what continues a connection, and for the network's own messages."""
    if packet[0] >> 4 == 4:
        protocol, target, rest = packet[9], packet[16:20], packet[(packet[0] & 15) * 4 :]
    else:
        protocol, target, rest = packet[6], packet[24:40], packet[40:]
    if protocol not in {socket.IPPROTO_TCP, socket.IPPROTO_UDP}:
        return None
    if protocol == socket.IPPROTO_TCP and rest[13] & (_SYN | _ACK) != _SYN:
        return None
    name = "tcp" if protocol == socket.IPPROTO_TCP else "udp"
    return Attempt(name, str(ipaddress.ip_address(target)), int.from_bytes(rest[2:4], "big"))


class NameServer(asyncio.DatagramProtocol):
    """Answers for the names of a table, at the address that /etc/resolv.conf names.

    Args:
        table: Name -> addresses. A name that begins with `flips-` has its first address once, and then the others; one
            that begins with `alias-` has them by another name.
    """

    def __init__(self, table: dict[str, list[str]]) -> None:
        self.asked: Counter[str] = Counter()
        self._table = table

    @staticmethod
    def address() -> tuple[str, int]:
        settings = Path("/etc/resolv.conf")
        lines = settings.read_text(encoding="utf-8").splitlines() if settings.exists() else []
        named = [line.split()[1] for line in lines if line.startswith("nameserver ")]
        return (named[0] if named else "127.0.0.1", 53)

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        name, question = _question(data)
        kind = int.from_bytes(question[-4:-2], "big")
        owner = b"\xc0\x0c"  # the name in the question
        records = [owner + record for record in self._records(name, kind)]
        if name.startswith("alias-"):
            other = b"\x05other\x04test\x00"
            cname = owner + struct.pack(">HHIH", 5, 1, 0, len(other)) + other
            records = [cname, *(record.replace(owner, other, 1) for record in records)]
        code = 0 if name in self._table else 3  # NXDOMAIN
        head = data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        self._transport.sendto(head + question + b"".join(records), address)

    def _records(self, name: str, kind: int) -> Iterator[bytes]:
        addresses = self._table.get(name, [])
        if kind == 1:
            self.asked[name] += 1
            if name.startswith("flips-"):
                addresses = addresses[:1] if self.asked[name] == 1 else addresses[1:]
        for address in addresses:
            version = {1: 4, 28: 6}.get(kind)
            if ipaddress.ip_address(address).version == version:
                packed = ipaddress.ip_address(address).packed
                yield struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed


def _question(query: bytes) -> tuple[str, bytes]:
    """Return the name that is asked for, and the question as it came."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("latin-1").lower())
        at += 1 + query[at]
    return ".".join(labels), query[12 : at + 5]
