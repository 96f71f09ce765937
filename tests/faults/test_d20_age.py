"""D20, F23: *live* has had a sign of life within ten seconds, and the age of what is not goes on counting."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web

import actions.cluster.http.stream
from actions.base.errors import UnreachableError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.stream import keep_alive
from actions.cluster.watch.health import Health
from actions.cluster.watch.liveness import ANSWER_SECONDS, QUIET_SECONDS, ServerLiveness, probe_liveness
from actions.cluster.watch.reflector import Reflector
from tests.faults.hostile import Request, good, hostile
from tests.support.answering import write_kubeconfig
from tests.support.virtual import run_virtually
from tests.unit.cluster.clocks import HandClock
from tests.unit.cluster.faults import page, stream, text
from tests.unit.cluster.reflecting import Mirror
from tests.unit.cluster.servers import session_to
from tui.app import ConsoleApp
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.feeds.ticker import Ticker
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

LIVE_AT_MOST_SECONDS = 10.0
LATE_SECONDS = 3.0
"""That a busy machine may be, beside the longest pause between two looks at the screen, in which all stood still."""
_ON_TIME_SECONDS = 0.5
"""Between two looks, of which the second one sees the next second at the latest."""


class LoopClock:
    """The loop's own time."""

    def now(self) -> datetime:
        return datetime(2026, 11, 22, 10, tzinfo=UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Asked:
    """Stands for the session: gives signs of life for as long as a test wants."""

    def __init__(self) -> None:
        self.answers = True
        self.asked_at: list[float] = []

    async def ping(self, *, deadline_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.asked_at.append(loop.time())
        if not self.answers:
            await asyncio.sleep(deadline_seconds)
            raise UnreachableError("nobody answers")


def _virtually(scene: Callable[[Asked, ServerLiveness, list[tuple[float, bool]]], Awaitable[None]]) -> None:
    async def play() -> None:
        asked, told = Asked(), list[tuple[float, bool]]()
        loop = asyncio.get_running_loop()
        liveness = ServerLiveness(LoopClock(), lambda: told.append((loop.time(), liveness.is_silent)))
        checking = asyncio.create_task(
            probe_liveness(asked, liveness, clock=LoopClock(), is_wanted=lambda: True)  # type: ignore[arg-type]
        )
        await scene(asked, liveness, told)
        checking.cancel()

    run_virtually(play())


def test_d20_a_silent_server_is_found_out_within_ten_seconds() -> None:
    async def scene(asked: Asked, liveness: ServerLiveness, told: list[tuple[float, bool]]) -> None:
        for _ in range(100):  # a lively stream: nobody asks
            liveness.mark_alive()
            await asyncio.sleep(1.37)
        assert asked.asked_at == []
        last = liveness.heard_at
        asked.answers = False
        await asyncio.sleep(60)
        found_at, is_silent = told[0]
        assert is_silent
        assert found_at - last < LIVE_AT_MOST_SECONDS
        assert liveness.heard_at == last
        asked.answers = True
        await asyncio.sleep(QUIET_SECONDS + ANSWER_SECONDS)
        assert told[-1][1] is False
        assert len(told) == 2

    _virtually(scene)


def test_d20_a_quiet_server_is_asked_seldom_and_stays_live() -> None:
    async def scene(asked: Asked, liveness: ServerLiveness, told: list[tuple[float, bool]]) -> None:
        await asyncio.sleep(3600)
        assert told == []
        assert len(asked.asked_at) <= 3600 / QUIET_SECONDS

    _virtually(scene)


def test_d20_ages_on_screen_are_painted_when_they_change() -> None:
    async def watch() -> list[str]:
        shown: list[str] = []
        loop = asyncio.get_running_loop()
        health = FeedHealth(FeedState.WAITING, "gone", since=-7.25)

        def paint() -> None:
            shown.append(health.label(loop.time()))
            again = health.changes_in(loop.time())
            assert again is not None
            ticker.request_paint_in(again)
            ticker.request_paint_in(again + 5)  # another pane, whose age changes later

        ticker = Ticker(paint, interval_seconds=0.25)
        ticker.request_paint()
        await asyncio.sleep(5.1)
        ticker.stop()
        await asyncio.sleep(60)
        return shown

    assert run_virtually(watch()) == [f"stale {seconds}s: gone" for seconds in range(7, 13)]


@pytest.mark.parametrize(
    ("state", "age", "changes_in"),
    [
        (FeedState.WAITING, 0.0, 1.0),
        (FeedState.WAITING, 42.25, 0.75),
        (FeedState.WAITING, 119.5, 0.5),
        (FeedState.WAITING, 130.0, 50.0),
        (FeedState.WAITING, 7199.0, 1.0),
        (FeedState.WAITING, 7205.0, 3595.0),
        (FeedState.REFUSED, 0.0, 60.0),
        (FeedState.REFUSED, 42.25, 17.75),
        (FeedState.REFUSED, 130.0, 50.0),
    ],
)
def test_d20_an_age_changes_when_its_words_do(state: FeedState, age: float, changes_in: float) -> None:
    health = FeedHealth(state, since=100.0)
    assert health.changes_in(100.0 + age) == pytest.approx(changes_in)
    assert health.label(100.0 + age) != health.label(100.0 + age + changes_in + 0.001)
    assert health.label(100.0 + age) == health.label(100.0 + age + changes_in - 0.001)


def test_d20_what_is_live_has_no_age() -> None:
    assert FeedHealth(FeedState.LIVE).changes_in(5.0) is None


def test_f23_the_kernel_is_told_to_probe_the_other_side() -> None:
    with socket.socket() as one:
        keep_alive(one)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, count = (
            one.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        )
    assert idle + interval * count < LIVE_AT_MOST_SECONDS


async def test_f23_every_stream_is_probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[socket.socket] = []
    monkeypatch.setattr(actions.cluster.http.stream, "keep_alive", probed.append)
    with hostile(good) as server:
        session = await KubeSession.connect(ClusterTarget(write_kubeconfig(tmp_path / "kubeconfig", server.url)))
        async with session.stream("/api/v1/pods", query={"watch": "true"}):
            assert len(probed) == 1
        await session.aclose()


async def test_d20_the_age_of_a_broken_source_begins_at_the_last_sign_of_life(tmp_path: Path) -> None:
    """The server itself has told that it lives while this stream had nothing to say."""
    clock, mirror = HandClock(), Mirror()
    liveness = ServerLiveness(clock)
    opened = iter((stream(then="cut"),))

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return await page([], 1)(request)
        clock.pass_by(50)
        liveness.mark_alive()
        clock.pass_by(4)
        return await next(opened, text(502, "gone"))(request)

    async with session_to(handler, tmp_path) as session:
        reflector = Reflector(
            session,
            "/apis/x/v1/things",
            decode=lambda _: dict[str, object](),
            identify=lambda _: "",
            sink=mirror,
            clock=clock,
            prefers_watch_list=False,
            liveness=liveness,
        )
        task = asyncio.create_task(reflector.run())
        await mirror.until(lambda: mirror.saw(Health.RECONNECTING))
        task.cancel()
        await asyncio.wait({task})
    told = next(one for one in mirror.states if one.state is Health.RECONNECTING)
    assert told.since >= 50


def frozen(request: Request) -> None:
    """The other side of a half-open connection: the bytes arrive nowhere, and nothing comes back."""
    request.hold()


class Seen:
    """The health of the nodes as the console showed it, in the order of time."""

    def __init__(self) -> None:
        self.header: list[tuple[float, str]] = []
        self.border: list[tuple[float, str]] = []

    def look(self, app: ConsoleApp) -> None:
        now = time.monotonic()
        lines = screen_text(app).splitlines() or [""]
        for place, text_ in ((self.header, lines[0]), (self.border, "\n".join(lines[1:]))):
            found = re.search(r"stale (\d+)s|─ live ─", text_)
            place.append((now, found[0].strip("─ ") if found else ""))


async def _look_for(app: ConsoleApp, seen: Seen, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen.look(app)
        await asyncio.sleep(0.1)


async def test_d20_the_console_tells_the_true_age_of_a_half_open_connection(tmp_path: Path) -> None:
    with hostile(good) as server:
        target = ClusterTarget(write_kubeconfig(tmp_path / "kubeconfig", server.url))
        app = ConsoleApp(ConsoleSettings(target=target, readonly=True))
        async with app.run_test(size=(120, 30)):
            app.dispatcher.submit("open nodes")
            await _until_live(app)
            quiet = Seen()
            await _look_for(app, quiet, LIVE_AT_MOST_SECONDS + 3)
            assert {text_ for _, text_ in quiet.border} == {"live"}, "a quiet server that answers is live"
            server.answer = frozen
            froze_at, seen = time.monotonic(), Seen()
            await _look_for(app, seen, LIVE_AT_MOST_SECONDS + LATE_SECONDS + 8)
            server.answer = good
            server.drop_all()
            await _until_live(app)
    for place in (seen.header, seen.border):
        stale = [(at, int(text_.split()[1].removesuffix("s"))) for at, text_ in place if text_.startswith("stale")]
        late = LATE_SECONDS + max(after - before for (before, _), (after, _) in pairwise(place))
        assert stale[0][0] - froze_at < LIVE_AT_MOST_SECONDS + late
        on_time = [after - before for (at, before), (then, after) in pairwise(stale) if then - at < _ON_TIME_SECONDS]
        assert set(on_time) <= {0, 1}, "every second is told"
        assert stale[-1][1] - stale[0][1] >= 5
        began_at = [at - age for at, age in stale]
        assert max(began_at) - min(began_at) < late, "the age grows as time does"
        assert froze_at - QUIET_SECONDS - late < min(began_at) < froze_at + late, "and is true"


async def _until_live(app: ConsoleApp) -> None:
    deadline = time.monotonic() + 90
    while re.search(r"node-1 [\s\S]*─ live ─", screen_text(app)) is None:
        assert time.monotonic() < deadline, screen_text(app)
        await asyncio.sleep(0.1)
