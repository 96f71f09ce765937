"""The loop that all controllers share: changed keys, one reconcile at a time, again later after a failure."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Never

from actions.base.errors import ConsoleError
from actions.sandbox.clientkit.cache import Cache
from actions.sandbox.clientkit.kinds import Document, Kind, owner_of

_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
"""The errors that reading an object raises if it is not formed as its kind should be."""
_log = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 5.0


class Controller(ABC):
    """A controller: brings about what objects specify, key by key.

    Subclasses call `wake` from cache listeners; `reconcile` must be safe to call at any time, twice or for nothing.
    """

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._failures: dict[str, int] = {}
        self._work = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Do what is due for `key`. Return the seconds until the next call, `None` to wait for a change."""

    def wake(self, key: str) -> None:
        """Have `key` reconciled soon."""
        self._keys[key] = None
        self._work.set()

    def wake_each(self, cache: Cache) -> None:
        """Have every object of a kind reconciled soon."""
        for key in cache.objects:
            self.wake(key)

    def wake_owners(self, kind: Kind, made: Iterable[Cache]) -> None:
        """From now on, have the owner of `kind` reconciled whenever something that it has made changes."""

        def look(document: Document) -> None:
            owner = owner_of(document)
            if owner is not None and owner["kind"] == kind.kind:
                self.wake(f"{document['metadata']['namespace']}/{owner['name']}")

        for cache in made:
            cache.listen(look)

    async def run(self) -> Never:
        """Reconcile for ever; end by cancelling."""
        try:
            while True:
                await self._work.wait()
                while self._keys:
                    key = next(iter(self._keys))
                    del self._keys[key]
                    await self._attempt(key)
                self._work.clear()
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _attempt(self, key: str) -> None:
        try:
            again_seconds = await self.reconcile(key)
        except ConsoleError:
            again_seconds = self._retry_seconds(key)
        except _MALFORMED as error:
            _log.warning("%s cannot work with %s: %r", type(self).__name__, key, error)
            again_seconds = self._retry_seconds(key)
        else:
            self._failures.pop(key, None)
        if again_seconds is not None:
            self._wake_in(key, again_seconds)

    def _retry_seconds(self, key: str) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures, 16))

    def _wake_in(self, key: str, seconds: float) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.wake, key)
