"""The sign of life of a run's runner, beside the lease: when its loop last came round, and what it waits for.

It is kept out of the journal on purpose: a full disk and a locked journal are the very things that it has to tell of.
Times are of the clock that no change of the machine's time moves, and that stands still while the machine sleeps
(`CLOCK_MONOTONIC`); it is the same for all processes of a boot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.process import ProcessIdentity
from actions.base.untrusted import one_line, redact
from actions.run.block import read_block, write_block
from actions.run.folder import heartbeat_path
from actions.run.view import NoticeKind

BEAT_SECONDS = 2.0
STALLED_SECONDS = 7.0
"""Without a beat for so long, a runner is said to be stalled: within ten seconds of the last one."""
START_SECONDS = 60.0
"""A runner that has just been started is given so long for its first beat."""

Notes = Mapping[str, str]
"""By stage id: what it waits for, one line."""

_SHORT_NOTE = 120


class Beat(msgspec.Struct, frozen=True):
    """The newest sign of life of one process."""

    holder: ProcessIdentity
    at: float
    """Seconds of the monotonic clock."""
    is_first: bool = False
    """Written by who started it: it has not come to its own first line yet."""
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    """By the value of a `NoticeKind`: since when it has kept the journal from being written, monotonic seconds."""

    def is_stalled(self, now: float) -> bool:
        """Return whether the process has been silent for too long at the monotonic second `now`."""
        return now - self.at > (START_SECONDS if self.is_first else STALLED_SECONDS)


def read_beat(folder: Path, holder: ProcessIdentity) -> Beat | None:
    """The newest sign of life of a process; `None` if it has left none, as runners of earlier versions do."""
    try:
        beat = msgspec.json.decode(read_block(heartbeat_path(folder)), type=Beat)
    except msgspec.MsgspecError:
        return None
    return beat if beat.holder == holder else None


def announce(folder: Path, holder: ProcessIdentity, clock: Clock) -> None:
    """Leave a first sign of life in the name of a process that was just started."""
    _write(folder, Beat(holder, clock.monotonic(), is_first=True))


class Heartbeat:
    """The runner's side. Used from its loop only, so that a loop that hangs is seen.

    Args:
        folder: The run's.
        holder: This process.
        clock: Time.
    """

    def __init__(self, folder: Path, holder: ProcessIdentity, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._beat = Beat(holder, clock.monotonic())
        self._written: Beat | None = None

    def note(self, stage: str, text: str) -> None:
        """Remember what a stage waits for; empty for nothing."""
        line = one_line(redact(text))
        notes = {name: note for name, note in self._beat.notes.items() if name != stage}
        self._beat = replace(self._beat, notes={**notes, stage: line} if line else notes)

    def waits_for(self, kind: NoticeKind) -> None:
        """Remember that the journal cannot be written, and why; the first moment counts."""
        if kind.value not in self._beat.waits:
            self._beat = replace(self._beat, waits={**self._beat.waits, kind.value: self._clock.monotonic()})
            self.beat()

    def waits_no_more(self, *kinds: NoticeKind) -> None:
        """Forget what kept the journal from being written: these, or all."""
        gone = {kind.value for kind in kinds or NoticeKind}
        left = {name: since for name, since in self._beat.waits.items() if name not in gone}
        if left != self._beat.waits:
            self._beat = replace(self._beat, waits=left)
            self.beat()

    def flush(self) -> None:
        """Write if there is something new to tell."""
        if self._written is None or (self._beat.notes, self._beat.waits) != (self._written.notes, self._written.waits):
            self.beat()

    def beat(self) -> None:
        """Give a sign of life."""
        self._beat = replace(self._beat, at=self._clock.monotonic())
        if not _write(self._folder, self._beat):  # too much to tell, or a disk that takes nothing
            _write(self._folder, replace(self._beat, notes={k: v[:_SHORT_NOTE] for k, v in self._beat.notes.items()}))
        self._written = self._beat


def _write(folder: Path, beat: Beat) -> bool:
    return write_block(heartbeat_path(folder), msgspec.json.encode(beat))
