"""The errors that are waited out, for how long, and those that are not; the identity of the run's cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.clock import SystemClock
from actions.base.errors import AccessError, ConflictError, ConsoleError, FormatError, MissingError, UnreachableError
from actions.cluster.http.endpoint import UntrustedError
from actions.cluster.http.errors import ApiStatus, SilenceError, error_of
from actions.run.context.access import ClusterAccess
from actions.run.context.protocols import StageFailedError
from actions.run.context.retry import (
    ALIVE,
    ANSWERED,
    ONCE,
    REQUEST,
    STAGE,
    TEARDOWN,
    PollInterval,
    RetryPolicy,
    retry_unreachable,
)
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.servers import serving, write_kubeconfig

EVERYBODY = {"once", "request", "stage", "alive", "answered", "teardown"}
PATIENCE = {
    "once": ONCE,
    "request": REQUEST,
    "stage": STAGE,
    "alive": ALIVE,
    "answered": ANSWERED,
    "teardown": TEARDOWN,
}
WITH_LOGIN = {"stage", "alive", "answered", "teardown"}


def of(code: int, reason: str = "Because", wait: float | None = None) -> ConsoleError:
    return error_of(ApiStatus(code, reason, retry_after_seconds=wait), asked="GET /x", context="c")


@pytest.mark.parametrize(
    ("error", "who"),
    [
        (UnreachableError("refused, reset, no such host"), EVERYBODY),
        (SilenceError("silent"), EVERYBODY),
        (of(429), EVERYBODY),
        (of(500), EVERYBODY),
        (of(503), EVERYBODY),
        (of(401), WITH_LOGIN),
        (AccessError("No token."), WITH_LOGIN),
        (UntrustedError("A certificate."), WITH_LOGIN),
        (of(403), {"alive"}),
        (of(404), set()),
        (of(409), set()),
        (of(422), set()),
        (ConflictError("Another cluster."), set()),
        (MissingError("No kubeconfig."), set()),
        (FormatError("No JSON."), set()),
        (StageFailedError("It failed."), set()),
    ],
)
def test_who_waits_for_what(error: ConsoleError, who: set[str]) -> None:
    assert {name for name, policy in PATIENCE.items() if policy.retries(error)} == who


class Failing:
    """Fails so often, then answers."""

    def __init__(self, times: int, error: ConsoleError) -> None:
        self.calls = 0
        self._times = times
        self._error = error

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        return "an answer"


async def test_pauses_grow_and_the_note_says_since_when() -> None:
    clock, notes, call = HastyClock(), list[str](), Failing(9, UnreachableError("Nobody answers."))
    assert await retry_unreachable(call, clock=clock, note=notes.append, policy=ALIVE) == "an answer"
    assert clock.slept == [0.5, 1, 2, 4, 8, 16, 20, 20, 20]
    assert len(set(notes)) == 1
    assert re.fullmatch(r"Waiting since \d\d:\d\d:\d\d UTC, retrying: Nobody answers\.", notes[0])


async def test_patience_ends_with_the_error() -> None:
    clock, call = HastyClock(), Failing(1000, UnreachableError("Nobody answers."))
    with pytest.raises(UnreachableError):
        await retry_unreachable(call, clock=clock, note=lambda _: None, policy=RetryPolicy(60.0))
    assert 55 <= sum(clock.slept) <= 61


@pytest.mark.parametrize(("wished", "waited"), [(7.0, 7.0), (31_536_000.0, 60.0), (0.1, 0.5), (-5.0, 0.5)])
async def test_a_server_may_wish_for_a_pause_but_not_for_a_year(wished: float, waited: float) -> None:
    clock, call = HastyClock(), Failing(1, of(429, wait=wished))
    await retry_unreachable(call, clock=clock, note=lambda _: None, policy=ALIVE)
    assert clock.slept == [waited]


async def test_once_asks_once() -> None:
    call = Failing(1, UnreachableError("Nobody answers."))
    with pytest.raises(UnreachableError):
        await retry_unreachable(call, clock=HastyClock(), note=lambda _: None, policy=ONCE)
    assert call.calls == 1


async def test_looks_that_fail_are_further_and_further_apart() -> None:
    clock = HastyClock()
    pace = PollInterval(clock, first_seconds=1.0, longest_seconds=5.0)
    for _ in range(4):
        await pace.pause_after()
    await pace.pause_after(of(429, wait=9.0))
    await pace.pause()
    await pace.pause_after()
    assert clock.slept == [1, 2, 4, 5, 9, 1, 1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (web.json_response({"metadata": {"uid": "another"}}), ConflictError),
        (web.json_response({"metadata": {}}), UnreachableError),
        (web.json_response({"metadata": None}), UnreachableError),
        (web.Response(text="<html>Log in to the hotel's network</html>", content_type="text/html"), UnreachableError),
        (web.Response(status=302, headers={"Location": "http://portal"}), UnreachableError),
        (web.Response(status=404, text="default backend"), UnreachableError),
        (web.Response(status=401, text=""), AccessError),
        (web.Response(status=403, text=""), AccessError),
        (web.Response(status=502, text=""), UnreachableError),
    ],
)
async def test_only_another_uid_is_another_cluster(
    tmp_path: Path, answer: web.Response, error: type[ConsoleError]
) -> None:
    async def reply(request: web.Request) -> web.Response:
        return answer

    async with serving(reply) as url:
        access = ClusterAccess(write_kubeconfig(tmp_path, url), "default", SystemClock(), None)
        with pytest.raises(error):
            await access.open("its-uid")
        await access.aclose()


async def test_a_run_without_a_kubeconfig_does_not_wait_for_one(tmp_path: Path) -> None:
    access = ClusterAccess(tmp_path / "none", "default", SystemClock(), None)
    with pytest.raises(MissingError):
        await access.open("its-uid", policy=ALIVE)
