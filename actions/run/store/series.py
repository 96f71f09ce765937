"""The output of a run in its store: the same segments, under the same names, and the open end of each stream.

A sealed segment is written once. The open end is an object whose name has its place: it is replaced as it grows, and
removed when the segment that takes its place is there. The streams are looked at in one order and written in the other,
so that whatever a stream mentions is in the home before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.names import is_segment
from actions.base.objects import ListedObject
from actions.run.context.store_address import run_key
from actions.run.output.segments import StreamListing, StreamReader, listing_of, plain_of, tail_in, tail_name
from actions.run.output.streams import COPIED, stages_with_output, stream_path
from actions.run.store.objects import RunStore

_PREFIX = "output/"
StreamKey = tuple[str, str]
"""Stage, and name of the stream."""


class CopiedStream(NamedTuple):
    """A stream as a home has it."""

    listing: StreamListing
    objects: dict[str, ListedObject]
    """By name in the stream's folder."""


def streams_in(listed: Sequence[ListedObject], run_id: str) -> dict[StreamKey, CopiedStream]:
    """Return the streams among the objects of a run; objects with names that no stream has are skipped."""
    found: dict[StreamKey, dict[str, ListedObject]] = {}
    prefix = run_key(run_id, _PREFIX)
    for item in listed:
        stage, _, rest = item.key.removeprefix(prefix).partition("/")
        stream, _, name = rest.partition("/")
        if item.key.startswith(prefix) and is_segment(stage) and stream in COPIED and "/" not in name:
            found.setdefault((stage, stream), {})[name] = item
    return {key: CopiedStream(listing_of(list(names)), names) for key, names in found.items()}


class _Snapshot(NamedTuple):
    key: StreamKey
    listing: StreamListing
    tail: bytes
    """The whole records of the open end."""


class OutputCopy:
    """The copying of one run's output to its store.

    Args:
        store: The store.
        put: Writes an object, whatever is there.
        run_id: The run.
        folder: The run's.
    """

    def __init__(
        self, store: RunStore, put: Callable[[str, bytes], Awaitable[None]], run_id: str, folder: Path
    ) -> None:
        self._store = store
        self._put = put
        self._run_id = run_id
        self._folder = folder
        self._there: dict[StreamKey, set[str]] = {}
        """The names that the store has."""
        self._is_listed = False
        self._written: dict[StreamKey, tuple[StreamListing, int]] = {}
        """The parts that were written last, with the length of the open end."""
        self._readers: dict[StreamKey, StreamReader] = {}

    async def push(self) -> None:
        """Write what the store lacks. Cheap while nothing grows.

        Raises:
            ConsoleError: As `S3Bucket`.
            OSError: A file cannot be read.
        """
        for snapshots in await in_thread("home-read", self._look):
            for snapshot in reversed(snapshots):
                await self._push_stream(snapshot)

    def _look(self) -> list[list[_Snapshot]]:
        """Return for each stage the streams that have grown, in the order of `COPIED`. Blocking."""
        found = []
        for stage in stages_with_output(self._folder):
            grown = [self._grown((stage, stream)) for stream in COPIED]
            found.append([snapshot for snapshot in grown if snapshot is not None])
        return found

    def _grown(self, key: StreamKey) -> _Snapshot | None:
        reader = self._readers.setdefault(key, StreamReader(stream_path(self._folder, *key), kept=1))
        listing = reader.listing()
        if self._written.get(key) == (listing, reader.end() - listing.sealed_end):
            return None
        parts = reader.stretches(listing.tail) if listing.tail is not None else []
        sealed_meanwhile = reader.listing() != listing
        return None if sealed_meanwhile else _Snapshot(key, listing, b"".join(part.data or b"" for part in parts))

    async def _push_stream(self, snapshot: _Snapshot) -> None:
        key, listing, tail = snapshot
        there = await self._names(key)
        for segment in listing.segments:
            if segment.name not in there:
                data = await in_thread("store-read", read_file, stream_path(self._folder, *key) / segment.name)
                if plain_of(segment, data) is not None:  # a damaged one stays a gap
                    await self._store.put_if_absent(self._object(key, segment.name), data)
                    there.add(segment.name)
        if listing.tail is not None and tail:
            await self._put(self._object(key, tail_name(listing.tail)), tail)
            there.add(tail_name(listing.tail))
        for name in [name for name in there if (place := tail_in(name)) is not None and place < listing.sealed_end]:
            await self._store.delete(self._object(key, name))
            there.remove(name)
        self._written[key] = listing, len(tail)

    async def _names(self, key: StreamKey) -> set[str]:
        if not self._is_listed:
            listed = await self._store.objects(run_key(self._run_id, _PREFIX))
            self._there = {key: set(stream.objects) for key, stream in streams_in(listed, self._run_id).items()}
            self._is_listed = True
        return self._there.setdefault(key, set())

    def _object(self, key: StreamKey, name: str) -> str:
        return run_key(self._run_id, f"{_PREFIX}{key[0]}/{key[1]}/{name}")
