"""The lease: which process may carry out a run. At most one, ever."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConflictError
from actions.base.process import ProcessIdentity, is_alive, own_identity
from actions.run.heartbeat import Notes, announce
from actions.run.journal import LOCK_SECONDS, Journal
from actions.run.starts import note_start

_GRANTED = ""
"""The token of a lease whose holder was started for it and has not come to take it."""


class Lease(msgspec.Struct, frozen=True):
    """Who holds the run."""

    holder: ProcessIdentity
    token: str
    taken_at: float
    """Seconds since the epoch."""
    notes: Notes = msgspec.field(default_factory=dict)
    """Of a runner of an earlier version; newer ones keep them beside their heart-beat."""

    @property
    def is_alive(self) -> bool:
        """Whether the holder still runs, on this boot of this machine."""
        return is_alive(self.holder)


def read_lease(connection: sqlite3.Connection) -> Lease | None:
    """The lease as it stands; its holder may be dead. `None` if nobody holds it."""
    return _lease_of(
        connection.execute(
            "SELECT pid, start_ticks, boot_id, token, taken_at, notes FROM lease WHERE id = 1"
        ).fetchone()
    )


def grant_lease(
    path: Path, clock: Clock, start: Callable[[], ProcessIdentity], *, is_asked_for: bool = True
) -> ProcessIdentity | None:
    """Start the run's runner with the lease in its name, unless somebody alive holds it.

    Whoever asks next, even before the new process has come to its own first line, finds the run in good hands.

    Args:
        path: The run's journal.
        clock: Stamps the lease.
        start: Starts the process that is going to call `take_lease`.
        is_asked_for: See `note_start`.

    Returns:
        Who was started, or `None`.
    """
    journal = Journal(path, clock)
    try:
        with journal.transaction() as connection:
            current = read_lease(connection)
            if current is not None and current.is_alive:
                return None
            holder = start()
            _write(connection, Lease(holder, _GRANTED, clock.now().timestamp()))
            announce(path.parent, holder, clock)
            note_start(path.parent, clock, is_asked_for=is_asked_for)
    finally:
        journal.close()
    return holder


def take_lease(path: Path, clock: Clock, *, lock_seconds: float = LOCK_SECONDS) -> Lease:
    """Become the run's runner.

    Raises:
        ConflictError: Another process is, and it is alive.
        JournalUnwritableError: There is no room, or the journal is locked for longer than `lock_seconds`.
    """
    journal = Journal(path, clock, lock_seconds=lock_seconds)
    own = own_identity()
    lease = Lease(own, secrets.token_hex(8), clock.now().timestamp())
    try:
        with journal.transaction() as connection:
            current = read_lease(connection)
            is_ours = current is not None and current.holder == own and current.token == _GRANTED
            if current is not None and current.is_alive and not is_ours:
                raise ConflictError(
                    f"the run {path.parent.name} is already carried out by process {current.holder.pid}.",
                    hint="Watch it with `eksml-tui runs show`.",
                )
            _write(connection, lease)
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
        seen: Number of the newest record that the caller has taken into account.

    Returns:
        Whether it was given back. If not, look at the new records first: their writer relies on a living runner.
    """
    with journal.transaction() as connection:
        if journal.last_seq() != seen:
            return False
        connection.execute("DELETE FROM lease WHERE id = 1 AND token = ?", (token,))
    return True


def _write(connection: sqlite3.Connection, lease: Lease) -> None:
    holder = lease.holder
    connection.execute(
        "INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?, ?, '{}')",
        (holder.pid, holder.start_ticks, holder.boot_id, lease.token, lease.taken_at),
    )


def _lease_of(row: tuple[int, int, str, str, float, str] | None) -> Lease | None:
    if row is None:
        return None
    pid, start_ticks, boot, token, taken_at, notes = row
    try:
        told = msgspec.json.decode(notes, type=dict[str, str])
    except msgspec.MsgspecError:
        told = {}
    return Lease(ProcessIdentity(pid, start_ticks, boot), token, taken_at, told)
