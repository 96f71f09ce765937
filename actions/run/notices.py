"""Obstacles to a run that no record tells of: its runner, its disk, the lock of its journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from actions.base.clock import Clock
from actions.base.files import is_read_only
from actions.run.heartbeat import Beat, read_beat
from actions.run.lease import Lease
from actions.run.moves import Finish, next_move
from actions.run.noticewords import GIVEN_UP
from actions.run.room import has_room
from actions.run.starts import has_crashed_too_often
from actions.run.view import Notice, NoticeKind, RunState, RunView

_SAID = {
    NoticeKind.DISK_FULL: "The disk is full: what runs goes on, no further stage begins.",
    NoticeKind.READ_ONLY: "The run's folder takes no writes: what runs goes on, nothing can be recorded.",
    NoticeKind.LOCKED: "The journal is locked by another process; the runner waits for it.",
}
_UNATTENDED = {
    NoticeKind.DISK_FULL: "The disk is full.",
    NoticeKind.READ_ONLY: "The run's folder is on a file system that is mounted read-only.",
}
_CAN_STALL = frozenset(
    {RunState.RUNNING, RunState.AWAITING_APPROVAL, RunState.TEARING_DOWN, RunState.WAITING, RunState.UNKNOWN}
)


class Watch:
    """Looks at the runner, the disk and the lock of one run. One thread may use it.

    Args:
        folder: The run's.
        clock: Time.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._since: dict[tuple[NoticeKind, float | None], float] = {}

    def beat_of(self, lease: Lease | None) -> Beat | None:
        """The newest sign of life of the runner that holds `lease`."""
        return None if lease is None else read_beat(self._folder, lease.holder)

    def notices(self, lease: Lease | None, beat: Beat | None) -> tuple[Notice, ...]:
        """Look, and return what there is to tell.

        Args:
            lease: Of a runner that is alive.
            beat: Its newest sign of life.
        """
        found = tuple(self._found(lease, beat))
        self._since = {key: since for key, since in self._since.items() if key[0] in {one.kind for one in found}}
        return found

    def _found(self, lease: Lease | None, beat: Beat | None) -> Iterator[Notice]:
        waits = {NoticeKind(name): since for name, since in (beat.waits if beat else {}).items() if name in _KINDS}
        texts = _SAID if lease is not None else _UNATTENDED
        is_mounted_read_only = is_read_only(self._folder)
        if is_mounted_read_only or NoticeKind.READ_ONLY in waits:
            yield self._notice(NoticeKind.READ_ONLY, texts[NoticeKind.READ_ONLY], waits.get(NoticeKind.READ_ONLY))
        elif NoticeKind.DISK_FULL in waits or not has_room(self._folder):
            yield self._notice(NoticeKind.DISK_FULL, texts[NoticeKind.DISK_FULL], waits.get(NoticeKind.DISK_FULL))
        if NoticeKind.LOCKED in waits:
            yield self._notice(NoticeKind.LOCKED, _SAID[NoticeKind.LOCKED], waits[NoticeKind.LOCKED])
        if lease is None or beat is None or is_mounted_read_only:  # where it cannot leave a sign, none says nothing
            return
        if beat.is_stalled(self._clock.monotonic()):
            pid = lease.holder.pid
            yield self._notice(NoticeKind.STALLED, f"Its runner, process {pid}, gives no sign of life.", beat.at)

    def _notice(self, kind: NoticeKind, text: str, since: float | None) -> Notice:
        """With the moment in wall time, which stays the same from look to look."""
        if since is None:
            return Notice(kind, text)
        key = (kind, since)
        if key not in self._since:
            self._since[key] = self._clock.now().timestamp() - (self._clock.monotonic() - since)
        return Notice(kind, text, self._since[key])


_KINDS = frozenset(kind.value for kind in NoticeKind)


def is_unattended(view: RunView) -> bool:
    """Return whether there is something to do that was begun; said of a run whose runner is not alive."""
    return view.last_seq > 1 and not isinstance(next_move(view), Finish)


def no_runner(folder: Path, clock: Clock) -> Notice:
    """The notice of a run that a crash or a reboot has interrupted."""
    text = GIVEN_UP if has_crashed_too_often(folder, clock) else "No runner is at work on it."
    return Notice(NoticeKind.NO_RUNNER, text)


def state_with(state: RunState, notices: Sequence[Notice]) -> RunState:
    """The word for a run, with what is seen of its runner."""
    is_stalled = any(notice.kind is NoticeKind.STALLED for notice in notices)
    return RunState.STALLED if is_stalled and state in _CAN_STALL else state
