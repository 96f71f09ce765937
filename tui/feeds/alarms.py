"""The feed of alarms: finds new ones when the runs change, and notifies the operator as the settings demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConfigError, ConsoleError
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.untrusted import one_line, redact
from actions.base.wording import counted
from actions.run.state.view import RunView
from tui.feeds.cluster import CredentialsFeed
from tui.feeds.runs import RunFeed
from tui.settings.settings import AlarmSettings, DesktopNotice

if TYPE_CHECKING:
    from actions.run.alarms import Alarm

AlarmSource = Callable[[], Iterable["Alarm"]]
"""A function that returns the alarms there are now, such as those of curves. It is called on the loop: no reading."""

HOOK_SECONDS = 10.0
"""Time for a hook or a webhook; then it is ended."""
_MOST_CALLS = 3
"""Hooks at the same time: more alarms at once are in one call."""


class AlarmFeed:
    """The alarms of all runs: present, acknowledged, and the call for each new one.

    Those that existed when the runs were first read cause no call: they are on screen. A call that was not
    acknowledged is repeated after `AlarmSettings.repeat_minutes`. Used on the loop only; without a change it costs
    nothing.

    Args:
        settings: The ways to call.
        runs: The runs.
        credentials: Their end.
        clock: Time, for quiet hours.
        is_quiet: No call at all: a script plays.
    """

    def __init__(
        self, settings: AlarmSettings, runs: RunFeed, credentials: CredentialsFeed, clock: Clock, *, is_quiet: bool
    ) -> None:
        self.settings = settings
        self.sources: list[AlarmSource] = []
        """More alarms than those of runs."""
        self.sound: Callable[[str], None] | None = None
        """Rings in the terminal; set by the app."""
        self.complain: Callable[[str], None] | None = None
        """Shows a sentence about a hook that failed; set by the app."""
        self._runs = runs
        self._credentials = credentials
        self._clock = clock
        self._is_quiet = is_quiet
        self._present: dict[str, Alarm] | None = None
        self._acknowledged: set[str] = set()
        self._looked_at: tuple[int, RunView | None, float | None] | None = None
        self._repeat: asyncio.TimerHandle | None = None
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> tuple[Alarm, ...]:
        """The alarms that are not acknowledged, oldest first."""
        return tuple(alarm for key, alarm in (self._present or {}).items() if key not in self._acknowledged)

    def look(self) -> None:
        """Find new alarms, if runs have changed, and call for them."""
        seen = (self._runs.revision, self._runs.view, self._credentials.expires_at)
        if self._is_quiet or (seen == self._looked_at and not self.sources) or not self._runs.is_listed:
            return
        self._looked_at = seen
        found = {alarm.key: alarm for alarm in self._found()}
        before, self._present = self._present, found
        self._acknowledged &= found.keys()
        if before is None:
            self._acknowledged |= found.keys()
        elif new := [alarm for key, alarm in found.items() if key not in before]:
            self._call(new)

    def acknowledge(self) -> tuple[Alarm, ...]:
        """Let all present alarms be quiet; return those that were not."""
        quieted = self.waiting
        self._acknowledged |= {alarm.key for alarm in quieted}
        self._cancel_repeat()
        return quieted

    def close(self) -> None:
        """End what was started for a call."""
        self._cancel_repeat()
        for task in self._calls:
            task.cancel()

    def _found(self) -> Iterable[Alarm]:
        from actions.run.alarms import alarms_of, credentials_alarm  # the first frame needs no journal

        yield from alarms_of(self._runs.summaries)
        if self._runs.view is not None and self._credentials.needs_login:
            now, end = self._clock.now().timestamp(), self._credentials.expires_at
            alarm = credentials_alarm(self._runs.view, now=now, expires_at=end)
            if alarm is not None:
                yield alarm
        for source in self.sources:
            yield from source()

    def _call(self, alarms: list[Alarm]) -> None:
        """Call for alarms, unless the hour is quiet; begin to wait for an acknowledgement."""
        if not self.settings.is_quiet_at(self._clock.now().time()):
            if self.sound is not None:
                others = f" And {counted(len(alarms) - 1, 'more alarm')}." if len(alarms) > 1 else ""
                self.sound(f"{alarms[0].text}{others}")
            if (self.settings.hook or self.settings.webhook) and len(self._calls) < _MOST_CALLS:
                task = asyncio.create_task(self._call_out(alarms))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
        self._cancel_repeat()
        if self.settings.repeat_minutes:
            loop = asyncio.get_running_loop()
            self._repeat = loop.call_later(60 * self.settings.repeat_minutes, self._call_again)

    def _call_again(self) -> None:
        self._repeat = None
        if waiting := list(self.waiting):
            self._call(waiting)

    def _cancel_repeat(self) -> None:
        if self._repeat is not None:
            self._repeat.cancel()
            self._repeat = None

    async def _call_out(self, alarms: list[Alarm]) -> None:
        """Call by every way; one that fails keeps no other from it."""
        for way in (self._call_hook, self._call_webhook):
            try:
                await way(alarms)
            except ConsoleError as error:
                if self.complain is not None:
                    self.complain(f"An alarm could not be passed on: {error.sentence()}")

    async def _call_hook(self, alarms: list[Alarm]) -> None:
        if self.settings.hook:
            from actions.base.process import run_tool

            await run_tool(self.settings.hook, deadline_seconds=HOOK_SECONDS, extra_environment=hook_words(alarms))

    async def _call_webhook(self, alarms: list[Alarm]) -> None:
        if self.settings.webhook:
            from actions.cloud.download import post

            url = await in_thread("webhook", _address_in, self.settings.webhook)
            await post(url, webhook_body(alarms), total_seconds=HOOK_SECONDS)


def webhook_body(alarms: list[Alarm]) -> bytes:
    """Return the body for a webhook as Slack takes it: `&`, `<`, `>` are escaped, so no text mentions people."""
    text = redact("\n".join(alarm.text for alarm in alarms))
    return msgspec.json.encode({"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")})


def _address_in(file: Path) -> str:
    """Return the address in a file.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return read_file(file).decode(errors="replace").strip()
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.", hint="It holds the webhook's address."
        ) from error


def hook_words(alarms: list[Alarm]) -> Mapping[str, str]:
    """Return the environment variables of a hook; of several alarms a line each."""
    return {
        "EKSML_ALARM_KEY": "\n".join(alarm.key for alarm in alarms),
        "EKSML_ALARM_KIND": "\n".join(alarm.kind.value for alarm in alarms),
        "EKSML_ALARM_RUN": "\n".join(alarm.run for alarm in alarms),
        "EKSML_ALARM_TEXT": redact("\n".join(alarm.text for alarm in alarms)),
    }


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
