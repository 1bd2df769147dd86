"""Ports for the servers of the tests."""

import socket

_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port of this machine that nobody else is given while the tests run; a server can listen on it."""
    held = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):  # as the server sets one of them
        held.setsockopt(socket.SOL_SOCKET, option, 1)
    held.bind(("127.0.0.1", 0))  # it does not listen, so it is sent no connections
    _HELD.append(held)
    return int(held.getsockname()[1])
