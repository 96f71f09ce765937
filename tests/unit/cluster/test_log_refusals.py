"""A follower's observer: told that a log cannot be read, that it can again, and what is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import ConsoleError, MissingError
from actions.cluster.logs.follow import ContainerEnd, ContainerLog, LogFollower, LogObserver, read_log
from actions.cluster.logs.lines import LogLine
from tests.support.polling import until
from tests.support.virtual import virtually
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.logserver import LogServer, stamped
from tests.unit.cluster.servers import session_to

SOURCE = ContainerLog("work", "p", "main", "u1")
LINES = [stamped(index, f"step {index}") for index in range(10)]
NOT_FOUND = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "the server could not find it"}


class Told(LogObserver):
    def __init__(self) -> None:
        self.said: list[str] = []

    def reading(self) -> None:
        self.said.append("reading")

    def failing(self, error: ConsoleError) -> None:
        self.said.append("failing")

    def lost(self, why: str) -> None:
        self.said.append(why)


class Refusing(LogServer):
    """Refuses logs, or pods, so often."""

    refusals: Iterator[web.Response] = iter(())
    of_pods: Iterator[web.Response] = iter(())
    of_last_lines: Iterator[web.Response] = iter(())

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        refusals = self.refusals if request.path.endswith("/log") else self.of_pods
        if "tailLines" in request.query:
            refusals = self.of_last_lines
        refusal = next(refusals, None)
        return refusal if refusal is not None else await super().__call__(request)


def answers(count: int, **answer: object) -> Iterator[web.Response]:
    for _ in range(count):
        yield web.json_response(answer.get("json"), status=int(str(answer["status"])))


async def followed(folder: Path, server: LogServer) -> tuple[list[LogLine], ContainerEnd, Told, HastyClock]:
    got, told, clock = list[LogLine](), Told(), HastyClock()
    async with session_to(server, folder) as session, asyncio.timeout(60):
        end = await LogFollower(session, SOURCE, on_lines=got.extend, clock=clock, observer=told).run()
    return got, end, told, clock


@pytest.mark.parametrize("status", [404, 400])
async def test_a_log_that_is_not_there_for_a_moment_is_asked_for_again(tmp_path: Path, status: int) -> None:
    server = Refusing(LINES, exit_code=3)
    server.refusals = answers(3, status=status, json={**NOT_FOUND, "code": status})
    got, end, told, _ = await followed(tmp_path, server)
    assert [line.text for line in got] == [f"step {index}" for index in range(10)]
    assert end == ContainerEnd(3, "Completed")
    assert told.said[:4] == ["failing"] * 3 + ["reading"]


async def test_a_log_that_never_comes_back_is_lost(tmp_path: Path) -> None:
    server = Refusing(LINES, exit_code=0)
    server.refusals = answers(1000, status=404, json=NOT_FOUND)
    got, end, told, clock = await followed(tmp_path, server)
    assert end == ContainerEnd(0, "Completed")
    assert told.said[-1] == "the log is not available any more"
    assert [line.text for line in got if line.is_marker] == ["-- the log is not available any more --"]
    assert sum(clock.slept) > 5


@virtually
async def test_a_silence_is_marked_if_the_last_line_is_not_told_either(tmp_path: Path) -> None:
    server = Refusing(LINES, exit_code=None)
    server.of_last_lines = answers(
        2, status=504, json={"kind": "Status", "code": 504, "message": "dial tcp: i/o timeout"}
    )
    got, told = list[LogLine](), Told()
    async with session_to(server, tmp_path) as session:
        follower = LogFollower(
            session, SOURCE, on_lines=got.extend, clock=HastyClock(), silence_seconds=0.1, observer=told
        )
        work = asyncio.create_task(follower.run())
        await until(lambda: told.said[-2:] == ["failing", "reading"], "the stream after the silence")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    assert told.said == ["reading", "failing", "failing", "reading"]
    unknown, known = (line.text for line in got[len(LINES) :])
    assert unknown.startswith("-- whether more was printed is not known: ")
    assert "i/o timeout" in unknown
    assert known == "-- the log can be read again --"


@pytest.mark.parametrize("end", ["", "\n"])
async def test_the_kubelets_only_line_about_a_removed_container_is_no_log(tmp_path: Path, end: str) -> None:
    server = Refusing(LINES, exit_code=0)
    server.refusals = iter(
        [web.Response(text=f"unable to retrieve container logs for containerd://01322d{end}") for _ in range(1000)]
    )
    got, _, told, _ = await followed(tmp_path, server)
    assert told.said[-1] == "the log is not available any more"
    assert [line.text for line in got] == ["-- the log is not available any more --"]


@pytest.mark.parametrize("end", ["", "\n"])
async def test_a_log_that_has_been_removed_is_not_read_as_one(tmp_path: Path, end: str) -> None:
    server = Refusing(LINES)
    server.refusals = iter([web.Response(text=f"unable to retrieve container logs for containerd://01322d{end}")])
    async with session_to(server, tmp_path) as session:
        with pytest.raises(MissingError, match=r"The log of \w+ has been removed\."):
            await read_log(session, SOURCE, previous=True)


async def test_a_404_of_a_proxy_is_no_end_of_a_pod(tmp_path: Path) -> None:
    server = Refusing(LINES)
    server.of_pods = answers(2, status=404, json="default backend - 404")
    got, end, told, _ = await followed(tmp_path, server)
    assert len(got) == 10
    assert end.reason == "Completed"
    assert told.said[:2] == ["failing", "failing"]


async def test_a_server_that_asks_for_a_pause_gets_it(tmp_path: Path) -> None:
    server = Refusing(LINES)
    busy = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 40}}
    server.refusals = answers(1, status=429, json=busy)
    _, _, _, clock = await followed(tmp_path, server)
    assert max(clock.slept) >= 40
