"""The console as a Textual app: makes services, workspace, dispatcher and script driver, and connects them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from textual.filter import LineFilter
from textual.screen import Screen
from textual.worker import Worker

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError
from actions.base.files import asset
from tui.base_app import BaseApp
from tui.commands.dispatcher import CommandDispatcher
from tui.feeds.services import ConsoleServices
from tui.feeds.ticker import Ticker
from tui.screens.console import CommandProvider, ConsoleScreen
from tui.screens.live_screen import LiveScreen
from tui.screens.workspace import PaneWorkspace
from tui.script_driver import ScriptDriver
from tui.settings.appearance import THEME_NAME, AsciiFilter, ControlFilter, console_theme
from tui.settings.keymap import take_keymap
from tui.settings.settings import ConsoleSettings
from tui.shutdown import ExitDeadline
from tui.textual_private import release_closed_widgets

if TYPE_CHECKING:
    from tui.commands.app_actions import Handler
    from tui.feeds.run_actions import RunActions

Play = Callable[[ScriptDriver], Awaitable[Any]]


class ConsoleApp(BaseApp[Any]):
    """The console on a terminal, or headless under a script.

    Args:
        settings: The decisions of command line, environment and settings file.
        clock: Time.
        play: Plays a script through the driver. The app ends with its result; without a script it ends with `None`, or
            with the error of its kubeconfig.
        exit_deadline: Ends the process if the app does not.
    """

    CSS_PATH = str(asset("styles/console.tcss"))
    TITLE = "eksml-tui"
    BINDINGS: ClassVar = []
    COMMANDS: ClassVar = {CommandProvider}

    def __init__(
        self,
        settings: ConsoleSettings,
        *,
        clock: Clock | None = None,
        play: Play | None = None,
        exit_deadline: ExitDeadline | None = None,
    ) -> None:
        release_closed_widgets()
        super().__init__(exit_deadline)
        self._drawn_through = (ControlFilter(), AsciiFilter()) if settings.is_ascii else (ControlFilter(),)
        self._play = play
        self._playing: Worker[None] | None = None
        self.play_began = asyncio.Event()
        """Set when the script begins; its deadline counts from then on."""
        self.services = ConsoleServices(settings, clock or SystemClock(), Ticker(self._paint))
        self.workspace = PaneWorkspace(self.services)
        self.dispatcher = CommandDispatcher(self, self.services, self.workspace, self._make_handlers)
        self.script_driver = ScriptDriver(self, self.services, self.dispatcher, self.workspace)
        self.register_theme(console_theme())
        self.set_reactive(ConsoleApp.theme, THEME_NAME)  # assigned, it would have all styles parsed a second time
        self.stylesheet.set_variables(self.get_css_variables())  # Textual took them from its own theme

    def get_default_screen(self) -> Screen[None]:
        """Return the console screen."""
        return ConsoleScreen(self.services, self.workspace, self.dispatcher.submit)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, and those that keep controls, and signs it lacks, from the terminal."""
        return [*super().get_line_filters(), *self._drawn_through]

    def on_mount(self) -> None:
        """Install keymap and signal handlers; start the feeds after the first frame."""
        take_keymap(self, self.services.settings.keymap)
        self.leave_on_signals()
        self.call_after_refresh(self._start)

    def post_display_hook(self) -> None:
        """Report the painted frame to ticker and script driver."""
        self.services.ticker.painted()
        self.script_driver.frame_painted()

    async def on_unmount(self) -> None:
        """Close the services, and the executor of run actions."""
        await self.services.aclose()
        self._run_actions.close()

    def stop_playing(self) -> None:
        """Cancel the script that is being played, if there is one; its `always` steps still run."""
        if self._playing is not None:
            self._playing.cancel()

    @cached_property
    def _run_actions(self) -> RunActions:
        from tui.feeds.run_actions import RunActions

        return RunActions(self.services.settings, self.services.runs, self.services.clock)

    def _make_handlers(self) -> dict[str, Handler]:
        from tui.commands.handlers import handlers_for

        return handlers_for(self, self.services, self.workspace, self._run_actions)

    def _paint(self) -> None:
        self.call_later(self._refresh_screens)  # in the app's own queue, so that a defect ends it with a report

    def _refresh_screens(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen) and screen.is_mounted:
                screen.refresh_data()

    async def _start(self) -> None:
        if self._play is None:
            try:
                await self.services.require_target()
            except ConfigError as error:
                from tui.commands.handlers import begin_when_allowed

                self.run_worker(begin_when_allowed(self, self.services, error, self._start), exit_on_error=True)
                return
        self.services.ticker.is_seen = self._play is None or not self.is_headless
        self.services.start()
        if self.services.settings.open_run:
            self.workspace.open("run", "")
        if self.services.settings.watch:
            self.call_later(self.dispatcher.submit, f"watch {self.services.settings.watch}")
        if not self.services.settings.readonly:
            self.services.supervisor.keep("runners", lambda: self._run_actions.keep_runners(self.notify_plainly))
        if self._play is not None:
            self._playing = self.run_worker(self._run_script(self._play), exit_on_error=True)
            self.play_began.set()

    async def _run_script(self, play: Play) -> None:
        self.exit(await play(self.script_driver))
