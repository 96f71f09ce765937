"""The content of a run in its store: records, small files, Terraform's local states, output, as far as they lack.

What a store has is known from its own objects: when a runner begins, and again when some are found to be gone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.objects import MOST_OBJECT_BYTES, PreconditionError
from actions.run.context.store_address import run_key
from actions.run.journal.journal_file import RecordRow
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.state.records import Outcome
from actions.run.store.files import LAUNCHED, launched_archive, small_files
from actions.run.store.objects import RunStore
from actions.run.store.rows import MOST_ROWS, RowWriter
from actions.run.store.series import OutputCopy
from actions.terraform.working_directory import STATE_FILE

FILES_SECONDS = 10.0
"""Interval at which files are looked at; costs a `stat` for each."""
_OUTCOME = str(Outcome.__struct_config__.tag)


class StoreContents:
    """The objects that one runner has written of its run to the store.

    Args:
        folder: The run's.
        journal: The run's.
        epoch: Of this machine.
        clock: For the pauses between two looks at files.
    """

    def __init__(self, folder: Path, journal: RunnerJournal, epoch: int, clock: Clock) -> None:
        self._folder = folder
        self._journal = journal
        self._epoch = epoch
        self._clock = clock
        self._run_id = folder.name
        self.forget()

    def forget(self) -> None:
        """Take nothing for written: look at what the store has, and write what it lacks."""
        self.sent = -1
        """Number of the newest record in the store; -1 while that is not known."""
        self._writer: RowWriter | None = None
        self._kept: dict[str, bytes] | None = None
        """The small files as the store has them; `None` before the first look."""
        self._states: dict[str, tuple[int, int]] = {}
        """Time and size of each state as last written."""
        self._etags: dict[str, str] = {}
        """Of the objects that this runner has written."""
        self._seen: dict[str, str] = {}
        """Names and etags of the objects that were there at the last look for losses."""
        self._output: OutputCopy | None = None
        self._looked_at = -math.inf
        self._complete_to = 0
        """Number of the newest record that was in the journal before files and curves were last written."""

    def reopen(self) -> None:
        """Write by another connection from now on."""
        self._writer = self._output = None

    def look_again(self) -> None:
        """Have the next `push` look at files, whenever it comes."""
        self._looked_at = -math.inf

    async def push(self, store: RunStore) -> None:
        """Write what the store lacks of records and files.

        Raises:
            TakenError: Another machine has written a record.
            ConsoleError: As `RunStore`.
        """
        if self._writer is None or self.sent < 0:
            self._writer = self._writer_to(store)
            end = await self._writer.begin(epoch=self._epoch)
            await self._push_all_files(store)  # before the first record: whoever reads that has all that a launch made
            self.sent = end
        while self.sent < self._journal.last_seq():
            rows = self._journal.rows(self.sent, limit=MOST_ROWS)
            ready = rows[: self._before_stage_end(rows)]
            if ready:
                self.sent = await self._writer.append(ready, epoch=self._epoch)
            else:
                await self._push_all_files(store)
        if self._clock.monotonic() - self._looked_at >= FILES_SECONDS:
            await self._push_all_files(store)

    async def push_states(self, store: RunStore) -> None:
        """Write the states that Terraform keeps in the run's folder, as far as they have changed.

        Raises:
            ConsoleError: As `RunStore`; one may be too large for it.
        """
        for stage, path in state_files(self._folder).items():
            with suppress(FileNotFoundError):
                status = path.stat()
                stamp = status.st_mtime_ns, status.st_size
                if self._states.get(stage) == stamp:
                    continue
                data = await in_thread("store-read", whole_state, path)
                if data:
                    await self._put(store, run_key(self._run_id, f"terraform/{stage}.tfstate"), data)
                    self._states[stage] = stamp

    async def look_for_losses(self, store: RunStore) -> None:
        """Find out whether objects of the run were deleted or changed; the next `push` writes what is lacking.

        Raises:
            ConsoleError: As `RunStore`.
        """
        if self.sent < 0 or self._writer is None:
            return
        listed = await store.objects(run_key(self._run_id))
        if self._states:
            listed += await store.objects(run_key(self._run_id, "terraform/"))
        there = {item.key: item.etag for item in listed}
        known = self._seen | self._writer.etags | self._etags
        self._seen = there
        if any(there.get(name) != etag for name, etag in known.items()):
            self.forget()

    async def compare(self, store: RunStore) -> None:
        """Require that no other machine has written a record, or an object at a later epoch.

        Raises:
            TakenError: One has.
            ConsoleError: As `RunStore`.
        """
        await self._writer_to(store).compare(epoch=self._epoch)

    def _writer_to(self, store: RunStore) -> RowWriter:
        return RowWriter(store, self._run_id, lambda after, limit: self._journal.rows(after, limit=limit))

    def _before_stage_end(self, rows: Sequence[RecordRow]) -> int:
        """Return the number of rows before the first end of a stage whose files the store may lack."""
        unsure = ((place, row) for place, row in enumerate(rows) if row.seq > self._complete_to)
        return next((place for place, row in unsure if row.stage and row.kind == _OUTCOME), len(rows))

    async def _push_all_files(self, store: RunStore) -> None:
        """Write files and curves, and note the records whose stages' files are in the store from then on."""
        newest = self._journal.last_seq()
        with suppress(OSError):  # one that cannot be read now is looked at again the next time
            await self._push_small(store)
        if store.takes_output:
            await self._push_output(store)
        self._complete_to = newest
        self._looked_at = self._clock.monotonic()

    async def _push_output(self, store: RunStore) -> None:
        if self._output is None:
            self._output = OutputCopy(store, partial(self._put, store), self._run_id, self._folder)
        with suppress(OSError):
            await self._output.push()

    async def _push_small(self, store: RunStore) -> None:
        if self._kept is None:
            await self._push_launched(store)
            self._kept = {}
        wanted = await in_thread("store-read", small_files, self._folder)
        for name, data in wanted.items():
            if self._kept.get(name) != data:
                await self._put(store, run_key(self._run_id, f"files/{name}"), data)
                self._kept[name] = data

    async def _push_launched(self, store: RunStore) -> None:
        name = run_key(self._run_id, f"files/{LAUNCHED}")
        if store.takes_output and await store.objects(name):
            return  # in a bucket it may be large, and stays as it was written
        data = await in_thread("store-read", launched_archive, self._folder, store.most_bytes)
        await self._put(store, name, data)

    async def _put(self, store: RunStore, name: str, data: bytes) -> None:
        """Write a small file, whatever is there; first over what this runner has written, if it has."""
        try:
            if etag := self._etags.get(name):
                written = await store.replace(name, data, etag=etag)
            else:
                written = await store.put_if_absent(name, data)
        except PreconditionError as error:
            self._etags.pop(name, None)
            if error.found is not None:
                written = await store.replace(name, data, etag=error.found.etag)
            else:  # it was removed
                written = await store.put_if_absent(name, data)
        self._etags[name] = written.etag


def state_files(folder: Path) -> dict[str, Path]:
    """Return the states that Terraform keeps in a run's folder, by stage: those of roots without a backend."""
    found = folder.glob(f"terraform/*/{STATE_FILE}")
    return {path.parent.name: path for path in found if path.is_file() and not path.is_symlink()}


def whole_state(path: Path) -> bytes:
    """Return the content of a state; empty while Terraform is writing it. Blocking.

    Raises:
        OSError: It cannot be read.
    """
    data = read_file(path, MOST_OBJECT_BYTES)
    try:
        decode_json(data, _State)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return b""
    return data


class _State(msgspec.Struct):
    """The part of a state by which a whole one is known."""

    serial: int
    lineage: str
