"""What kwok runs for an exec: passes the command on to the harness, and its streams to and fro.

    shim.py SOCKET NAMESPACE POD CONTAINER COMMAND…

Runs without the project on its path: the standard library only. A frame is a channel (one byte, as in the
remote-command protocol of Kubernetes), a length (four bytes, big endian) and so many bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_HEAD = struct.Struct(">BI")
_PIECE = 32 * 1024


def main() -> int:
    """Run it; the command's exit code."""
    path, namespace, pod, container, *argv = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    is_terminal = os.isatty(0)
    opening = {"namespace": namespace, "pod": pod, "container": container, "argv": argv, "tty": is_terminal}
    connection.sendall(json.dumps(opening).encode() + b"\n")
    if is_terminal:
        tty.setraw(0)
        tell_size(connection)
        signal.signal(signal.SIGWINCH, lambda _number, _frame: tell_size(connection))
    return relay(connection)


def tell_size(connection: socket.socket) -> None:
    """Send the terminal's columns and rows."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    send(connection, RESIZE, json.dumps([columns, rows]).encode())


def send(connection: socket.socket, channel: int, data: bytes) -> None:
    """Send one frame."""
    connection.sendall(_HEAD.pack(channel, len(data)) + data)


def relay(connection: socket.socket) -> int:
    """Pass bytes on until the exit code comes."""
    sources: list[int] = [0, connection.fileno()]
    received = b""
    while True:
        ready, _, _ = select.select(sources, [], [])
        if 0 in ready:
            typed = read_stdin()
            send(connection, STDIN if typed else CLOSE, typed)
            if not typed:
                sources.remove(0)
        if connection.fileno() in ready:
            data = connection.recv(_PIECE)
            if not data:
                return 137
            code, received = take(received + data)
            if code is not None:
                return code


def read_stdin() -> bytes:
    """What is there to read; nothing at its end (a terminal that is hung up fails instead)."""
    try:
        return os.read(0, _PIECE)
    except OSError:
        return b""


def take(received: bytes) -> tuple[int | None, bytes]:
    """Write out whole frames. Returns the exit code, if it has come, and what is left over."""
    while len(received) >= _HEAD.size:
        channel, length = _HEAD.unpack_from(received)
        end = _HEAD.size + length
        if len(received) < end:
            break
        data, received = received[_HEAD.size : end], received[end:]
        if channel == ERROR:
            return int(data), received
        write_all(2 if channel == STDERR else 1, data)
    return None, received


def write_all(target: int, data: bytes) -> None:
    """Write every byte."""
    while data:
        data = data[os.write(target, data) :]


if __name__ == "__main__":
    sys.exit(main())
