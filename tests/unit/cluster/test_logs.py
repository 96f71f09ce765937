"""Following logs: every line once, in order, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import AccessError
from actions.base.line_cutter import MAX_LINE_BYTES, LineCutter
from actions.cluster.logs.batch import read_lines
from actions.cluster.logs.follow import ContainerEnd, ContainerLog, LogFollower, follow, read_log
from actions.cluster.logs.lines import KUBELET_LOG, START, LogCursor, LogLine
from tests.support.polling import until
from tests.support.virtual import virtually
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.logserver import LogServer, stamped
from tests.unit.cluster.servers import session_to

SOURCE = ContainerLog("work", "p", "main", "u1")
IN_ONE_SECOND = [stamped(index, f"step {index}", per_second=200) for index in range(100)]


def _lines(count: int, *, first: int = 0) -> list[bytes]:
    return [stamped(index, f"step {index} größe ✓") for index in range(first, first + count)]


def _texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines if not line.is_marker]


def _markers(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines if line.is_marker]


async def _follow(
    folder: Path, server: LogServer, *, since: LogCursor | None = None
) -> tuple[list[LogLine], ContainerEnd]:
    got: list[LogLine] = []
    async with session_to(server, folder) as session:
        follower = LogFollower(session, SOURCE, on_lines=got.extend, clock=HastyClock(), since=since)
        async with asyncio.timeout(60):
            end = await follower.run()
    return got, end


async def test_a_finished_log_comes_once_and_ends_with_the_exit_code(tmp_path: Path) -> None:
    got, end = await _follow(tmp_path, LogServer(_lines(20), exit_code=3))
    assert _texts(got) == [f"step {index} größe ✓" for index in range(20)]
    assert end == ContainerEnd(3, "Completed")


@pytest.mark.parametrize("seed", range(8))
async def test_cuts_at_random_bytes_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    server = LogServer(_lines(300), exit_code=None, restart_policy="Never", chunk=dice.randint(1, 400))
    size = len(b"".join(server.lines))
    cuts = [dice.randint(0, size) for _ in range(25)]

    def give() -> Iterator[int]:
        yield from cuts
        server.exit_code = 0

    server.cuts = give()
    got, end = await _follow(tmp_path, server)
    assert _texts(got) == [f"step {index} größe ✓" for index in range(300)]
    assert _markers(got) == []
    assert end.exit_code == 0


async def test_a_bar_that_is_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    bar = "".join(f"\rEpoch 0: {step:5d}" for step in range(3000))
    server = LogServer([stamped(0, bar), stamped(1, "after")], exit_code=None, chunk=1000)

    def give() -> Iterator[int]:
        yield from (9_000, 30_000, 12_345, 44_000)
        server.exit_code = 0

    server.cuts = give()
    got, _ = await _follow(tmp_path, server)
    assert "".join(_texts(got)) == bar + "after"
    assert _markers(got) == []


async def test_it_goes_on_from_a_cursor(tmp_path: Path) -> None:
    server = LogServer(_lines(40))
    cursor = START
    for start, end in ((0, 7), (7, 8), (8, 25)):  # two lines share each timestamp, and may come apart
        (batch,) = read_lines([line.rstrip(b"\n") for line in server.lines[start:end]], previous_ns=0)
        cursor = batch.passed_by(cursor)
    got, _ = await _follow(tmp_path, server, since=cursor)
    assert _texts(got) == [f"step {index} größe ✓" for index in range(25, 40)]
    assert cursor.seen == 1


@pytest.mark.parametrize("end", [0, 10, 31, 500, 1333])
async def test_a_last_answer_that_is_cut_short_without_a_word_is_asked_for_again(tmp_path: Path, end: int) -> None:
    lines = [stamped(index, f"step {index}") for index in range(100)]
    got, _ = await _follow(tmp_path, LogServer(lines, ends=iter([end, end + 7])))
    assert _texts(got) == [f"step {index}" for index in range(100)]


@pytest.mark.parametrize("times", [2, 5, 11])
async def test_answers_that_are_cut_at_the_same_place_are_no_end_while_the_last_lines_are_newer(
    tmp_path: Path, times: int
) -> None:
    ends = [end for _ in range(times) for end in (400, None)]  # the question for the last lines is answered whole
    got, _ = await _follow(tmp_path, LogServer(IN_ONE_SECOND, ends=iter(ends)))
    assert _texts(got) == [f"step {index}" for index in range(100)]


async def test_a_log_that_never_comes_whole_is_marked(tmp_path: Path) -> None:
    got, _ = await _follow(tmp_path, LogServer(IN_ONE_SECOND, ends=itertools.cycle([400, None])))
    assert _markers(got) == ["-- the server ends the log before its last lines: lines are missing --"]


async def test_a_last_line_without_a_newline_comes_once_also_when_read_again(tmp_path: Path) -> None:
    lines = [stamped(0, "a"), stamped(1, "b"), stamped(1, "c").rstrip(b"\n")]
    got: list[LogLine] = []
    async with session_to(LogServer(lines), tmp_path) as session, asyncio.timeout(60):
        follower = LogFollower(session, SOURCE, on_lines=got.extend, clock=HastyClock())
        await follower.run()
        await LogFollower(session, SOURCE, on_lines=got.extend, since=follower.cursor, clock=HastyClock()).run()
    assert _texts(got) == ["a", "b", "c"]


async def test_a_live_follower_shows_lines_before_the_end(tmp_path: Path) -> None:
    server = LogServer(_lines(5), exit_code=None)
    got: list[LogLine] = []
    async with session_to(server, tmp_path) as session:
        task = asyncio.create_task(follow(session, SOURCE, on_lines=got.extend, tail_lines=2))
        await until(lambda: len(got) >= 2, "two lines")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert _texts(got) == ["step 3 größe ✓", "step 4 größe ✓"]


async def test_lines_that_the_server_has_dropped_are_marked(tmp_path: Path) -> None:
    server = LogServer(_lines(100), exit_code=None)
    server.cuts = iter([len(b"".join(server.lines[:20]))])
    got: list[LogLine] = []
    async with session_to(server, tmp_path) as session:
        follower = LogFollower(session, SOURCE, on_lines=got.extend, clock=HastyClock())
        task = asyncio.create_task(follower.run())
        async with asyncio.timeout(60):
            await server.began.wait()
        del server.lines[:60]  # at once, before the log is asked for again
        await until(lambda: len(_texts(got)) >= 60, "sixty lines")
        server.exit_code = 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [marker for marker in _markers(got) if "may be missing" in marker]
    assert _texts(got) == [f"step {index} größe ✓" for index in [*range(20), *range(60, 100)]]


async def test_a_restart_brings_the_rest_of_the_container_before(tmp_path: Path) -> None:
    server = LogServer(_lines(30), exit_code=None, restart_policy="OnFailure")

    def give() -> Iterator[int]:
        yield len(b"".join(server.lines[:10]))
        server.previous, server.lines, server.restarts, server.exit_code = server.lines, _lines(10, first=600), 1, 0

    server.previous_cuts = iter([0, 700])
    server.cuts = give()
    got, end = await _follow(tmp_path, server)
    assert _texts(got) == [f"step {index} größe ✓" for index in [*range(30), *range(600, 610)]]
    assert _markers(got) == ["-- container restarted (exit 137, OOMKilled) --"]
    assert got[30].is_marker
    assert end.exit_code == 0


async def test_a_container_that_is_found_restarted_begins_with_the_log_before_its_restart(tmp_path: Path) -> None:
    server = LogServer(_lines(3, first=600), previous=_lines(3), restarts=2, restart_policy="OnFailure")
    got, _ = await _follow(tmp_path, server)
    assert _texts(got) == [f"step {index} größe ✓" for index in [*range(3), *range(600, 603)]]
    assert _markers(got) == ["-- container restarted (exit 137, OOMKilled), 2 times --"]


async def test_of_a_restarted_container_the_last_lines_are_its_own(tmp_path: Path) -> None:
    server = LogServer(_lines(3, first=600), previous=_lines(3), restarts=2, restart_policy="OnFailure")
    got: list[LogLine] = []
    async with session_to(server, tmp_path) as session:
        await follow(session, SOURCE, on_lines=got.extend, clock=HastyClock(), tail_lines=2)
    assert _texts(got) == ["step 601 größe ✓", "step 602 größe ✓"]


async def test_a_pod_that_is_gone_ends_the_log(tmp_path: Path) -> None:
    got, end = await _follow(tmp_path, LogServer(is_gone=True))
    assert got == []
    assert end == ContainerEnd(None, "gone")


async def test_a_log_that_was_cut_before_its_pod_vanished_is_not_known_to_be_read(tmp_path: Path) -> None:
    server = LogServer(_lines(20), exit_code=None, cuts=iter([100]))

    async def vanish() -> None:
        await server.began.wait()
        server.is_gone = True

    got: list[LogLine] = []
    async with session_to(server, tmp_path) as session, asyncio.timeout(60):
        follower = LogFollower(session, SOURCE, on_lines=got.extend, clock=HastyClock())
        vanishing = asyncio.create_task(vanish())
        assert (await follower.run()).reason == "gone"
        await vanishing
    assert len(got) < 20
    assert not follower.is_read


async def test_another_pod_of_the_same_name_is_not_followed(tmp_path: Path) -> None:
    got, end = await _follow(tmp_path, LogServer(_lines(5), uid="another"))
    assert got == []
    assert end.reason == "gone"


@virtually
async def test_a_silent_stream_is_opened_again(tmp_path: Path) -> None:
    server = LogServer(_lines(5), exit_code=None)
    got: list[LogLine] = []
    async with session_to(server, tmp_path) as session:
        follower = LogFollower(session, SOURCE, on_lines=got.extend, clock=HastyClock(), silence_seconds=0.1)
        task = asyncio.create_task(follower.run())
        await until(lambda: len(server.queries) >= 5, "two silences")
        server.exit_code = 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(got) == 5
    resumed = {"container": "main", "timestamps": "true", "follow": "true", "sinceTime": "2026-11-21T10:00:00Z"}
    assert [dict(query) for query in server.queries[1:5]] == [{"container": "main", "tailLines": "1"}, resumed] * 2


async def test_a_container_that_has_not_started_is_waited_for(tmp_path: Path) -> None:
    server = LogServer(_lines(3), exit_code=None)
    looks = 0

    async def not_yet(request: web.Request) -> web.StreamResponse:
        nonlocal looks
        looks += not request.path.endswith("/log")
        if looks < 4 and not request.path.endswith("/log"):
            waiting = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
            return web.json_response(
                {"metadata": {"uid": "u1"}, "status": {"phase": "Pending", "containerStatuses": [waiting]}}
            )
        if looks == 4 and request.path.endswith("/log"):
            server.exit_code = 0
            message = "container main in pod p is waiting to start: ContainerCreating"
            return web.json_response({"code": 400, "reason": "BadRequest", "message": message}, status=400)
        return await server(request)

    got: list[LogLine] = []
    async with session_to(not_yet, tmp_path) as session, asyncio.timeout(60):
        await follow(session, SOURCE, on_lines=got.extend, clock=HastyClock())
    assert len(got) == 3
    assert [(query.get("sinceTime"), query.get("tailLines")) for query in server.queries] == [(None, None), (None, "2")]


async def test_no_right_to_read_logs_is_an_error(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"code": 403, "message": "pods is forbidden"}, status=403)

    async with session_to(refuse, tmp_path) as session:
        with pytest.raises(AccessError, match="pods is forbidden"):
            await follow(session, SOURCE, on_lines=lambda _: None)


async def test_reading_waits_for_a_slow_reader(tmp_path: Path) -> None:
    at_once = most = 0

    async def slow(lines: Sequence[LogLine]) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    async with session_to(LogServer(_lines(2000)), tmp_path) as session:
        await follow(session, SOURCE, on_lines=slow, clock=HastyClock())
    assert most == 1


async def test_a_log_is_read_as_it_is(tmp_path: Path) -> None:
    server = LogServer([*_lines(5), stamped(5, "no newline").rstrip(b"\n")], exit_code=None)
    async with session_to(server, tmp_path) as session:
        lines = await read_log(session, SOURCE, tail_lines=2)
    assert _texts(lines) == ["step 4 größe ✓", "no newline"]


def _read(line: bytes, *, previous_ns: int = 0) -> LogLine:
    ((read,),) = read_lines([line], previous_ns=previous_ns)
    return read


def test_lines_are_cut_out_of_chunks_that_end_anywhere() -> None:
    whole = b"one\ntwo\rthree\n\nfour"
    for size in range(1, len(whole) + 1):
        cutter = LineCutter(KUBELET_LOG)
        lines = [line for at in range(0, len(whole), size) for line in cutter.feed(whole[at : at + size])]
        assert [*lines, *cutter.finish()] == [b"one", b"two\rthree", b"", b"four"]


def test_a_bar_without_newlines_is_cut_at_the_same_places_however_it_arrives() -> None:
    bar = b"".join(f"\rEpoch 0: {step:5d}/9999 loss={step / 7:.6f}".encode() for step in range(2000))
    whole = b"2026-11-21T10:00:00.5Z start" + bar + b"\n2026-11-21T10:00:01Z next\n"
    at_once = LineCutter(KUBELET_LOG).feed(whole)
    assert len(at_once) > 10
    lines = [line for batch in read_lines(at_once, previous_ns=0) for line in batch]
    assert "".join(line.text for line in lines) == "start" + bar.decode() + "next"
    assert {line.at_ns for line in lines[:-1]} == {lines[0].at_ns}
    assert not any(line.is_marker for line in lines)
    for size in (1, 7, 4095, 4096, 4097, 30_000):
        cutter = LineCutter(KUBELET_LOG)
        assert [line for at in range(0, len(whole), size) for line in cutter.feed(whole[at : at + size])] == at_once


def test_a_bar_is_shown_before_its_line_ends() -> None:
    cutter = LineCutter(KUBELET_LOG)
    assert cutter.feed(b"2026-11-21T10:00:00Z " + b"\r10%" * 2000)


def test_a_line_of_many_megabytes_is_cut_and_says_so() -> None:
    cutter = LineCutter(KUBELET_LOG)
    for _ in range(50):
        assert cutter.feed(b"x" * 100_000) == []
    (line,) = cutter.feed(b"\n")
    assert line.startswith(b"x" * MAX_LINE_BYTES)
    assert line.endswith(f"(+{5_000_000 - MAX_LINE_BYTES} bytes)".encode())
    assert cutter.feed(b"short\n") == [b"short"]


def test_a_line_keeps_its_carriage_returns_and_colours_and_nothing_else() -> None:
    line = _read(b"2026-11-21T10:00:00.5Z 10%\r\x1b[32m20%\x1b[0m\x1b]0;title\x07 \xff")
    assert line.text == "10%\r\x1b[32m20%\x1b[0m �"
    assert line.at_ns == 1_795_255_200_500_000_000


def test_a_timestamp_with_an_offset_is_the_same_moment() -> None:
    utc = _read(b"2026-11-21T10:00:00.000000001Z x")
    assert _read(b"2026-11-21T11:30:00.000000001+01:30 x") == utc


def test_a_line_without_a_timestamp_is_a_marker() -> None:
    line = _read(b"failed to create fsnotify watcher: too many open files", previous_ns=7)
    assert (line.at_ns, line.is_marker) == (7, True)


async def test_a_log_from_a_time_on_has_no_gap_before_it(tmp_path: Path) -> None:
    since = read_lines([stamped(100, "x").rstrip(b"\n")], previous_ns=0)[0].first_ns
    got, _ = await _follow(tmp_path, LogServer(_lines(200)), since=LogCursor(since - 1, 0))
    assert _texts(got) == [f"step {index} größe ✓" for index in range(100, 200)]
    assert _markers(got) == []
