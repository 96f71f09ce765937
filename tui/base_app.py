"""The base of the console's app: keys typed ahead are kept in order, and the app ends on time.

A key is handed over when what the key before it brought is on screen. A key, a signal or a closed line ends the app,
whatever holds it up."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import TypeVar

from rich.console import RenderableType
from textual import events
from textual.dom import DOMNode
from textual.driver import Driver
from textual.screen import Screen

from actions.base.errors import ConsoleError
from actions.base.untrusted import plain_text, redact
from tui.shutdown import ExitDeadline
from tui.textual_private import RedactingApp
from tui.widgets.base import NavigableWidget

ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")

LONGEST_HOLD_SECONDS = 3.0
"""Then keys go to what is there: a slow answer must not lock the keyboard. Counted are turns that the loop really had,
so that a machine too busy to show what was asked for does not count as a slow answer."""
_TURN_SECONDS = 0.1
_PASSES = 3
"""How often the way of a key is gone after it: a message that it causes may cause another one higher up."""


class TypeAhead:
    """Keeps keys while somebody holds them, and hands them over one by one, in order. Used on the loop only.

    Args:
        hand_over: Gives a kept key to the app again.
    """

    def __init__(self, hand_over: Callable[[events.Key], object]) -> None:
        self._hand_over = hand_over
        self._kept: deque[events.Key] = deque()
        self._passing: events.Key | None = None
        self._holds: dict[object, asyncio.TimerHandle] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def kept(self) -> int:
        """How many keys wait."""
        return len(self._kept)

    def keeps(self, key: events.Key) -> bool:
        """Whether `key` has to wait; one that was handed over does not."""
        if key is self._passing:
            self._passing = None
            return False
        if self._holds or self._kept or self._passing:
            self._kept.append(key)
            return True
        return False

    def hold(self) -> Callable[[], None]:
        """Keep what is typed until the returned function is called, or `LONGEST_HOLD_SECONDS` have passed."""
        token = object()
        self._quiet.clear()
        self._wait_on(token, max(1, round(LONGEST_HOLD_SECONDS / _TURN_SECONDS)))
        return lambda: self._release(token)

    def let_go(self) -> None:
        """What was waited for is there: end every hold."""
        for token in list(self._holds):
            self._release(token)

    async def wait_until_quiet(self) -> None:
        """Return when nothing is held and no key is kept."""
        await self._quiet.wait()

    def _wait_on(self, token: object, turns: int) -> None:
        if turns:
            loop = asyncio.get_running_loop()
            self._holds[token] = loop.call_later(_TURN_SECONDS, self._wait_on, token, turns - 1)
        else:
            self._release(token)

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
    """An app that takes a key only when the one before has gone all its way up and has shown what it asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.type_ahead = TypeAhead(self.post_message)

    async def on_event(self, event: events.Event) -> None:
        """Keep keys back, or follow them on their way from the focused widget up to the app."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif not self.type_ahead.keeps(event):
            release = self.type_ahead.hold()
            focused = self.focused if self.screen_stack else None
            if isinstance(focused, NavigableWidget) and focused.move_by(event.key):
                release()  # nothing else has to do with it, so there is nothing to follow
                return
            way = list((focused or self.screen).ancestors_with_self) if self.screen_stack else []
            await super().on_event(event)
            self._follow(way * _PASSES, release)

    async def put_in_front(self, screen: Screen[AnswerT]) -> AnswerT:
        """Show a screen, let it have the keys typed since it was asked for, and wait for its answer.

        To be called in a worker.
        """
        answer = self.push_screen(screen, wait_for_dismiss=True)
        screen.call_after_refresh(self.type_ahead.let_go)
        return await answer

    def say(self, text: str) -> None:
        """Tell what a verb says that may go on for long: keys typed meanwhile are for what is there."""
        self.notify_plainly(text)
        self.type_ahead.let_go()

    def release_when_shown(self, release: Callable[[], None], place: DOMNode) -> None:
        """End a hold when what stands in front shows what there is to see: a screen over the first one, or `place`."""
        front = self.screen if len(self.screen_stack) > 1 else place
        if not front.call_after_refresh(release):
            release()

    def _follow(self, way: Sequence[DOMNode], release: Callable[[], None]) -> None:
        """Put a mark behind the key into one queue after the other."""
        for index, node in enumerate(way):
            if node.call_later(self._follow, way[index + 1 :], release):
                return
        release()


_FAILED = 1
_HUNG_UP = 128 + signal.SIGHUP
_STALLED_SECONDS = 0.5
"""For a terminal to take something, once the app is to end."""


class BaseApp(TypeAheadApp[ResultT]):
    """An app on a terminal of our own driver.

    Args:
        ending: Ends the process if closing takes too long; none for an app that is a part of something, as in a script.
    """

    CLOSE_TIMEOUT = 1.0

    def __init__(self, exit_deadline: ExitDeadline | None = None) -> None:
        super().__init__()
        self._exit_deadline = exit_deadline

    def get_driver_class(self) -> type[Driver]:
        """Our own."""
        from tui.terminal.driver import TerminalDriver

        return TerminalDriver

    def leave_on_signals(self) -> None:
        """End on SIGTERM and SIGHUP, even while the loop waits for a terminal that nobody reads."""
        if self._exit_deadline is not None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, partial(self._signalled, loop))

    def exit(self, result: ResultT | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """End the app: in order, and after a second and a half the process without it."""
        if isinstance(result, ConsoleError):
            self._begin_to_end(return_code or _FAILED, f"eksml-tui: {plain_text(redact(result.sentence()))}")
        else:
            self._begin_to_end(return_code)
        super().exit(result, return_code, message)

    def ends_badly(self, report: str) -> None:
        """The app has met a defect, and closes."""
        self._begin_to_end(self.return_code or _FAILED, report)

    def hung_up(self) -> None:
        """The terminal is gone: end, or break the script off that is played on it. For any thread."""
        if self._exit_deadline is None:
            self.call_later(self.stop_playing)
        else:
            self.exit(return_code=_HUNG_UP)

    def stop_playing(self) -> None:
        """Break off what is played."""

    def keys_waiting(self) -> int:
        """How many keys are not carried out yet. For any thread."""
        return self.message_queue_size + self.type_ahead.kept

    def keys_dropped(self) -> None:
        """Keys came faster than they could be carried out, for long. For any thread."""
        self.call_later(self.notify_plainly, "What came was no typing: the end of it was dropped. Paste into a line.")

    def _signalled(self, loop: asyncio.AbstractEventLoop, number: int, _frame: FrameType | None) -> None:
        from tui.terminal.driver import TerminalDriver

        self._begin_to_end(128 + number)
        if isinstance(self._driver, TerminalDriver):
            self._driver.finish_within(_STALLED_SECONDS)
        loop.call_soon_threadsafe(partial(self.exit, return_code=128 + number))

    def _begin_to_end(self, code: int, said: str = "") -> None:
        if self._exit_deadline is not None:
            self._exit_deadline.begin(code, partial(self._restore, said))

    def _restore(self, said: str) -> None:
        from tui.terminal.driver import TerminalDriver

        if isinstance(self._driver, TerminalDriver):
            self._driver.restore(said)
