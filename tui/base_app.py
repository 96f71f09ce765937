"""The base of the console's app: keys and clicks ahead are kept in order, and the app ends on time.

A key or a click is handled when the effect of the one before it is on screen. A key, a signal or a closed terminal
ends the app, whatever blocks it."""

from __future__ import annotations

import asyncio
import os
import signal
import unicodedata
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TypeVar

from rich.console import RenderableType
from textual import events
from textual.dom import DOMNode
from textual.driver import Driver
from textual.errors import NoWidget
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget

from actions.base.errors import ConsoleError, RefusedError
from actions.base.untrusted import one_line, plain_text, redact
from tui.shutdown import ExitDeadline
from tui.textual_private import RedactingApp
from tui.widgets.base import NavigableWidget

ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")

LONGEST_HOLD_SECONDS = 3.0
"""After this, keys are handled by whatever is on screen: a slow answer must not lock the keyboard. What is counted is
turns of the loop that come on time: where they are late, the effect of a key is late by itself, and they count less."""
_TURN_SECONDS = 0.1
_LATE_SECONDS = 0.02
_LATE_TURNS = 10
"""Turns that are late, and count as much as one that is not: an end there is, even if all of them are."""
_PASSES = 3
"""Times that the path of a key is followed: a message that the key causes may cause another one higher up."""
_ERROR_SECONDS = 8.0
"""Time that a notification of an error stays."""
_MOST_TOASTS = 2
"""More errors at once would cover what they are about: the next one takes their place."""


_ERROR_LENGTH = 800
"""Characters of one: its way out stands at the end."""
_NAMES = {
    ":": "colon",
    "/": "slash",
    "?": "question_mark",
    " ": "space",
    "-": "minus",
    "_": "underscore",
    ".": "full_stop",
    ",": "comma",
    ";": "semicolon",
    "=": "equals_sign",
    "&": "ampersand",
    "esc": "escape",
}
"""Textual's names of keys that people write otherwise."""


def key_event(key: str) -> events.Key:
    """Return the event of a key, given by Textual's name or as a single character."""
    name = _NAMES.get(key, key)
    character: str | None = key if len(key) == 1 else None
    if character is None and "+" not in name:
        try:
            character = unicodedata.lookup(name.replace("_", " ").upper())
        except KeyError:
            character = None
    return events.Key(name, character)


KeyOrClick = events.Key | events.MouseDown | events.MouseUp
"""The events whose order counts. Moves of the pointer, and of the wheel, are handled as they come."""


class TypeAhead:
    """A queue of keys and clicks that are kept while there is a hold, then handled one by one, in order.

    Used on the loop only.

    Args:
        hand_over: Posts what was kept to the app again.
    """

    def __init__(self, hand_over: Callable[[KeyOrClick], object]) -> None:
        self._hand_over = hand_over
        self._kept: deque[KeyOrClick] = deque()
        self._passing: KeyOrClick | None = None
        self._holds: dict[object, asyncio.TimerHandle] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def kept(self) -> int:
        """The number of keys, and of buttons pressed and released, that are kept."""
        return len(self._kept)

    def keeps(self, key: KeyOrClick) -> bool:
        """Keep `key` while there is a hold or a queue; return whether it was kept. One that was handed over is not."""
        if key is self._passing:
            self._passing = None
            return False
        if self._holds or self._kept or self._passing:
            self._kept.append(key)
            return True
        return False

    def hold(self) -> Callable[[], None]:
        """Keep keys until the returned function is called, or `LONGEST_HOLD_SECONDS` have passed."""
        token = object()
        self._quiet.clear()
        self._wait_on(token, max(1, round(LONGEST_HOLD_SECONDS / _TURN_SECONDS)) * _LATE_TURNS)
        return lambda: self._release(token)

    def release_all(self) -> None:
        """End every hold."""
        for token in list(self._holds):
            self._release(token)

    async def wait_until_quiet(self) -> None:
        """Return when there is no hold and no key is kept."""
        await self._quiet.wait()

    def _wait_on(self, token: object, left: int) -> None:
        if left <= 0:
            self._release(token)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + _TURN_SECONDS
        self._holds[token] = loop.call_at(due, self._turn, token, left, due)

    def _turn(self, token: object, left: int, due: float) -> None:
        is_late = asyncio.get_running_loop().time() > due + _LATE_SECONDS
        self._wait_on(token, left - (1 if is_late else _LATE_TURNS))

    def _release(self, token: object) -> None:
        timer = self._holds.pop(token, None)
        if timer is None:
            return
        timer.cancel()
        if self._holds or self._passing:
            return
        if self._kept:
            self._passing = self._kept.popleft()
            self._hand_over(self._passing)
        else:
            self._quiet.set()


class TypeAheadApp(RedactingApp[ResultT]):
    """An app that handles a key or click only when the one before it was handled and its effect is on screen."""

    def __init__(self) -> None:
        super().__init__()
        self.type_ahead = TypeAhead(self.post_message)

    async def on_event(self, event: events.Event) -> None:
        """Keep keys and clicks back, or follow them on their path from the widget that they are for up to the app."""
        if not isinstance(event, KeyOrClick) or event.is_forwarded:
            await super().on_event(event)
        elif not self.type_ahead.keeps(event):
            release = self.type_ahead.hold()
            widget = self._meant_by(event)
            if isinstance(event, events.Key) and isinstance(widget, NavigableWidget) and widget.move_by(event.key):
                release()  # no other widget handles it, so there is nothing to follow
                return
            path = list(widget.ancestors_with_self) if widget is not None else []
            await super().on_event(event)
            self._follow(path * _PASSES, release)

    def _meant_by(self, event: KeyOrClick) -> Widget | None:
        """Return the widget that gets a key, or that is under the pointer; the screen if there is none."""
        if not self.screen_stack:
            return None
        if isinstance(event, events.Key):
            return self.focused or self.screen
        try:
            return self.get_widget_at(event.x, event.y)[0]
        except NoWidget:
            return self.screen

    async def put_in_front(self, screen: Screen[AnswerT]) -> AnswerT:
        """Push a screen, hand it the keys typed since it was requested, and return its result.

        To be called in a worker.
        """
        answer = self.push_screen(screen, wait_for_dismiss=True)
        screen.call_after_refresh(self.type_ahead.release_all)
        return await answer

    def notify_and_release(self, text: str) -> None:
        """Show a sentence of a command that may take long, and end all holds: keys are for the screen as it is."""
        self.notify_plainly(text)
        self.type_ahead.release_all()

    def close_notifications(self) -> bool:
        """Take away all notifications; return `False` if none is on screen."""
        is_one_shown = bool(self.screen.query("Toast"))
        self.clear_notifications()
        return is_one_shown

    def notify_error(self, error: ConsoleError) -> None:
        """Show an error; a refusal as a warning."""
        severity: SeverityLevel = "warning" if isinstance(error, RefusedError) else "error"
        text = one_line(redact(self.worded(" ".join(error.sentences()))), limit=_ERROR_LENGTH)
        if len(self.screen.query("Toast")) >= _MOST_TOASTS:
            self.clear_notifications()
        self.notify(text, severity=severity, markup=False, timeout=_ERROR_SECONDS)

    def choose_theme(self, name: str) -> None:
        """Draw in the theme of this name; overridden by apps that have several."""

    def redraw(self) -> None:
        """Draw everything on all screens again."""
        for screen in self.screen_stack:
            screen.refresh()
            for widget in screen.query("*"):
                widget.refresh()

    def release_when_shown(self, release: Callable[[], None], place: DOMNode) -> None:
        """End a hold after the next refresh of the front: of a screen pushed over the first one, else of `place`."""
        front = self.screen if len(self.screen_stack) > 1 else place
        if not front.call_after_refresh(release):
            release()

    def _follow(self, path: Sequence[DOMNode], release: Callable[[], None]) -> None:
        """Queue a callback behind the key in one node after the other; call `release` after the last."""
        for index, node in enumerate(path):
            if node.call_later(self._follow, path[index + 1 :], release):
                return
        release()


def is_in_browser(environment: Mapping[str, str]) -> bool:
    """Return whether this process is a console of `eksml-tui serve`: Textual's server names the driver."""
    return environment.get("TEXTUAL_DRIVER") == "textual.drivers.web_driver:WebDriver"


_FAILED = 1
_HUNG_UP = 128 + signal.SIGHUP
_STALLED_SECONDS = 0.5
"""For a terminal to accept output, once the app is to end."""


class BaseApp(TypeAheadApp[ResultT]):
    """An app on a terminal, with the driver of `tui.terminal`.

    Args:
        exit_deadline: Ends the process if closing takes too long; `None` for an app inside another program.
    """

    CLOSE_TIMEOUT = 1.0

    def __init__(self, exit_deadline: ExitDeadline | None = None) -> None:
        super().__init__()
        self._exit_deadline = exit_deadline

    def get_driver_class(self) -> type[Driver]:
        """Return the driver of `tui.terminal` for a terminal or a browser."""
        from tui.terminal.driver import TerminalDriver, browser_driver

        return browser_driver() if is_in_browser(os.environ) else TerminalDriver

    def leave_on_signals(self) -> None:
        """End on SIGTERM and SIGHUP, even while the loop waits for a terminal that is not read."""
        if self._exit_deadline is not None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, partial(self._signalled, loop))

    def exit(self, result: ResultT | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """End the app in order; if that takes longer than a second and a half, end the process."""
        if isinstance(result, ConsoleError):
            self._begin_to_end(return_code or _FAILED, f"eksml-tui: {plain_text(redact(result.sentence()))}")
        else:
            self._begin_to_end(return_code)
        super().exit(result, return_code, message)

    def ends_badly(self, report: str) -> None:
        """Start the exit deadline: the app closes because of a defect."""
        self._begin_to_end(self.return_code or _FAILED, report)

    def hung_up(self) -> None:
        """End, or cancel the script that is played: the terminal is gone. For any thread."""
        if self._exit_deadline is None:
            self.call_later(self.stop_playing)
        else:
            self.exit(return_code=_HUNG_UP)

    def stop_playing(self) -> None:
        """Cancel the script that is being played; overridden by apps that play scripts."""

    def keys_waiting(self) -> int:
        """Return the number of keys that are not handled yet. For any thread."""
        return self.message_queue_size + self.type_ahead.kept

    def keys_dropped(self) -> None:
        """Notify that input was dropped: keys came faster than they could be handled, for long. For any thread."""
        self.call_later(self.notify_plainly, "Too many keys at once: the rest was dropped. Paste into a line.")

    def _signalled(self, loop: asyncio.AbstractEventLoop, number: int, _frame: FrameType | None) -> None:
        from tui.terminal.driver import TerminalDriver

        self._begin_to_end(128 + number)
        if isinstance(self._driver, TerminalDriver):
            self._driver.finish_within(_STALLED_SECONDS)
        with suppress(RuntimeError):  # the loop has ended, and so will the process, with the code that it has by now
            loop.call_soon_threadsafe(partial(self.exit, return_code=128 + number))

    def _begin_to_end(self, code: int, message: str = "") -> None:
        if self._exit_deadline is not None:
            self._exit_deadline.begin(code, partial(self._restore, message))

    def _restore(self, message: str) -> None:
        from tui.terminal.driver import TerminalDriver

        if isinstance(self._driver, TerminalDriver):
            self._driver.restore(message)
