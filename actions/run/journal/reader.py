"""The readers of a run: polled views, summaries of all runs, and notices about its runner, disk and journal lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import JournalError
from actions.base.files import is_read_only
from actions.base.process import ProcessIdentity
from actions.base.untrusted import one_line
from actions.run.journal.folder import has_room, journal_path
from actions.run.journal.journal_file import JournalReader
from actions.run.journal.lease import HeartbeatState, has_crashed_too_often, read_heartbeat
from actions.run.journal.store import Lease, read_runner_lease
from actions.run.journal.watched import WatchedOnly, read_watched
from actions.run.limits.options import short_limits
from actions.run.limits.rules import limit_notices
from actions.run.paid import RunPaid, paid_by
from actions.run.spending import Spending, spending_of
from actions.run.state.alarms import alarm_notices, has_alarms_to_send, present_stage, waiting_alarms
from actions.run.state.fold import fold
from actions.run.state.planner import Finish, next_step
from actions.run.state.records import Created, JournalRecord, RunRequest
from actions.run.state.view import (
    GIVEN_UP,
    OVER,
    AlarmView,
    Notice,
    NoticeKind,
    RunState,
    RunView,
    StageState,
    StageView,
    UnusedDevices,
    with_troubles,
)

_ATTENDED = {
    NoticeKind.DISK_FULL: "The disk is full: running work continues, no further stage begins.",
    NoticeKind.READ_ONLY: "The run's folder cannot be written: running work continues, nothing can be recorded.",
    NoticeKind.LOCKED: "The journal is locked by another process; the runner waits for it.",
    NoticeKind.STORE_AWAY: "Its store {store} does not answer: what is new stays on this machine, and follows later.",
    NoticeKind.STORE_REFUSED: "Its store {store} refuses this machine: what is new stays here, and follows later.",
    NoticeKind.WATCHDOG_IDLE: "Its watchdog does not work: nothing stops its jobs while this machine is off.",
}
_BESIDE = (NoticeKind.UNCERTAIN, NoticeKind.STORE_AWAY, NoticeKind.STORE_REFUSED, NoticeKind.WATCHDOG_IDLE)
"""Obstacles that only a runner that is alive reports."""
_UNATTENDED = {
    NoticeKind.DISK_FULL: "The disk is full.",
    NoticeKind.READ_ONLY: "The run's folder is on a file system that is mounted read-only.",
}
_CAN_STALL = frozenset(
    {RunState.RUNNING, RunState.AWAITING_APPROVAL, RunState.TEARING_DOWN, RunState.WAITING, RunState.UNKNOWN}
)


class RunMonitor:
    """The checks of one run's runner, disk and journal lock. One thread may use it.

    Args:
        folder: The run's.
        clock: Time.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._since: dict[tuple[NoticeKind, float | None], float] = {}

    def heartbeat_of(self, lease: Lease | None) -> HeartbeatState | None:
        """Return the newest heartbeat of the runner that holds `lease`."""
        return None if lease is None else read_heartbeat(self._folder, lease.holder)

    def notices(self, lease: Lease | None, beat: HeartbeatState | None) -> tuple[Notice, ...]:
        """Check, and return the problems that there are now.

        Args:
            lease: Of a runner that is alive.
            beat: Its newest heartbeat.
        """
        found = tuple(self._found(lease, beat))
        self._since = {key: since for key, since in self._since.items() if key[0] in {notice.kind for notice in found}}
        return found

    def _found(self, lease: Lease | None, beat: HeartbeatState | None) -> Iterator[Notice]:
        waits = {NoticeKind(name): since for name, since in (beat.waits if beat else {}).items() if name in _KINDS}
        texts = _ATTENDED if lease is not None else _UNATTENDED
        is_mounted_read_only = is_read_only(self._folder)
        if is_mounted_read_only or NoticeKind.READ_ONLY in waits:
            yield self._notice(NoticeKind.READ_ONLY, texts[NoticeKind.READ_ONLY], waits.get(NoticeKind.READ_ONLY))
        elif NoticeKind.DISK_FULL in waits or not has_room(self._folder):
            yield self._notice(NoticeKind.DISK_FULL, texts[NoticeKind.DISK_FULL], waits.get(NoticeKind.DISK_FULL))
        if NoticeKind.LOCKED in waits:
            yield self._notice(NoticeKind.LOCKED, _ATTENDED[NoticeKind.LOCKED], waits[NoticeKind.LOCKED])
        for kind in _BESIDE:
            if lease is not None and kind in waits:
                reason = beat.reasons.get(kind.value, "") if beat is not None else ""
                yield self._notice(kind, f"{_ATTENDED.get(kind, '')} {reason}".strip(), waits[kind])
        if lease is None or beat is None or is_mounted_read_only:  # no heartbeat can be written: silence proves nothing
            return
        if beat.is_stalled(self._clock.monotonic()):
            pid = lease.holder.pid
            yield self._notice(NoticeKind.STALLED, f"Its runner, process {pid}, does not respond.", beat.at)

    def _notice(self, kind: NoticeKind, text: str, since: float | None) -> Notice:
        """Return a notice with its start in wall time, computed once so that it stays the same."""
        if since is None:
            return Notice(kind, text)
        key = (kind, since)
        if key not in self._since:
            self._since[key] = self._clock.now().timestamp() - (self._clock.monotonic() - since)
        return Notice(kind, text, self._since[key])


_KINDS = frozenset(kind.value for kind in NoticeKind)


def is_unattended(view: RunView) -> bool:
    """Return whether the run was begun and has work left. For a run whose runner is not alive."""
    return view.last_seq > 1 and not isinstance(next_step(view), Finish)


def no_runner(folder: Path, clock: Clock) -> Notice:
    """Return the notice of a run that a crash or a reboot has interrupted."""
    text = GIVEN_UP if has_crashed_too_often(folder, clock) else "It has no runner."
    return Notice(NoticeKind.NO_RUNNER, text)


STORE_BEHIND = "Its runner was lost, and its store {store} may not have its end: others may see it at work, and lost."
ALARMS_UNSENT = "Its runner was lost before it had sent its alarms."
COPY = "It is a copy of the folder of run {run}, to look at only."
COPY_REMEDY = "Name the run itself. If its own folder is lost, give this one its name."


def state_with(state: RunState, notices: Sequence[Notice]) -> RunState:
    """Return the state of a run, corrected by the notices about its runner."""
    return RunState.STALLED if _is_stalled(notices) and state in _CAN_STALL else state


def _is_stalled(notices: Sequence[Notice]) -> bool:
    return any(notice.kind is NoticeKind.STALLED for notice in notices)


_LONGEST_PATH = 5000
_TRIES = 20
_START_SECONDS = 10.0
"""Time in which a request may be in the journal before its writer has started a runner for it."""
_LIMITS_SECONDS = 5.0
"""Pause between two looks at the limits of a run that does not change."""


class RunReader:
    """The reader of one run, for one thread. Makes a few small reads while nothing changes; keeps no file open.

    Args:
        folder: The run's folder.
        clock: Time.

    Raises:
        JournalError: Its journal cannot be read.
    """

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()
        self._journal = JournalReader(journal_path(folder))
        self._watch = RunMonitor(folder, self._clock)
        self._records: list[JournalRecord] = []
        self._lease: Lease | None = None
        self._seen: object = None
        self._guard = threading.Lock()
        self.newest: RunView | None = None
        """The result of the last poll that found something."""
        self.watched: WatchedOnly | None = None
        """The reason for which the run can only be watched here, as of that poll."""
        self._is_alive = self._is_starting = False
        self._folded: RunView | None = None
        self._near: tuple[Notice, ...] = ()
        self._looked_at = 0.0
        self._take()

    @property
    def runner_alive(self) -> bool:
        """True if a runner's process existed at the last poll, stalled or not."""
        return self._is_alive

    @property
    def is_starting(self) -> bool:
        """True if at the last poll a runner was started and had not begun, or one was about to be started.

        The latter: a request for it is in the journal, and none had died.
        """
        return self._is_starting

    @property
    def has_died(self) -> bool:
        """True if at the last poll a runner had ended without giving its lease back."""
        return self._lease is not None and not self._is_alive

    @property
    def holder(self) -> ProcessIdentity | None:
        """The process that holds the lease, dead or alive."""
        return self._lease.holder if self._lease else None

    def poll(self) -> RunView | None:
        """Return the run, or `None` if it has not changed since the last poll.

        Raises:
            JournalError: The journal is damaged.
        """
        with self._guard:
            return self._poll()

    def _poll(self) -> RunView | None:
        self._take()
        watched = read_watched(self.folder)
        original = "" if watched is not None and not watched.epoch else self._original()
        lease = self._lease if self._lease is not None and self._lease.is_alive and not original else None
        beat = self._watch.heartbeat_of(lease)
        notices = self._watch.notices(lease, beat)
        notes = dict(beat.notes) if beat else watched.notes if watched else {}
        troubles = dict(beat.troubles) if beat and lease is not None else watched.troubles if watched else {}
        unused = beat.unused if beat and lease is not None else None
        is_starting = self._awaits_runner() if lease is None else not (lease.is_taken or _is_stalled(notices))
        seen = (len(self._records), lease, notices, notes, troubles, unused, watched, is_starting)
        near, is_same = self._near, seen == self._seen
        if is_same and self._near_limits() == near:
            return None
        writer = lease.token if lease else watched.writer if watched else ""
        self._seen, self._is_starting = seen, is_starting
        self._is_alive = lease is not None or bool(writer)  # a lease that is granted has no token yet
        view = self._folded = fold(self._records, holder=writer)
        if not is_same:
            self._looked_at = 0.0
        notices = (*self._near_limits(), *notices, *alarm_notices(view))
        self.watched = watched if watched is not None and watched.holds_for(view) and not original else None
        if original:
            copy = Notice(NoticeKind.COPY, COPY.replace("{run}", view.id), place=view.id, hint=COPY_REMEDY)
            notices = (copy, *notices)
            view = replace(view, id=printable(self.folder.name))
        elif self.watched is not None:
            notices = (self.watched.notice(), *notices)
        elif lease is None and not is_starting and is_unattended(view):
            notices = (no_runner(self.folder, self._clock), *notices)
        else:
            notices = (*self._left_behind(view), *notices)
        store = view.store or "in its cluster"
        notices = tuple(replace(notice, text=notice.text.replace("{store}", store)) for notice in notices)
        view = replace(
            view, state=state_with(view.state, notices), notices=notices, is_starting=is_starting, unused=unused
        )
        self.newest = with_troubles(_with_notes(view, notes), troubles)
        return self.newest

    def _original(self) -> str:
        """Return the run that this folder is a copy of, by its name; empty if it is the run's own.

        A hidden folder does not count: it is about to get its name, or was put aside.
        """
        created = self._records[0].body if self._records else None
        if not isinstance(created, Created) or self.folder.name.startswith("."):
            return ""
        return created.run_id if created.run_id != self.folder.name else ""

    def _left_behind(self, view: RunView) -> Iterator[Notice]:
        """Yield what a runner that was lost has left to do at the run's end: one that ends gives its lease back."""
        if self._lease is None or self._lease.is_alive or not isinstance(next_step(view), Finish):
            return
        if view.store:
            yield Notice(NoticeKind.STORE_BEHIND, STORE_BEHIND)
        if has_alarms_to_send(view):
            yield Notice(NoticeKind.ALARMS_UNSENT, ALARMS_UNSENT)

    def _awaits_runner(self) -> bool:
        """Return whether a request was written just now, which its writer starts a runner for."""
        newest = self._records[-1] if self._records else None
        if self._lease is not None or newest is None or not isinstance(newest.body, RunRequest):
            return False
        return 0.0 <= self._clock.now().timestamp() - newest.at < _START_SECONDS

    def _near_limits(self) -> tuple[Notice, ...]:
        """Return the limits that are near, as of a few seconds ago."""
        now = self._clock.monotonic()
        if self._folded is None or not (self._folded.limits.is_set or self._folded.limits_reached):
            self._near = ()
        elif not self._looked_at or now - self._looked_at >= _LIMITS_SECONDS:
            self._looked_at = now
            self._near = limit_notices(self._folded, self._clock.now().timestamp())
        return self._near

    @property
    def number(self) -> int:
        """The run's position in the order of creation, by its journal; 0 if unknown."""
        created = self._records[0].body if self._records else None
        return created.number if isinstance(created, Created) else 0

    def records(self) -> tuple[JournalRecord, ...]:
        """Return all records as of the last poll."""
        return tuple(self._records)

    def close(self) -> None:
        """Release the records."""
        self._records.clear()

    def _take(self) -> None:
        """Read the new records, and the lease beside them, which was the same before and after."""
        for _ in range(_TRIES):
            self._lease = read_runner_lease(self.folder)
            records, is_other = self._journal.read()
            if is_other:  # another file has its name, as of a copy; or a record was taken back
                self._records.clear()
                self._seen = None
            self._records.extend(records)
            if read_runner_lease(self.folder) == self._lease:
                return


def load_run(folder: Path) -> RunView:
    """Return the run as it is now.

    Raises:
        JournalError: Its journal cannot be read.
    """
    view = RunReader(folder).poll()
    if view is None:
        raise JournalError(f"{folder} cannot be read.")
    return view


class RunSummary(msgspec.Struct, frozen=True):
    """One run in a list."""

    id: str
    folder: Path
    blueprint_id: str
    title: str
    cluster: str
    created_at: float
    """Seconds since the epoch; 0.0 if the journal cannot be read."""
    state: RunState
    stage: str
    """Id of the stage that is under way, waits for approval or, in a run that failed, has failed; else empty."""
    leftovers: int
    is_interrupted: bool
    """The run was begun, work is left, and no runner is alive: a crash or a reboot has interrupted it."""
    error: str
    """The reason why it cannot be read; empty otherwise."""
    number: int = 0
    """Position in the order of creation; 0 if unknown."""
    notices: tuple[Notice, ...] = ()
    """See `RunView.notices`."""
    unknown: int = 0
    """Number of places that the audit could not search."""
    began_at: float | None = None
    """Seconds since the epoch: begin of its first stage; `None` before that."""
    ended_at: float | None = None
    """End of its last stage; `None` while one is under way or will be."""
    spending: Spending | None = None
    """Its cost so far; `None` without prices."""
    paid: RunPaid | None = None
    """The things that it pays for by the hour now; `None` if it cannot be read."""
    epoch: int = 1
    """See `RunView.epoch`."""
    last_loss: float | None = None
    """The newest training loss of its log."""
    limits: str = ""
    """Its limits in a few words; empty without any."""
    owner: str = ""
    """`user@host`; empty if it cannot be read."""
    store: str = ""
    """See `RunView.store`."""
    has_runner: bool = False
    """A runner of this machine is alive, stalled or not."""
    is_store_behind: bool = False
    """Nothing is left but to bring its end into its store: a crash or a reboot has interrupted that."""
    has_alarms_left: bool = False
    """Nothing is left but to send its alarms: a crash or a reboot has interrupted that."""
    alarms: tuple[AlarmView, ...] = ()
    """Those that are not acknowledged, and whose cause is there."""
    unused: UnusedDevices | None = None
    """See `RunView.unused`."""
    taken_by: str = ""
    """`user@host` of the machine that has taken it over; empty if none has."""

    @property
    def is_copy(self) -> bool:
        """True if its folder is a copy of a run's: it is named by its folder, and to look at only."""
        return any(notice.kind is NoticeKind.COPY for notice in self.notices)

    def took_seconds(self, now: float) -> float | None:
        """Return how long its stages have taken, from the first begin to the last end; `None` before that."""
        end = now if self.ended_at is None else self.ended_at
        return None if self.began_at is None else max(0.0, end - self.began_at)


def run_summary(reader: RunReader, view: RunView, now: float) -> RunSummary:
    """Return the summary of a run.

    Args:
        reader: Its reader.
        view: The reader's newest view.
        now: Seconds since the epoch, for what it has cost so far.
    """
    kinds = {notice.kind for notice in view.notices}
    return RunSummary(
        id=view.id,
        folder=reader.folder,
        blueprint_id=view.blueprint_id,
        title=view.title,
        cluster=view.cluster.name,
        created_at=view.created_at,
        state=view.state,
        stage=present_stage(view),
        leftovers=len(view.audit.leftovers) if view.audit else 0,
        is_interrupted=NoticeKind.NO_RUNNER in kinds,
        is_store_behind=NoticeKind.STORE_BEHIND in kinds,
        has_alarms_left=NoticeKind.ALARMS_UNSENT in kinds,
        alarms=waiting_alarms(view),
        error="",
        number=reader.number,
        notices=view.notices,
        unknown=len(view.audit.unknown) if view.audit else 0,
        began_at=min((stage.worked[0].begin for stage in view.stages if stage.worked), default=None),
        ended_at=_end_of(view),
        spending=spending_of(view, now),
        paid=paid_by(view),
        epoch=view.epoch,
        limits=short_limits(view.limits),
        owner=str(view.owner or ""),
        store=view.store,
        has_runner=reader.runner_alive,
        unused=view.unused,
        taken_by=reader.watched.who if reader.watched is not None else "",
    )


def _end_of(view: RunView) -> float | None:
    ends = [period.end for stage in view.stages for period in stage.worked]
    if view.state not in _OVER:
        return None
    return max((end for end in ends if end is not None), default=None)


def printable(path: Path | str) -> str:
    """Return a path, or a text that names one, in printable form; names of files are bytes and may not be text."""
    return one_line(os.fsencode(path).decode(errors="backslashreplace"), limit=_LONGEST_PATH)


def unreadable(folder: Path, reason: str) -> RunSummary:
    """Return the summary of a run that cannot be read."""
    return RunSummary(
        printable(folder.name),
        folder,
        "",
        "",
        "",
        0.0,
        RunState.UNKNOWN,
        "",
        0,
        is_interrupted=False,
        error=printable(reason),
    )


_OVER = OVER | {RunState.TEARING_DOWN}


def _with_notes(view: RunView, notes: Mapping[str, str]) -> RunView:
    if not notes:
        return view

    def noted(stage: StageView) -> StageView:
        note = notes.get(stage.id, "") or (notes.get("", "") if stage.kind == stage.id else "")
        return replace(stage, message=note) if note and stage.state is StageState.RUNNING else stage

    return replace(view, stages=tuple(noted(stage) for stage in view.stages), teardown=tuple(map(noted, view.teardown)))
