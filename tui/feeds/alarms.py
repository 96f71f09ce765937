"""The feed of alarms: rings in the terminal for those that runners have raised, and takes their acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actions.base.clock import Clock, time_of_day
from actions.base.errors import ConsoleError
from actions.base.executors import in_thread
from actions.base.untrusted import one_line, redact
from actions.base.wording import counted, folded
from actions.run.state.alarms import RECENT_SECONDS, AlarmName, name_of, sent_words
from actions.run.state.records import AlarmKind
from actions.run.state.view import NoticeKind
from tui.feeds.runs import RunFeed
from tui.settings.settings import AlarmSettings, DesktopNotice

if TYPE_CHECKING:
    from actions.run.journal.reader import RunSummary


class WaitingAlarm(msgspec.Struct, frozen=True):
    """An alarm that is not acknowledged.

    Args:
        key: Its key over all runs; the same as long as its cause is there.
        text: One sentence.
        folder: The run's.
        seq: Number of its record; 0 for one that only a console can see, as the runner is stalled or gone.
        at: Seconds since the epoch; 0.0 if unknown.
        sent: What became of the ways to send it, in a few words.
    """

    key: str
    text: str
    folder: Path
    seq: int = 0
    at: float = 0.0
    sent: str = ""


class AlarmFeed:
    """The alarms of all runs that wait for an acknowledgement. Runners raise and send them; this rings for each.

    Those that waited when the runs were first read do not ring: they are on screen. One that is not acknowledged rings
    again after `AlarmSettings.repeat_minutes`. Used on the loop only; without a change it costs nothing.

    Args:
        settings: The ways to ring.
        runs: The runs.
        clock: Time, for quiet hours.
        is_quiet: Never ring: a script plays.
    """

    def __init__(self, settings: AlarmSettings, runs: RunFeed, clock: Clock, *, is_quiet: bool) -> None:
        self.settings = settings
        self.sound: Callable[[str], None] | None = None
        """Rings in the terminal; set by the app."""
        self._runs = runs
        self._clock = clock
        self._is_quiet = is_quiet
        self._present: dict[tuple[str, int], WaitingAlarm] | None = None
        self._acknowledged: set[tuple[str, int]] = set()
        self._looked_at: int | None = None
        self._repeat: asyncio.TimerHandle | None = None
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> tuple[WaitingAlarm, ...]:
        """The alarms that are not acknowledged, oldest first."""
        return tuple(alarm for key, alarm in (self._present or {}).items() if key not in self._acknowledged)

    def look(self) -> None:
        """Find new alarms, if runs have changed, and ring for them."""
        if self._is_quiet or self._runs.revision == self._looked_at or not self._runs.is_listed:
            return
        self._looked_at = self._runs.revision
        now = self._clock.now().timestamp()
        found = {(alarm.key, alarm.seq): alarm for run in self._runs.summaries for alarm in waiting_in(run, now)}
        before, self._present = self._present, found
        self._acknowledged &= found.keys()
        if before is None:
            self._acknowledged |= {key for key, alarm in found.items() if not alarm.seq}
        elif new := [alarm for key, alarm in found.items() if key not in before]:
            self._ring(new)

    def acknowledge(self) -> tuple[WaitingAlarm, ...]:
        """Let all present alarms be quiet, here and on other consoles; return those that were not."""
        quieted = self.waiting
        self._acknowledged |= {(alarm.key, alarm.seq) for alarm in quieted}
        self._cancel_repeat()
        for folder in dict.fromkeys(alarm.folder for alarm in quieted if alarm.seq):
            seqs = tuple(alarm.seq for alarm in quieted if alarm.folder == folder and alarm.seq)
            task = asyncio.ensure_future(_recorded(folder, seqs))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)
        return quieted

    def close(self) -> None:
        """End what waits."""
        self._cancel_repeat()

    def _ring(self, alarms: list[WaitingAlarm]) -> None:
        """Ring for alarms, unless the hour is quiet; begin to wait for an acknowledgement."""
        if self.sound is not None and not self.settings.ways.is_quiet_at(self._clock.now().time()):
            others = f" And {counted(len(alarms) - 1, 'more alarm')}." if len(alarms) > 1 else ""
            self.sound(f"{alarms[0].text}{others}")
        self._cancel_repeat()
        if self.settings.repeat_minutes:
            loop = asyncio.get_running_loop()
            self._repeat = loop.call_later(60 * self.settings.repeat_minutes, self._ring_again)

    def _ring_again(self) -> None:
        self._repeat = None
        if waiting := list(self.waiting):
            self._ring(waiting)

    def _cancel_repeat(self) -> None:
        if self._repeat is not None:
            self._repeat.cancel()
            self._repeat = None


async def _recorded(folder: Path, seqs: tuple[int, ...]) -> None:
    """Record an acknowledgement; where that cannot be, it holds in this console alone."""
    from actions.run.client import acknowledge_alarms

    try:
        await in_thread("alarms", acknowledge_alarms, folder, seqs)
    except ConsoleError:
        return


def alarm_page(alarms: Iterable[WaitingAlarm], width: int) -> str:
    """Return the alarms for a screen: of each its time and what became of it, then its sentence."""
    lines: list[str] = []
    for alarm in alarms:
        since = f"{time_of_day(alarm.at)} UTC" if alarm.at else "now"
        sent = f" · sent: {alarm.sent}" if alarm.sent else ""
        lines += [f"{since} · {alarm.key}{sent}", *folded(alarm.text, width, first="  ", further="  "), ""]
    return "\n".join(lines) or "No alarm waits to be acknowledged."


def waiting_in(run: RunSummary, now: float) -> Iterable[WaitingAlarm]:
    """Yield the recent alarms of a run that are not acknowledged, and that its runner is stalled or gone."""
    if run.error or run.is_copy:
        return
    for alarm in (one for one in run.alarms if now - one.at < RECENT_SECONDS):
        yield WaitingAlarm(name_of(alarm).key(run.id), alarm.text, run.folder, alarm.seq, alarm.at, sent_words(alarm))
    for notice in run.notices:
        if notice.kind in (NoticeKind.STALLED, NoticeKind.NO_RUNNER):
            name = AlarmName(AlarmKind.RUNNER, notice.kind.name.lower())
            yield WaitingAlarm(name.key(run.id), f"Run {run.id}: {notice.text}", run.folder)


def call_sequence(settings: AlarmSettings, text: str, *, is_in_tmux: bool = False) -> str:
    """Return what rings in the terminal: the bell, and the request for a desktop notification.

    Args:
        settings: The ways to call.
        text: The alarms.
        is_in_tmux: tmux drops such a request, unless it is wrapped for the terminal around it.
    """
    line = one_line(redact(text))
    notices = {
        DesktopNotice.OFF: "",
        DesktopNotice.OSC_9: f"\x1b]9;{line}\x1b\\",
        DesktopNotice.OSC_777: f"\x1b]777;notify;eksml-tui;{line.replace(';', ',')}\x1b\\",
    }
    notice = notices[settings.desktop]
    if notice and is_in_tmux:
        notice = f"\x1bPtmux;{notice.replace(chr(27), 2 * chr(27))}\x1b\\"
    return f"{'' if not settings.bell else chr(7)}{notice}"
