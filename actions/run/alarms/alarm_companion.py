"""The companion for a run's alarms: a task beside the runner, which raises each once, records that, and sends it.

The record that an alarm is raised is written before the first call, the record of its end after the last. A runner
that is killed in between leaves an alarm that the next one sends: each is sent at least once, and twice only if the
runner was killed in the moment between an answer and its record.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.executors import in_thread
from actions.base.untrusted import one_line, redact
from actions.run.alarms.causes import Alarm, alarms_of
from actions.run.alarms.send import Message, send
from actions.run.alarms.ways import SILENCED, AlarmWays
from actions.run.state.alarms import AlarmName, has_alarms_to_send, name_of, open_alarms
from actions.run.state.records import AlarmEnded, AlarmKind, AlarmRaised, AlarmSent, Body
from actions.run.state.view import OVER, AlarmView, RunView

LOOK_SECONDS = 0.5
"""Pause between two looks at the run."""
CALM_SECONDS = 3.0
"""Pause between two looks while no record is written: curves, pods and the clock change, too."""
GONE_SECONDS = 30.0
"""A cause that is observed has to be gone for so long: pods and curves come back, and a new runner has not seen any."""
HELD_SECONDS = 60.0
"""The longest time for which alarms that cannot be sent keep a runner that has nothing else to do."""
MOST_AN_HOUR = 12
"""Alarms of one kind that a run may raise in an hour: a noisy curve is one trouble, not a hundred."""
LATE_SECONDS = 3600.0
"""An alarm that is older is not sent: its operator has learned of it otherwise, or too late."""
CONFIG = "config"
"""The way of an alarm for which the settings could not be read."""
_OF_RECORDS = frozenset(AlarmKind) - {AlarmKind.PODS, AlarmKind.TRAINING}
"""Kinds whose cause is in the records, so that it is certainly gone when they do not show it."""


class AlarmJournal(Protocol):
    """The part of the runner's journal that the companion uses."""

    async def view(self) -> RunView:
        """Return the run as the newest record leaves it."""
        ...

    def view_if_readable(self) -> RunView:
        """Return the run without waiting."""
        ...

    async def write(self, body: Body) -> None:
        """Append a record; wait as long as it takes."""
        ...


Observe = Callable[[RunView], Awaitable[Iterable[Alarm]]]
"""Returns the alarms that records do not show, or raises a `ConsoleError`: then what was raised stays."""


class AlarmCompanion:
    """The companion that raises and sends the alarms of a run.

    Args:
        journal: Of the run.
        observe: Nothing slow on the loop.
        ways: Reads how they are sent; called in a thread.
        clock: The machine's.
    """

    name = "alarms"

    def __init__(
        self,
        journal: AlarmJournal,
        observe: Observe,
        ways: Callable[[], AlarmWays],
        clock: Clock,
    ) -> None:
        self._journal = journal
        self._observe = observe
        self._ways = ways
        self._clock = clock
        self._seen: dict[AlarmName, float] = {}
        """Monotonic seconds at which each cause was there last."""
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._held_since: float | None = None
        self._looked: tuple[RunView, float] | None = None

    async def accompany(self) -> None:
        """Look for alarms, and send them, until cancelled."""
        try:
            while True:
                await self.look()
                await self._clock.sleep(LOOK_SECONDS)
        finally:
            for call in self._calls.values():
                call.cancel()

    async def finish(self, view: RunView) -> None:
        """Do nothing: what was to be sent is sent before the runner gives its lease back."""

    def is_behind(self) -> bool:
        """Return whether the runner is to stay as an alarm is not sent yet; for a minute at most."""
        if not has_alarms_to_send(self._journal.view_if_readable()):
            self._held_since = None
            return False
        now = self._clock.monotonic()
        self._held_since = now if self._held_since is None else self._held_since
        return now - self._held_since < HELD_SECONDS

    async def look(self, *, at_once: bool = False) -> None:
        """Look, after a new record or some seconds: raise what is new, end what is gone, and begin to send.

        Args:
            at_once: Whatever was written.
        """
        view = await self._journal.view()
        now, moment = self._clock.now().timestamp(), self._clock.monotonic()
        is_looked_at = self._looked is not None and self._looked[0] is view and moment - self._looked[1] < CALM_SECONDS
        if is_looked_at and not at_once:
            return
        self._looked = view, moment
        known = open_alarms(view)
        found = {alarm.name: alarm for alarm in alarms_of(view, now=now)}
        for name in known:
            self._seen.setdefault(name, moment)
        try:
            found |= {alarm.name: alarm for alarm in await self._observe(view)}
        except ConsoleError:
            self._seen |= {name: moment for name in known if name.kind not in _OF_RECORDS}
        self._seen |= dict.fromkeys(found, moment)
        for name, alarm in known.items():
            wait = 0.0 if name.kind in _OF_RECORDS or view.state in OVER else GONE_SECONDS
            if name not in found and moment - self._seen[name] >= wait:
                await self._journal.write(AlarmEnded(alarm.seq))
        recent = Counter(alarm.kind for alarm in view.alarms if now - alarm.at < 3600)
        for name, new in found.items():
            if name not in known and (name.kind in _OF_RECORDS or recent[name.kind] < MOST_AN_HOUR):
                recent[name.kind] += 1
                await self._raise(new)
        self._send(await self._journal.view())

    async def _raise(self, alarm: Alarm) -> None:
        names: tuple[str, ...] = ()
        if os.environ.get(SILENCED) != "off":
            try:
                names = (await in_thread("alarms", self._ways)).names_at(self._clock.now())
            except ConsoleError:
                names = (CONFIG,)  # the call names what is wrong
        await self._journal.write(AlarmRaised(alarm.name.kind, alarm.text, alarm.name.place, names))

    def _send(self, view: RunView) -> None:
        """Begin to send what is left, by each way one alarm after the other, beside the runner's work."""
        for way in {way for alarm in view.alarms for way in alarm.left}:
            call = self._calls.get(way)
            if call is None or call.done():
                left = [alarm for alarm in view.alarms if way in alarm.left]
                self._calls[way] = asyncio.ensure_future(self._sent(view, way, left))

    async def _sent(self, view: RunView, way: str, alarms: Iterable[AlarmView]) -> None:
        for alarm in alarms:
            if self._clock.now().timestamp() - alarm.at > LATE_SECONDS:
                reason = "It was raised more than an hour ago, and nothing sent it."
            else:
                reason = await self._tried(way, message_of(view, alarm))
            await self._journal.write(AlarmSent(alarm.seq, way, reason))

    async def _tried(self, way: str, message: Message) -> str:
        """Return the reason for which an alarm was not sent; empty if it was."""
        try:
            return await send(self._ways, way, message, self._clock)
        # recorded, too: the alarm is not tried for ever
        except (OSError, ValueError, RuntimeError, ArithmeticError) as error:
            return one_line(redact(f"Unexpected {type(error).__name__}: {error}"))


def message_of(view: RunView, alarm: AlarmView) -> Message:
    """Return an alarm of a run as hooks and webhooks get it."""
    key = name_of(alarm).key(view.id)
    return Message(key, alarm.kind.value, view.id, alarm.text, alarm.at, view.cluster.name)
