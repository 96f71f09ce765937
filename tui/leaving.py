"""An app that ends when it is told to, by a key, a signal or a line that hangs up, whatever holds it up."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from types import FrameType

from rich.console import RenderableType
from textual.driver import Driver

from actions.base.errors import ConsoleError
from actions.base.untrusted import plain_text, redact
from tui.ending import Ending
from tui.typeahead import PatientApp, ResultT

_FAILED = 1
_HUNG_UP = 128 + signal.SIGHUP
_STALLED_SECONDS = 0.5
"""For a terminal to take something, once the app is to end."""


class LeavingApp(PatientApp[ResultT]):
    """An app on a terminal of our own driver.

    Args:
        ending: Ends the process if closing takes too long; none for an app that is a part of something, as in a script.
    """

    CLOSE_TIMEOUT = 1.0

    def __init__(self, ending: Ending | None = None) -> None:
        super().__init__()
        self._ending = ending

    def get_driver_class(self) -> type[Driver]:
        """Our own."""
        from tui.driver import ConsoleDriver

        return ConsoleDriver

    def leave_on_signals(self) -> None:
        """End on SIGTERM and SIGHUP, even while the loop waits for a terminal that nobody reads."""
        if self._ending is not None:
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
        if self._ending is None:
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
        from tui.driver import ConsoleDriver

        self._begin_to_end(128 + number)
        if isinstance(self._driver, ConsoleDriver):
            self._driver.finish_within(_STALLED_SECONDS)
        loop.call_soon_threadsafe(partial(self.exit, return_code=128 + number))

    def _begin_to_end(self, code: int, said: str = "") -> None:
        if self._ending is not None:
            self._ending.begin(code, partial(self._restore, said))

    def _restore(self, said: str) -> None:
        from tui.driver import ConsoleDriver

        if isinstance(self._driver, ConsoleDriver):
            self._driver.restore(said)
