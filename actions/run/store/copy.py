"""A run of a store in a folder of this machine, for `RunReader` and `OutputReader`; read again as it grows.

What the store has is foreign text: sizes are limited, records are decoded strictly, control characters are removed.
A segment that does not match its name stays out: readers count it as lost.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, ConsoleError, FormatError, MissingError
from actions.base.executors import at_once, in_thread
from actions.base.files import private_directory, read_file, state_folder, write_private
from actions.base.objects import ListedObject
from actions.base.untrusted import clean_lines
from actions.run.context.store_address import run_key
from actions.run.journal.folder import (
    heartbeat_path,
    journal_path,
    keep_reserve,
    lease_path,
    make_block,
    runner_log_path,
    starts_path,
    watched_path,
)
from actions.run.journal.store import copy_rows
from actions.run.journal.watched import WatchedOnly, end_watching, write_watched
from actions.run.output.segments import SealedSegment, list_stream, plain_of, sealed, tail_in, tail_name
from actions.run.output.streams import stream_path
from actions.run.state.records import Created, decode_body
from actions.run.store.elsewhere import watched_copy
from actions.run.store.files import LAUNCHED, MOST_FILE_BYTES, MOST_LAUNCHED_BYTES, path_of_small, unpack_launched
from actions.run.store.listing import StoreLook, look_at_runs
from actions.run.store.objects import RunStore
from actions.run.store.rows import newest_rows, rows_of
from actions.run.store.s3 import open_store
from actions.run.store.series import CopiedStream, streams_in

MOST_STREAM_BYTES = 16 << 30
"""Limit of one stream of output, before compression."""
MOST_SEGMENT_BYTES = 8 << 20
"""Limit of one segment of it, before compression; a larger one is not copied."""
_AT_ONCE = 8
"""Segments that are in memory at a time."""
_MARK = "mirror.json"
_MOST_MARK_BYTES = 4 << 20
_JOURNAL = "journal/"
"""The name of the mark for the object with the newest records; no name of a small file ends with a slash."""
_HEADER_BYTES = 64 << 10
"""Limit of the growth of bytes that cannot be compressed."""


def copy_path(run_id: str) -> Path:
    """Return the usual folder for the copy of a run of another machine."""
    run_key(run_id)
    return copies_folder() / run_id


class CopyMark(msgspec.Struct, frozen=True):
    """The objects of the store that a copy has; written into it with each refresh."""

    store: str
    fetched_at: float
    """Seconds since the epoch, by this machine's clock."""
    last_seq: int = 0
    """Number of the newest record in the copy."""
    etags: dict[str, str] = {}
    """Of small files and open ends of output, by name."""


def copies_folder() -> Path:
    """Return the folder of the copies of all runs of other machines; it may not exist yet."""
    return state_folder() / "mirrors"


def read_mark(folder: Path) -> CopyMark | None:
    """Return the mark of a folder; `None` if it is not a copy. A damaged mark is one of an old copy."""
    try:
        data = read_file(folder / _MARK, _MOST_MARK_BYTES)
    except OSError:
        return None
    try:
        return decode_json(data, CopyMark)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return CopyMark("", 0.0)


def write_mark(folder: Path, mark: CopyMark) -> None:
    """Replace the mark of a folder.

    Raises:
        OSError: The disk is full.
    """
    write_private(folder / _MARK, msgspec.json.encode(mark), is_synced=False)


async def fetch_run(
    store: RunStore, run_id: str, folder: Path, *, clock: Clock | None = None, with_output: bool = True
) -> CopyMark:
    """Bring a run of a store into a folder: journal, blueprint, small files, output. Repeated, only what is new.

    The folder is as that of a run of this machine, except that it is to be watched only
    (`actions.run.journal.watched`): its readers take the runner's state from there.

    Args:
        store: The store.
        run_id: The run's id.
        folder: Made if it does not exist, 0700; else one that this function has made.
        clock: Stamps the copy.
        with_output: Bring the output of its stages, too.

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
        for (stage, stream), copied in streams_in(listed, run_id).items() if with_output else ():
            mark = await _fetch_stream(store, stream_path(folder, stage, stream), mark, copied)
        now = (clock or SystemClock()).now().timestamp()
        mark = replace(mark, fetched_at=now)
        await in_thread("mirror", write_mark, folder, mark)
        await in_thread("mirror", write_watched, folder, watched_copy(run_id, str(store.address), lease, now))
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}.", hint="Free some space there.") from error
    return mark


def become_original(folder: Path) -> None:
    """Make a copied run this machine's own, for a takeover: readers look for a runner here from now on. Blocking.

    Raises:
        OSError: The disk is full; it still is a copy.
    """
    for block in (heartbeat_path(folder), lease_path(folder), starts_path(folder)):
        make_block(block)
    write_private(runner_log_path(folder), b"")
    keep_reserve(folder)
    (folder / _MARK).unlink(missing_ok=True)
    end_watching(folder)


def _mark_of(folder: Path, store: str) -> CopyMark:
    mark = read_mark(folder)
    if mark is None:
        if journal_path(folder).exists():
            raise ConfigError(f"{folder} holds a run of this machine: nothing was copied there.")
        private_directory(folder)
        mark = CopyMark(store, 0.0)
        make_block(watched_path(folder))
        write_watched(folder, WatchedOnly("It is a copy that is not complete."))
        write_mark(folder, mark)
    return replace(mark, store=store)


async def _fetch_journal(
    store: RunStore, run_id: str, folder: Path, mark: CopyMark, listed: Sequence[ListedObject]
) -> CopyMark:
    newest = newest_rows(listed)
    if newest is None or mark.etags.get(_JOURNAL) == newest.etag:
        return mark
    rows = await rows_of(store, listed, after=mark.last_seq)
    if not rows:
        return mark
    first = decode_body(rows[0].json) if rows[0].seq == 1 else None
    if first is not None and not (isinstance(first, Created) and first.run_id == run_id):
        raise FormatError(f"The journal of {run_id} in {store.address} is that of another run.")
    await in_thread("mirror", copy_rows, journal_path(folder), rows)
    mark = replace(mark, last_seq=rows[-1].seq, etags={**mark.etags, _JOURNAL: newest.etag})
    await in_thread("mirror", write_mark, folder, mark)
    return mark


async def _fetch_files(
    store: RunStore, run_id: str, folder: Path, mark: CopyMark, listed: Sequence[ListedObject]
) -> CopyMark:
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


async def _fetch_stream(store: RunStore, folder: Path, mark: CopyMark, copied: CopiedStream) -> CopyMark:
    """Bring the segments that are new, and the open end if it has changed."""
    listing, objects = copied
    if listing.sealed_end > MOST_STREAM_BYTES:
        raise FormatError(f"{folder.name} in {store.address} has more than {MOST_STREAM_BYTES} bytes.")
    here = await in_thread("mirror", list_stream, folder)
    known = {segment[:2] for segment in here.segments}
    wanted = [one for one in listing.segments if one[:2] not in known and one.length <= MOST_SEGMENT_BYTES]
    for some in (wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)):
        found = await at_once(
            some, lambda one: store.get(objects[one.name].key, limit_bytes=one.length + _HEADER_BYTES)
        )
        bodies = [(one, body.body) for one, body in zip(some, found, strict=True) if body is not None]
        await in_thread("mirror", _write_segments, folder, bodies)
    if listing.tail is not None and not (
        here.tail == listing.tail and mark.etags.get(_tail_key(folder)) == objects[tail_name(listing.tail)].etag
    ):
        mark = await _fetch_tail(store, folder / tail_name(listing.tail), mark, objects[tail_name(listing.tail)])
    await in_thread("mirror", _remove_old_tails, folder, listing.tail)
    return mark


async def _fetch_tail(store: RunStore, path: Path, mark: CopyMark, item: ListedObject) -> CopyMark:
    found = await store.get(item.key, limit_bytes=MOST_SEGMENT_BYTES)
    if found is None:  # it was sealed: the segment comes with the next copy
        return mark
    whole = found.body[: found.body.rfind(b"\n") + 1]
    await in_thread("mirror", _write_small, path, _harmless(whole))
    return replace(mark, etags={**mark.etags, _tail_key(path.parent): found.etag})


def _tail_key(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _write_segments(folder: Path, bodies: Sequence[tuple[SealedSegment, bytes]]) -> None:
    for segment, data in bodies:
        plain = plain_of(segment, data)
        if plain is None:  # a gap, as in the home
            continue
        harmless = _harmless(plain)
        here, content = (segment, data) if harmless == plain else sealed(segment.place, harmless)
        private_directory(folder)
        write_private(folder / here.name, content, is_synced=False)


def _remove_old_tails(folder: Path, tail: int | None) -> None:
    """Remove the open ends that segments have replaced."""
    if folder.is_dir():
        for name in os.listdir(folder):
            if (place := tail_in(name)) is not None and place != tail:
                (folder / name).unlink(missing_ok=True)


def _write_small(place: Path, data: bytes) -> None:
    private_directory(place.parent)
    write_private(place, data)


_ESCAPED = re.compile(
    rb"\\u(?:00[0189][0-9a-f]|007f|061c|20(?:0[b-f]|2[0-9a-e]|6[0-9a-f])|feff|fff[9-b])", re.IGNORECASE
)
"""Control characters as JSON writes them."""


_PLAIN = bytes(code if 32 <= code < 127 or code in b"\t\n\r" else 63 for code in range(256))


def _harmless(data: bytes) -> bytes:
    """Return records without control characters, each of them at the place that it has: what replaces them is as
    long."""
    plain = data if clean_lines(data) == data else data.translate(_PLAIN)
    return _ESCAPED.sub(rb"\\u0020", plain) if data[:1] == b"{" else plain


def refreshed_copy(url: str, run_id: str, *, region: str = "") -> Path:
    """Return the folder with a copy of a run of a store, brought up to date. Blocking; for a thread without a loop.

    Args:
        url: The store, `s3://BUCKET/PREFIX`.
        run_id: The run's id.
        region: Of the bucket, if known.

    Raises:
        ConsoleError: As `fetch_run`, and `open_store`.
    """
    return asyncio.run(copied_from(kept_store(url, region), run_id))


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
