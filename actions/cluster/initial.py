"""A complete list while it comes in, in pages or as the first part of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from actions.cluster.limits import FACTS, OversizeError
from actions.cluster.reading import Reading, T
from actions.cluster.wire import Event


class Initial(Generic[T]):
    """Objects by uid, how many could not be read, and the list's version once it is whole.

    Args:
        path: The resource's list path, for the sentence.
        reading: Decodes objects.
        identify: The uid of a decoded object.
        trim: Drops objects that would not be kept anyway, so that the list need not fit into memory.
    """

    def __init__(
        self, path: str, reading: Reading[T], identify: Callable[[T], str], trim: Callable[[dict[str, T]], None]
    ) -> None:
        self.found: dict[str, T] = {}
        self.known = 0
        """How many objects it had that were not found before."""
        self.skipped = 0
        self.version = ""
        self._path = path
        self._reading = reading
        self._identify = identify
        self._trim = trim

    def take(self, events: list[Event]) -> list[Event]:
        """Take what has come. Returns what is behind the end of the list.

        Raises:
            OversizeError: There are more objects than can be kept.
        """
        for place, (kind, raw) in enumerate(events):
            if kind == "BOOKMARK":
                self.version = self._reading.end_of_list(raw)
                if self.version:
                    return events[place + 1 :]
                continue
            item = self._reading.decoded(raw)
            if item is None:
                self.skipped += 1
            elif kind == "DELETED":
                self.found.pop(self._identify(item), None)
            else:
                uid = self._identify(item)
                self.known += uid not in self.found
                self.found[uid] = item
        self._trim(self.found)
        if len(self.found) > FACTS:
            raise OversizeError(f"There are more than {FACTS:,} objects at {self._path}, which is the limit.")
        return []
