"""Loop time that jumps must not outrun what really happens: sockets of the same loop, and its threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

from tests.support.leftover import StartCounter
from tests.support.virtual import VirtualClock, run_virtually, virtually

_AN_HOUR = 3600.0


@virtually
async def test_an_hour_takes_no_time_and_both_clocks_show_it() -> None:
    clock, begun = VirtualClock(), time.monotonic()
    wall, loop = clock.now(), clock.monotonic()
    await clock.sleep(_AN_HOUR)
    assert (clock.now() - wall).total_seconds() >= _AN_HOUR - 1e-3
    assert clock.monotonic() - loop >= _AN_HOUR
    assert time.monotonic() - begun < _AN_HOUR / 10


@virtually
async def test_time_stands_still_while_a_thread_works_and_bytes_are_on_the_way() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    loop, goes_on = asyncio.get_running_loop(), threading.Event()
    begun = loop.time()
    waiting = asyncio.to_thread(goes_on.wait, 30.0)
    async with asyncio.timeout(_AN_HOUR):
        threading.Timer(0.05, goes_on.set).start()
        assert await waiting
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"there and back\n")
        assert await reader.readline() == b"there and back\n"
        writer.close()
        server.close()
    assert loop.time() == begun


def test_a_program_that_was_started_is_counted() -> None:
    counter = StartCounter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert counter.count == 1


def test_without_sockets_nothing_outside_is_waited_for() -> None:
    assert run_virtually(asyncio.sleep(_AN_HOUR, "slept")) == "slept"
