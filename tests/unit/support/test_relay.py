"""The relay of schedules leaves no socket behind it."""

from __future__ import annotations

import gc
import socket
import time
import warnings
from functools import partial

from tests.schedules.partition import Relay
from tests.support.polling import wait

_PIECE = b"x" * (1 << 13)
_PAUSE_SECONDS = 0.002
_MOST_PIECES = 10_000


def test_a_relay_that_ends_closes_a_connection_whose_last_bytes_are_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", relay.port)) as near:
            far, _ = listener.accept()
            with far:
                for _ in range(_MOST_PIECES):
                    if any(writer.transport.get_write_buffer_size() for writer in list(relay._open)):
                        break
                    far.sendall(_PIECE)
                    time.sleep(_PAUSE_SECONDS)  # in which the relay takes it
                near.shutdown(socket.SHUT_WR)
                assert far.recv(1) == b""
            wait(partial(_are_closing, relay), "the end of both sides")
            relay.end()
            del relay
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                gc.collect()


def _are_closing(relay: Relay) -> bool:
    return all(writer.transport.is_closing() for writer in list(relay._open))
