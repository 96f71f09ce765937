"""Forty logs at once, their connections cut a thousand times at random bytes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiohttp import web

from actions.cluster.logs.follow import ContainerLog, LogFollower, LogLine
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.logserver import LogServer, stamped
from tests.unit.cluster.servers import session_to

STREAMS = 40
CUTS_A_STREAM = 25
LINES = 200


class Pods:
    """A log server for each pod, by its name."""

    def __init__(self, dice: random.Random) -> None:
        self.servers = {f"p{index}": self._server(f"p{index}", dice) for index in range(STREAMS)}
        self.cuts = 0

    def _server(self, name: str, dice: random.Random) -> LogServer:
        lines = [stamped(index, f"{name} step {index // 3} größe ✓") for index in range(LINES)]
        server = LogServer(lines, exit_code=None, chunk=dice.randint(1, 4000))
        size = len(b"".join(lines))
        places = [dice.randint(0, size) for _ in range(CUTS_A_STREAM)]

        def give() -> Iterator[int]:
            for place in places:
                self.cuts += 1
                yield place
            server.exit_code = 0

        server.cuts = give()
        return server

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        return await self.servers[request.path.split("/")[6]](request)


async def test_a_thousand_cuts_over_forty_logs_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    pods = Pods(random.Random(40))
    got: dict[str, list[LogLine]] = {name: [] for name in pods.servers}
    async with session_to(pods, tmp_path) as session, asyncio.timeout(120):
        followers = [
            LogFollower(session, ContainerLog("work", name, "main", "u1"), on_lines=lines.extend, clock=HastyClock())
            for name, lines in got.items()
        ]
        ends = await asyncio.gather(*(follower.run() for follower in followers))
    assert pods.cuts == STREAMS * CUTS_A_STREAM
    assert {end.exit_code for end in ends} == {0}
    for name, lines in got.items():
        texts = [line.text for line in lines]
        wanted = [f"{name} step {index // 3} größe ✓" for index in range(LINES)]
        assert Counter(texts) == Counter(wanted)
        assert texts == wanted
        assert [line.at_ns for line in lines] == sorted(line.at_ns for line in lines)
