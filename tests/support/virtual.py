"""Loop time that passes at once: whoever waits for a moment is there when nobody has anything left to do before it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a loop of its own, whose time jumps to the next timer instead of passing.

    Only for work that waits for timers and for itself: what comes from outside the loop is not waited for.
    """
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(work)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: the time that it was to wait has passed when it returns."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("Everything waits, and no timer runs.")
        if not ready and timeout:
            self._loop.now += timeout
        return ready
