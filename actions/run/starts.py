"""How often a run's runner was started without coming to an end by itself: what dies again and again is left alone."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.process import boot_id
from actions.run.block import read_block, write_block
from actions.run.folder import starts_path

MOST_STARTS = 5
WINDOW_SECONDS = 600.0
_FIRST_PAUSE_SECONDS = 1.0
_KEPT = 50


class _Starts(msgspec.Struct, frozen=True):
    boot_id: str = ""
    at: tuple[float, ...] = ()
    """Monotonic seconds of that boot, oldest first."""
    unasked: int = 0
    """How many of the newest nobody has asked for."""


def note_start(folder: Path, clock: Clock, *, is_asked_for: bool) -> None:
    """Remember that a runner was started just now. Called by who holds the journal's lock.

    Args:
        folder: The run's.
        clock: Time.
        is_asked_for: A person has asked for it, or the run was launched; else the one before has died.
    """
    starts = _recent(folder, clock)
    unasked = 0 if is_asked_for else starts.unasked + 1
    _write(folder, _Starts(boot_id(), (*starts.at, clock.monotonic())[-_KEPT:], unasked))


def forget_starts(folder: Path) -> None:
    """Forget them: a runner came to an end by itself."""
    if read_block(starts_path(folder)):
        _write(folder, _Starts())


def has_crashed_too_often(folder: Path, clock: Clock) -> bool:
    """Return whether the runner died so often lately that it is not started again by itself."""
    return len(_recent(folder, clock).at) >= MOST_STARTS


def may_start_now(folder: Path, clock: Clock) -> bool:
    """Return whether a runner that has died may be started again by itself now: the more often it died, the later."""
    starts = _recent(folder, clock)
    if len(starts.at) >= MOST_STARTS:
        return False
    pause = _FIRST_PAUSE_SECONDS * 2 ** (starts.unasked - 1)
    return not starts.unasked or clock.monotonic() - starts.at[-1] >= pause


def _recent(folder: Path, clock: Clock) -> _Starts:
    try:
        starts = msgspec.json.decode(read_block(starts_path(folder)), type=_Starts)
    except msgspec.MsgspecError:
        return _Starts()
    if starts.boot_id != boot_id():
        return _Starts()
    now = clock.monotonic()
    at = tuple(one for one in starts.at if now - WINDOW_SECONDS <= one <= now)
    return _Starts(starts.boot_id, at, min(starts.unasked, len(at)))


def _write(folder: Path, starts: _Starts) -> None:
    write_block(starts_path(folder), msgspec.json.encode(starts))
