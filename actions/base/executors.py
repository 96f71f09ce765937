"""Named threads for libraries that block: one pool a purpose, so that none starves another; and work on many things."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")
_AT_ONCE = 8


class NamedExecutor:
    """A few threads for one purpose. Made on the loop, closed by its owner.

    Args:
        name: Shown in thread names.
        threads: How many calls may run at once.
    """

    def __init__(self, name: str, *, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"eksml-{name}")

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call on one of the threads and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Take no more calls; running ones end on their own."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def in_thread(name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one blocking call on a thread of its own and return its result.

    Args:
        name: Shown in the thread's name.
        function: The call.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    thread = NamedExecutor(name)
    try:
        return await thread.call(function, *args, **kwargs)
    finally:
        thread.close()


async def at_once(items: Sequence[V], work: Callable[[V], Awaitable[T]]) -> list[T]:
    """Return the results of `work` for all items, in order, some of them at the same time."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(item: V) -> T:
        async with gate:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def beside(work: Coroutine[None, None, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Carry `work` out beside the block, and end it with that.

    A loop that closes cancels what is left in all its parts at once, and waits for ever where that starts a program.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
