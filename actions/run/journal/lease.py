"""The lease of a run, its runner's heartbeat and its start counter: at most one process carries out a run.

The heartbeat is kept out of the journal on purpose: it has to report a full disk and a locked journal. Its times are of
`CLOCK_MONOTONIC`, which ignores changes of the machine's time, stands still while the machine sleeps, and is the same
for all processes of a boot. A run whose runner dies again and again is not started again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.backoff import backoff_seconds
from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import ConflictError
from actions.base.process import ProcessIdentity, boot_id, own_identity
from actions.base.untrusted import one_line, redact
from actions.run.journal.folder import heartbeat_path, lease_path, read_block, starts_path, write_block
from actions.run.journal.store import LOCK_SECONDS, DiskFullError, Journal, Lease
from actions.run.state.view import NoticeKind, UnusedDevices

BEAT_SECONDS = 2.0
STALLED_SECONDS = 7.0
"""Silence after which a runner counts as stalled, so that it shows within ten seconds of its last heartbeat."""
START_SECONDS = 60.0
"""Silence allowed to a runner that was just started."""

Notes = Mapping[str, str]
"""Progress messages by stage id, one line each."""

_SHORT_NOTE = 120
_LONGEST_REASON = 300


class HeartbeatState(msgspec.Struct, frozen=True):
    """The newest heartbeat of one process."""

    holder: ProcessIdentity
    at: float
    """Seconds of the monotonic clock."""
    is_first: bool = False
    """Written on its behalf by the process that started it; it has not written one itself yet."""
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    troubles: dict[str, str] = msgspec.field(default_factory=dict)
    """Present trouble of the pods of a stage, by stage id."""
    unused: UnusedDevices | None = None
    """Accelerators that are held and not used."""
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    """Since when each obstacle has kept the journal from being written: monotonic seconds by `NoticeKind` value."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """The cause of an obstacle as far as it is known, one sentence, by `NoticeKind` value."""

    def is_stalled(self, now: float) -> bool:
        """Return whether the process has been silent for too long at the monotonic second `now`."""
        return now - self.at > (START_SECONDS if self.is_first else STALLED_SECONDS)


def read_heartbeat(folder: Path, holder: ProcessIdentity) -> HeartbeatState | None:
    """Return the newest heartbeat of a process; `None` if there is none, or it is damaged."""
    try:
        beat = decode_json(read_block(heartbeat_path(folder)), HeartbeatState)
    except msgspec.MsgspecError:
        return None
    return beat if beat.holder == holder else None


def announce(folder: Path, holder: ProcessIdentity, clock: Clock) -> None:
    """Write a first heartbeat on behalf of a process that was just started."""
    _write_beat(folder, HeartbeatState(holder, clock.monotonic(), is_first=True))


class Heartbeat:
    """The heartbeat of this runner. Used from its loop only, so that a loop that hangs shows.

    Args:
        folder: The run's.
        holder: This process.
        clock: Time.
    """

    def __init__(self, folder: Path, holder: ProcessIdentity, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._beat = HeartbeatState(holder, clock.monotonic())
        self._written: HeartbeatState | None = None

    @property
    def state(self) -> HeartbeatState:
        """The messages and obstacles as they are now."""
        return self._beat

    def note(self, stage: str, text: str) -> None:
        """Set the progress message of a stage; empty for none."""
        line = one_line(redact(text))
        notes = {name: note for name, note in self._beat.notes.items() if name != stage}
        self._beat = replace(self._beat, notes={**notes, stage: line} if line else notes)

    def trouble(self, stage: str, text: str) -> None:
        """Set what the pods of a stage suffer from; empty for nothing."""
        line = one_line(redact(text))
        troubles = {name: known for name, known in self._beat.troubles.items() if name != stage}
        self._beat = replace(self._beat, troubles={**troubles, stage: line} if line else troubles)

    def tell_unused(self, found: UnusedDevices | None) -> None:
        """Set the accelerators that are held and not used."""
        self._beat = replace(self._beat, unused=found)

    @property
    def troubles(self) -> dict[str, str]:
        """Present trouble of the pods, by stage."""
        return self._beat.troubles

    def waits_for(self, kind: NoticeKind, reason: str = "") -> None:
        """Record an obstacle to writing the journal, with its cause; its time is that of the first call."""
        known = self._beat
        waits = {kind.value: self._clock.monotonic()} | known.waits
        line = redact(one_line(reason, limit=_LONGEST_REASON))
        reasons = known.reasons | ({kind.value: line} if line else {})
        if (waits, reasons) != (known.waits, known.reasons):
            self._beat = replace(known, waits=waits, reasons=reasons)
            self.beat()

    def waits_no_more(self, *kinds: NoticeKind) -> None:
        """Clear these obstacles to writing the journal, or all of them."""
        gone = {kind.value for kind in kinds or NoticeKind}
        left = {name: since for name, since in self._beat.waits.items() if name not in gone}
        if left != self._beat.waits:
            reasons = {name: text for name, text in self._beat.reasons.items() if name not in gone}
            self._beat = replace(self._beat, waits=left, reasons=reasons)
            self.beat()

    def flush(self) -> None:
        """Write a heartbeat if messages or obstacles have changed."""
        if self._written is None or replace(self._beat, at=self._written.at) != self._written:
            self.beat()

    def beat(self) -> None:
        """Write a heartbeat."""
        self._beat = replace(self._beat, at=self._clock.monotonic())
        if not _write_beat(self._folder, self._beat):  # too long for its block, or the disk refuses the write
            notes, troubles = _shortened(self._beat.notes), _shortened(self._beat.troubles)
            _write_beat(self._folder, replace(self._beat, notes=notes, troubles=troubles))
        self._written = self._beat


def _shortened(notes: Notes) -> dict[str, str]:
    return {stage: note[:_SHORT_NOTE] for stage, note in notes.items()}


def _write_beat(folder: Path, beat: HeartbeatState) -> bool:
    return write_block(heartbeat_path(folder), msgspec.json.encode(beat))


MOST_STARTS = 5
WINDOW_SECONDS = 600.0
_FIRST_PAUSE_SECONDS = 1.0
_KEPT = 50


class _Starts(msgspec.Struct, frozen=True):
    boot_id: str = ""
    at: tuple[float, ...] = ()
    """Monotonic seconds of that boot, oldest first."""
    unasked: int = 0
    """Number of automatic restarts among the newest starts."""


def note_start(folder: Path, clock: Clock, *, is_asked_for: bool) -> None:
    """Record that a runner was started just now. The caller holds the journal's lock.

    Args:
        folder: The run's.
        clock: Time.
        is_asked_for: An operator requested it, or the run was launched; else it replaces a runner that died.
    """
    starts = _recent(folder, clock)
    unasked = 0 if is_asked_for else starts.unasked + 1
    _write_starts(folder, _Starts(boot_id(), (*starts.at, clock.monotonic())[-_KEPT:], unasked))


def forget_starts(folder: Path) -> None:
    """Clear the starts, as a runner has ended normally."""
    if read_block(starts_path(folder)):
        _write_starts(folder, _Starts())


def has_crashed_too_often(folder: Path, clock: Clock) -> bool:
    """Return whether runners have died so often lately that no other is started automatically."""
    return len(_recent(folder, clock).at) >= MOST_STARTS


def may_start_now(folder: Path, clock: Clock) -> bool:
    """Return whether a dead runner may be restarted automatically now; the pause doubles with every restart."""
    starts = _recent(folder, clock)
    if len(starts.at) >= MOST_STARTS:
        return False
    pause = backoff_seconds(starts.unasked, first_seconds=_FIRST_PAUSE_SECONDS)
    return not starts.unasked or clock.monotonic() - starts.at[-1] >= pause


def _recent(folder: Path, clock: Clock) -> _Starts:
    try:
        starts = decode_json(read_block(starts_path(folder)), _Starts)
    except msgspec.MsgspecError:
        return _Starts()
    if starts.boot_id != boot_id():
        return _Starts()
    now = clock.monotonic()
    at = tuple(moment for moment in starts.at if now - WINDOW_SECONDS <= moment <= now)
    return _Starts(starts.boot_id, at, min(starts.unasked, len(at)))


def _write_starts(folder: Path, starts: _Starts) -> None:
    write_block(starts_path(folder), msgspec.json.encode(starts))


_GRANTED = ""
"""The token of a lease whose holder was started and has not taken the lease yet."""


def grant_lease(
    path: Path, clock: Clock, start: Callable[[], ProcessIdentity], *, is_asked_for: bool = True
) -> ProcessIdentity | None:
    """Start the run's runner and write the lease in its name, unless a living process holds it.

    So a second caller starts none, even before the new process has begun to work.

    Args:
        path: The run's journal.
        clock: Stamps the lease.
        start: Starts the process that will call `take_runner_lease`.
        is_asked_for: See `note_start`.

    Returns:
        The new process, or `None` if none was started.
    """
    journal = Journal(path, clock)
    try:
        with journal.locked():
            current = journal.lease()
            if current is not None and current.is_alive:
                return None
            holder = start()
            _write(journal, Lease(holder, _GRANTED, clock.now().timestamp()))
            announce(path.parent, holder, clock)
            note_start(path.parent, clock, is_asked_for=is_asked_for)
    finally:
        journal.close()
    return holder


def take_runner_lease(path: Path, clock: Clock, *, lock_seconds: float = LOCK_SECONDS) -> Lease:
    """Become the run's runner.

    Raises:
        ConflictError: Another living process is.
        JournalUnwritableError: The disk is full, or the journal is locked for longer than `lock_seconds`.
    """
    journal = Journal(path, clock, lock_seconds=lock_seconds)
    own = own_identity()
    lease = Lease(own, secrets.token_hex(8), clock.now().timestamp())
    try:
        with journal.locked():
            current = journal.lease()
            is_ours = current is not None and current.holder == own and current.token == _GRANTED
            if current is not None and current.is_alive and not is_ours:
                raise ConflictError(
                    f"the run {path.parent.name} is already carried out by process {current.holder.pid}.",
                    hint="Watch it with `eksml-tui runs show`.",
                )
            _write(journal, lease)
            if not is_ours:  # systemd has started it again
                note_start(path.parent, clock, is_asked_for=False)
    finally:
        journal.close()
    return lease


def release_lease(journal: Journal, token: str, *, seen: int) -> bool:
    """Give the lease back, unless something was written that the runner has not seen.

    Args:
        journal: The run's journal.
        token: Of the lease that the caller holds.
        seen: Number of the newest record that the caller has read.

    Returns:
        Whether it was given back. If not, look at the new records first: their writer relies on a living runner.
    """
    with journal.locked():
        if journal.last_seq() != seen:
            return False
        lease = journal.lease()
        if lease is not None and lease.token == token:
            write_block(lease_path(journal.path.parent), b"")
    return True


def _write(journal: Journal, lease: Lease) -> None:
    """Write the lease; the caller holds the journal's lock. Its block has its space from the launch on."""
    if not write_block(lease_path(journal.path.parent), msgspec.json.encode(lease)):
        raise DiskFullError(journal.path)
