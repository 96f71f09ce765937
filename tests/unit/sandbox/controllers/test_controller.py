"""The loop that controllers share."""

from __future__ import annotations

import asyncio

import pytest

from actions.base.errors import UnreachableError
from actions.sandbox.clientkit.controller import Controller


class _Stumbling(Controller):
    """Fails in a given way at first, then works."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error
        self.seen: list[str] = []
        self.done = asyncio.Event()

    async def reconcile(self, key: str) -> float | None:
        self.seen.append(key)
        if len(self.seen) == 1:
            raise self._error
        self.done.set()
        return None


@pytest.mark.parametrize("error", [UnreachableError("nobody answers"), KeyError("spec")])
async def test_a_key_that_failed_is_tried_again(error: Exception) -> None:
    controller = _Stumbling(error)
    task = asyncio.create_task(controller.run())
    controller.wake("default/one")
    async with asyncio.timeout(60):
        await controller.done.wait()
    assert controller.seen == ["default/one", "default/one"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
