"""Loop time that passes at once: whoever waits for a moment is there when nobody has anything left to do before it."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_ON_THE_WAY_SECONDS = 0.002
"""Real time in which bytes between two sockets of this process arrive."""
_LONGEST_SECONDS = 30.0
"""Real time after which what comes from outside the loop is not waited for any longer."""


def run_virtually(work: Coroutine[Any, Any, T], *, has_sockets: bool = False) -> T:
    """Run `work` on a loop of its own, whose time jumps to the next timer instead of passing.

    Only for work that waits for timers and for itself: what comes from outside the loop is not waited for.

    Args:
        work: What to run.
        has_sockets: It also waits for threads of the loop, and for sockets whose other end it holds itself.
    """
    with asyncio.Runner(loop_factory=lambda: _VirtualLoop(_ON_THE_WAY_SECONDS if has_sockets else 0.0)) as runner:
        return runner.run(work)


def virtually(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in loop time, with sockets: see `run_virtually`."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(test(*args, **kwargs), has_sockets=True)

    return run


class VirtualClock:
    """The time of the loop that runs, beginning at the moment at which the clock is made. See `actions.base.clock`."""

    def __init__(self) -> None:
        self._begun = datetime.now(UTC) - timedelta(seconds=self.monotonic())

    def now(self) -> datetime:
        return self._begun + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own.

    Args:
        on_the_way_seconds: How long (in real time) to look for bytes before time jumps.
    """

    def __init__(self, on_the_way_seconds: float) -> None:
        self.now = 0.0
        self.threads = 0
        """The number of calls that threads carry out."""
        self.on_the_way_seconds = on_the_way_seconds
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self.threads += 1
        called = super().run_in_executor(executor, func, *args)
        called.add_done_callback(self._on_called)
        return called

    def _on_called(self, _called: asyncio.Future[Any]) -> None:
        self.threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing that comes by time: the time that it was to wait has passed when it returns."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._loop.threads or (timeout is None and self._loop.on_the_way_seconds):
            ready = super().select(_LONGEST_SECONDS)
        elif self._loop.on_the_way_seconds:
            ready = super().select(self._loop.on_the_way_seconds)
        if not ready and timeout is None:
            raise RuntimeError("Everything waits, and no timer runs.")
        if not ready and timeout:
            self._loop.now += timeout
        return ready
