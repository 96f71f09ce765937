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


def note_start(folder: Path, clock: Clock) -> None:
    """Remember that a runner was started just now. Called by who holds the journal's lock."""
    _write(folder, (*_recent(folder, clock), clock.monotonic()))


def forget_starts(folder: Path) -> None:
    """Forget them: a runner came to an end by itself."""
    if read_block(starts_path(folder)):
        _write(folder, ())


def has_crashed_too_often(folder: Path, clock: Clock) -> bool:
    """Whether the runner was started so often lately, and died each time, that it is not started again by itself."""
    return len(_recent(folder, clock)) >= MOST_STARTS


def may_start_now(folder: Path, clock: Clock) -> bool:
    """Whether a runner that has died may be started again by itself now: the more often it died, the later."""
    recent = _recent(folder, clock)
    if len(recent) >= MOST_STARTS:
        return False
    pause = _FIRST_PAUSE_SECONDS * 2 ** (len(recent) - 1)
    return not recent or clock.monotonic() - recent[-1] >= pause


def _recent(folder: Path, clock: Clock) -> tuple[float, ...]:
    try:
        starts = msgspec.json.decode(read_block(starts_path(folder)), type=_Starts)
    except msgspec.MsgspecError:
        return ()
    if starts.boot_id != boot_id():
        return ()
    now = clock.monotonic()
    return tuple(at for at in starts.at if now - WINDOW_SECONDS <= at <= now)


def _write(folder: Path, at: tuple[float, ...]) -> None:
    write_block(starts_path(folder), msgspec.json.encode(_Starts(boot_id(), at[-_KEPT:])))
