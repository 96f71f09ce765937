"""A run of a store in a folder of this machine, for `RunReader` and `SpoolReader`; read again as it grows.

What the store has is foreign text: sizes are limited, records are decoded strictly, control characters are removed.
Points and sources are decoded strictly by their readers.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConsoleError, FormatError, MissingError
from actions.base.executors import at_once, in_thread
from actions.base.files import private_directory, write_private
from actions.base.objects import ListedObject
from actions.base.untrusted import clean_lines
from actions.run.context.store_address import run_key
from actions.run.journal.folder import (
    heartbeat_path,
    journal_path,
    keep_reserve,
    make_block,
    runner_log_path,
    starts_path,
)
from actions.run.journal.mirrored import FilePosition, MirrorMark, copies_folder, read_mark, remove_mark, write_mark
from actions.run.journal.store import copy_rows
from actions.run.state.records import Created, decode_body
from actions.run.store.drivers import open_store
from actions.run.store.files import LAUNCHED, MOST_FILE_BYTES, MOST_LAUNCHED_BYTES, path_of_small, unpack_launched
from actions.run.store.listing import StoreLook, look_at_runs
from actions.run.store.objects import RunStore, StoreLease
from actions.run.store.rows import newest_rows, rows_of
from actions.run.store.series import SeriesPart, parts_of, series_file

MOST_SERIES_BYTES = 1 << 30
"""Limit of one growing file."""
MOST_PART_BYTES = 8 << 20
"""Limit of one object of it: `TAIL_BYTES`, or one longer line."""
_JOURNAL = "journal/"
"""The name of the mark for the object with the newest records; no name of a small file ends with a slash."""
_PARTS_AT_ONCE = 8
_BATCH_BYTES = 4 << 20
"""Objects of a file, and bytes of them, that are in memory at a time; of longer objects one."""


def copy_path(run_id: str) -> Path:
    """Return the usual folder for the copy of a run of another machine."""
    run_key(run_id)
    return copies_folder() / run_id


async def fetch_run(store: RunStore, run_id: str, folder: Path, *, clock: Clock | None = None) -> MirrorMark:
    """Bring a run of a store into a folder: journal, blueprint, small files, curves. Repeated, only what is new.

    The folder is as that of a run of this machine, except that its mark (`actions.run.journal.mirrored`) names it a
    copy: its readers take the runner's state from there. A takeover removes the mark (`become_original`).

    Args:
        store: The store.
        run_id: The run's id.
        folder: Made if it does not exist, 0700; else one that this function has made.
        clock: Stamps the copy.

    Returns:
        The new mark.

    Raises:
        MissingError: The store has no such run.
        FormatError: What the store has of it is damaged; the folder keeps what it had.
        ConfigError: The folder is that of a run of this machine, or cannot be written.
        ConsoleError: As `S3Bucket`.
    """
    listed, lease = await asyncio.gather(store.objects(run_key(run_id)), store.lease(run_id))
    mark = await in_thread("mirror", _mark_of, folder, str(store.address))
    if newest_rows(listed) is None:
        raise MissingError(
            f"There is no run {run_id} in {store.address}.", hint="List them: eksml-tui runs list --store."
        )
    try:
        mark = await _fetch_journal(store, run_id, folder, mark, listed)
        mark = await _fetch_files(store, run_id, folder, mark, listed)
        for parts in parts_of(listed, run_id).values():
            mark = await _fetch_series(store, folder, mark, parts)
        mark = _with_lease(mark, lease, (clock or SystemClock()).now().timestamp())
        await in_thread("mirror", write_mark, folder, mark)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}.", hint="Free some space there.") from error
    return mark


def become_original(folder: Path) -> None:
    """Make a copied run this machine's own, for a takeover: readers look for a runner here from now on. Blocking.

    Raises:
        OSError: The disk is full; it still is a copy.
    """
    for block in (heartbeat_path(folder), starts_path(folder)):
        make_block(block)
    write_private(runner_log_path(folder), b"")
    keep_reserve(folder)
    remove_mark(folder)


def _mark_of(folder: Path, store: str) -> MirrorMark:
    mark = read_mark(folder)
    if mark is None:
        if journal_path(folder).exists():
            raise ConfigError(f"{folder} holds a run of this machine: nothing was copied there.")
        private_directory(folder)
        mark = MirrorMark(store, 0.0)
        write_mark(folder, mark)
    return replace(mark, store=store)


async def _fetch_journal(
    store: RunStore, run_id: str, folder: Path, mark: MirrorMark, listed: Sequence[ListedObject]
) -> MirrorMark:
    newest = newest_rows(listed)
    if newest is None or mark.etags.get(_JOURNAL) == newest.etag:
        return mark
    rows = await rows_of(store, listed, after=mark.last_seq)
    if not rows:
        return mark
    first = decode_body(rows[0].json) if rows[0].seq == 1 else None
    if first is not None and not (isinstance(first, Created) and first.run_id == run_id):
        raise FormatError(f"The journal of {run_id} in {store.address} is that of another run.")
    await in_thread("mirror", copy_rows, journal_path(folder), run_id, rows)
    mark = replace(mark, last_seq=rows[-1].seq, etags={**mark.etags, _JOURNAL: newest.etag})
    await in_thread("mirror", write_mark, folder, mark)
    return mark


async def _fetch_files(
    store: RunStore, run_id: str, folder: Path, mark: MirrorMark, listed: Sequence[ListedObject]
) -> MirrorMark:
    prefix = run_key(run_id, "files/")
    for item in listed:
        name = item.key.removeprefix(prefix)
        if not item.key.startswith(prefix) or mark.etags.get(name) == item.etag:
            continue
        place = path_of_small(folder, name)
        if name != LAUNCHED and place is None:
            continue
        found = await store.get(item.key, limit_bytes=MOST_LAUNCHED_BYTES if place is None else MOST_FILE_BYTES)
        if found is None:
            continue
        if place is None:
            await in_thread("mirror", unpack_launched, found.body, folder)
        else:
            await in_thread("mirror", _write_small, place, found.body)
        mark = replace(mark, etags={**mark.etags, name: found.etag})
    return mark


async def _fetch_series(store: RunStore, folder: Path, mark: MirrorMark, parts: Sequence[SeriesPart]) -> MirrorMark:
    """Append what a file has grown by, a few parts at a time; another generation of it replaces it."""
    first = parts[0]
    key = f"{first.stage}/{first.file}"
    known = mark.positions.get(key, FilePosition(first.generation, 0))
    end = known.end if known.generation == first.generation else 0
    wanted = [part for part in parts if part.end > end]
    if not wanted:
        return mark
    if wanted[-1].end > MOST_SERIES_BYTES:
        raise FormatError(f"{key} in {store.address} has more than {MOST_SERIES_BYTES} bytes.")
    path, is_whole = series_file(folder, first.stage, first.file), True
    for some in _batches(wanted):
        found = await at_once(some, lambda part: store.get(part.name, limit_bytes=MOST_PART_BYTES))
        data, begin = [], end
        for part, body in zip(some, found, strict=True):
            is_whole = is_whole and body is not None and part.begin <= end
            if body is None or not is_whole:
                break  # the rest comes with the next copy
            data.append(body.body[end - part.begin :])
            end += len(data[-1])
        if data:
            await in_thread("mirror", _append, path, begin, data)
        if not is_whole:
            break
    return replace(mark, positions={**mark.positions, key: FilePosition(first.generation, end)})


def _batches(parts: Sequence[SeriesPart]) -> Iterator[list[SeriesPart]]:
    """Yield the parts in their order, as many at a time as may be in memory."""
    batch: list[SeriesPart] = []
    for part in parts:
        if batch and (len(batch) == _PARTS_AT_ONCE or sum(one.size for one in batch) + part.size > _BATCH_BYTES):
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def _write_small(place: Path, data: bytes) -> None:
    private_directory(place.parent)
    write_private(place, data)


def _append(path: Path, begin: int, parts: Sequence[bytes]) -> None:
    """Write whole lines at an offset; at the beginning, as a new file in place of one that may be there."""
    if begin == 0:
        private_directory(path.parent)
        write_private(path, b"".join(map(_harmless, parts)), is_synced=False)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "r+b") as file:
        file.seek(begin)
        for part in parts:
            file.write(_harmless(part))
        file.truncate()


_ESCAPED = re.compile(
    rb"\\u(?:00[0189][0-9a-f]|007f|061c|20(?:0[b-f]|2[0-9a-e]|6[0-9a-f])|feff|fff[9-b])", re.IGNORECASE
)
"""Control characters as JSON writes them."""
_PLAIN = bytes(code if 32 <= code < 127 or code in b"\t\n\r" else 63 for code in range(256))


def _harmless(data: bytes) -> bytes:
    """Return lines of JSON without control characters, each of them at the offset that it has: what replaces them is
    as long."""
    plain = data if clean_lines(data) == data else data.translate(_PLAIN)
    return _ESCAPED.sub(rb"\\u0020", plain)


def _with_lease(mark: MirrorMark, lease: StoreLease | None, now: float) -> MirrorMark:
    if lease is None:
        return replace(mark, fetched_at=now, lease_seconds=0.0)
    return replace(
        mark,
        fetched_at=now,
        epoch=lease.epoch,
        owner=lease.owner,
        lease_seconds=lease.seconds,
        age_seconds=lease.age_seconds,
        writer=lease.status.writer,
        notes=lease.status.notes,
        troubles=lease.status.troubles,
    )


def refreshed_copy(url: str, run_id: str, *, region: str = "") -> Path:
    """Return the folder with a copy of a run of a store, brought up to date. Blocking; for a thread without a loop.

    Args:
        url: The store, `s3://BUCKET/PREFIX`.
        run_id: The run's id.
        region: Of the bucket, if known.

    Raises:
        ConsoleError: As `fetch_run`, and `open_store`.
    """
    folder = copy_path(run_id)
    asyncio.run(fetch_run(kept_store(url, region), run_id, folder))
    return folder


async def copied_from(store: RunStore, run_id: str) -> Path:
    """Return the folder with a copy of a run of an open store, brought up to date.

    Raises:
        ConsoleError: As `fetch_run`.
    """
    folder = copy_path(run_id)
    await fetch_run(store, run_id, folder)
    return folder


def look_at_store(url: str, *, skipped: Collection[str], at_most_seconds: float, region: str = "") -> StoreLook | None:
    """Return the runs of a store as `look_at_runs`; `None` if it does not answer in time. Blocking."""

    async def look() -> StoreLook:
        async with asyncio.timeout(at_most_seconds):
            return await look_at_runs(kept_store(url, region), skipped=skipped)

    try:
        return asyncio.run(look())
    except (ConsoleError, TimeoutError):
        return None


def kept_store(url: str, region: str) -> RunStore:
    """Return the store, the same one for all refreshes: to make a client of AWS costs more than to ask.

    Where the environment's account or endpoint has changed since, it is another store of that name.
    """
    account = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    return _store_in(account, url, region)


@lru_cache(maxsize=8)
def _store_in(_account: tuple[tuple[str, str], ...], url: str, region: str) -> RunStore:
    return open_store(url, region=region)
