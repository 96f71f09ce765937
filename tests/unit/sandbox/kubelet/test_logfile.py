"""The log of a container: cut as a runtime cuts it, followed to its end."""

from __future__ import annotations

import asyncio
from itertools import count

from actions.sandbox.kubelet.log_file import LogFile
from actions.sandbox.model.kubelet_api import PodLogOptions

_START_NS = 1_740_423_095_000_000_000


def _a_log(*texts: str, step_ns: int = 1_000_000_000) -> LogFile:
    ticks = count(_START_NS, step_ns)
    log = LogFile(lambda: next(ticks))
    for text in texts:
        log.write(text.encode())
    return log


async def _read(log: LogFile, request: PodLogOptions) -> bytes:
    return b"".join([chunk async for chunk in log.read(request)])


async def test_lines_are_cut_at_newlines_and_a_redraw_is_no_line() -> None:
    log = _a_log("a\nb", "c\n", "\rbar 1\rbar 2")
    assert await _read(log, PodLogOptions()) == b"a\nbc\n"
    log.close()
    assert await _read(log, PodLogOptions(tail_lines=1)) == b"\rbar 1\rbar 2\n"


async def test_a_line_longer_than_the_buffer_is_stored_in_parts_with_one_time() -> None:
    log = _a_log("x" * 40_000 + "\nend\n")
    text = await _read(log, PodLogOptions(timestamps=True))
    assert text.count(b"2025-02-24T") == 2
    assert text.count(b"x") == 40_000


async def test_times_carry_nanoseconds_without_trailing_zeros() -> None:
    text = await _read(_a_log("a\n", "b\n", step_ns=1_500_000), PodLogOptions(timestamps=True))
    assert text == b"2025-02-24T18:51:35Z a\n2025-02-24T18:51:35.0015Z b\n"


async def test_times_rise_even_if_the_clock_stands() -> None:
    text = await _read(_a_log("a\nb\n", step_ns=0), PodLogOptions(timestamps=True))
    assert text == b"2025-02-24T18:51:35Z a\n2025-02-24T18:51:35.000000001Z b\n"


async def test_a_reader_gets_what_it_asked_for() -> None:
    log = _a_log("a\n", "b\n", "c\n")
    assert await _read(log, PodLogOptions(tail_lines=2)) == b"b\nc\n"
    assert await _read(log, PodLogOptions(tail_lines=0)) == b""
    assert await _read(log, PodLogOptions(since_ns=_START_NS + 1_000_000_000)) == b"b\nc\n"
    assert await _read(log, PodLogOptions(limit_bytes=3)) == b"a\nb"


async def test_a_follower_gets_every_line_once_until_the_log_is_closed() -> None:
    log = _a_log("first\n")
    following = asyncio.create_task(_read(log, PodLogOptions(follow=True)))
    for number in range(5):
        await asyncio.sleep(0)
        log.write(f"line {number}\n".encode())
    await asyncio.sleep(0)
    assert not following.done()
    log.close()
    assert await following == b"first\nline 0\nline 1\nline 2\nline 3\nline 4\n"
