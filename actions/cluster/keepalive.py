"""Connections whose other side is gone without a word, found out by the kernel."""

from __future__ import annotations

import socket
from contextlib import suppress

_PROBES = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2))
"""Seconds of silence before the first probe, seconds between two, probes without an answer: 9 s in all."""


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel end a connection whose other side does not answer it for 9 s."""
    with suppress(OSError):  # no TCP, as in tests
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, amount in _PROBES:
            option = getattr(socket, name, None)  # other systems have other names
            if option is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, amount)
