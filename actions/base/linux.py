"""Calls to Linux that the standard library lacks: the user at the other end of a local connection, and freed memory.

A TCP socket has no `SO_PEERCRED`; the kernel's table of sockets has the user of both ends of a local connection.

Source: Linux `net/ipv4/tcp_ipv4.c` (`get_tcp4_sock`), `net/ipv6/tcp_ipv6.c`;
Documentation/networking/proc_net_tcp.rst; glibc `malloc_trim`(3).
"""

from __future__ import annotations

import ctypes
import socket
import sys
from pathlib import Path

Address = tuple[str, int]
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
_MAPPED = b"\x00" * 10 + b"\xff\xff"
"""Before the address of an IPv4 connection that has been made with an IPv6 socket, as Java does."""


def user_of_peer(peer: Address, own: Address) -> int | None:
    """Return the id of the user who has opened a local TCP connection; `None` if no process holds its other end.

    Args:
        peer: Address and port of the other end.
        own: Address and port of this end.

    Raises:
        OSError: The kernel's table cannot be read.
    """
    packed = [socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host) for host, _ in (peer, own)]
    ports = (peer[1], own[1])
    tables = [(Path("/proc/net/tcp"), packed)] if len(packed[0]) == 4 else []
    wide = [_MAPPED + address if len(address) == 4 else address for address in packed]
    for table, addresses in (*tables, (Path("/proc/net/tcp6"), wide)):
        ends = tuple(f"{_words(address)}:{port:04X}" for address, port in zip(addresses, ports, strict=True))
        for line in _lines(table):
            fields = line.split()
            # the kernel lists a connection that no process holds as root's, without an inode
            if len(fields) > _INODE and (fields[_LOCAL], fields[_REMOTE]) == ends and fields[_INODE] != "0":
                return int(fields[_USER])
    return None


def _lines(table: Path) -> list[str]:
    try:
        return table.read_text(encoding="ascii").splitlines()[1:]
    except FileNotFoundError:
        if table.name == "tcp6":  # a kernel without IPv6
            return []
        raise


def _words(address: bytes) -> str:
    """An address as the kernel prints it: 32 bits at a time, each as a number of this machine."""
    words = (int.from_bytes(address[start : start + 4], sys.byteorder) for start in range(0, len(address), 4))
    return "".join(f"{word:08X}" for word in words)


def release_free_memory() -> None:
    """Have the C library return what is free: after a peak it keeps it, in pieces between what is used.

    Takes milliseconds: for after a rare, large piece of work. Does nothing where the library cannot.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
