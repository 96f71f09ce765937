"""Named threads for libraries that block: one pool a purpose, so that none starves another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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
