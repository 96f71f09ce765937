"""The console as a Textual app: makes services, workspace, dispatcher and script driver, and connects them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.filter import LineFilter
from textual.screen import Screen
from textual.worker import Worker

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError
from actions.base.files import asset
from tui.base_app import BaseApp
from tui.commands.dispatcher import CommandDispatcher
from tui.defects import shown
from tui.feeds.alarms import call_sequence
from tui.feeds.services import ConsoleServices
from tui.feeds.ticker import Ticker
from tui.present.text import console_words
from tui.screens.console import CommandProvider, ConsoleScreen
from tui.screens.live_screen import LiveScreen
from tui.screens.workspace import PaneWorkspace
from tui.script_driver import ScriptDriver
from tui.settings.appearance import AsciiFilter, ControlFilter, TransparentFilter, console_theme, theme_name
from tui.settings.keymap import take_keymap
from tui.settings.settings import ConsoleSettings
from tui.shutdown import ExitDeadline
from tui.textual_private import hash_rules_by_identity, release_closed_widgets, send_to_terminal

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
        hash_rules_by_identity()
        super().__init__(exit_deadline)
        self._drawn_through = (ControlFilter(), AsciiFilter()) if settings.is_ascii else (ControlFilter(),)
        self.has_clipboard = settings.has_clipboard
        self._play = play
        self._playing: Worker[None] | None = None
        self.play_began = asyncio.Event()
        """Set when the script begins; its deadline counts from then on."""
        self.services = ConsoleServices(settings, clock or SystemClock(), Ticker(self._paint))
        self.services.alarms.sound = self._ring
        self.workspace = PaneWorkspace(self.services)
        self.dispatcher = CommandDispatcher(self, self.services, self.workspace, self._make_handlers)
        self.script_driver = ScriptDriver(self, self.services, self.dispatcher, self.workspace)
        first = console_theme(settings.theme)
        self.register_theme(first)
        # assigned, it would have all styles parsed a second time
        self.set_reactive(ConsoleApp.theme, first.name)
        self.stylesheet.set_variables(self.get_css_variables())  # Textual took them from its own theme

    def get_default_screen(self) -> Screen[None]:
        """Return the console screen."""
        return ConsoleScreen(self.services, self.workspace, self.dispatcher.submit)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, and those that keep controls, and signs it lacks, from the terminal."""
        last = (self._transparent,) if self.theme == theme_name("transparent") else ()
        return [*super().get_line_filters(), *self._drawn_through, *last]

    def choose_theme(self, name: str) -> None:
        """Draw in the theme of this name, one of `tui.settings.THEMES`."""
        self.register_theme(console_theme(name))
        self.theme = theme_name(name)
        self.call_after_refresh(self.redraw)  # two themes may differ by a line filter alone, which changes no style

    def on_mount(self) -> None:
        """Install keymap and signal handlers; after the first frame show the kept snapshot, then start the feeds."""
        take_keymap(self, self.services.settings.keymap)
        self.leave_on_signals()
        keeps = self.services.settings.keeps_snapshots
        self.call_after_refresh((lambda: self.run_worker(self._show_kept())) if keeps else self._start)

    def post_display_hook(self) -> None:
        """Report the painted frame to ticker and script driver."""
        self.services.ticker.painted()
        self.script_driver.frame_painted()

    async def on_unmount(self) -> None:
        """Close the services, and the executor of run actions."""
        await self.services.aclose()
        self.workspace.kept.close()
        self._run_actions.close()

    def stop_playing(self) -> None:
        """Cancel the script that is being played, if there is one; its `always` steps still run."""
        if self._playing is not None:
            self._playing.cancel()

    @cached_property
    def _transparent(self) -> TransparentFilter:
        return TransparentFilter()

    @cached_property
    def _run_actions(self) -> RunActions:
        from tui.feeds.run_actions import RunActions

        return RunActions(self.services.settings, self.services.runs, self.services.clock)

    def _make_handlers(self) -> dict[str, Handler]:
        from tui.commands.handlers import handlers_for

        return handlers_for(self, self.services, self.workspace, self._run_actions)

    def worded(self, text: str) -> str:
        """Return a text with the shell lines of its remedies as keys."""
        return console_words(text, self.services)

    def _ring(self, text: str) -> None:
        send_to_terminal(self, call_sequence(self.services.settings.alarms, text, is_in_tmux="TMUX" in os.environ))

    async def _told(self, act: Callable[[], Awaitable[None]]) -> None:
        """Act, and show what goes wrong."""
        try:
            await act()
        except ConfigError as error:
            self.notify_error(error)

    def _paint(self) -> None:
        self.call_later(self._refresh_screens)  # in the app's own queue, so that a defect ends it with a report

    def _refresh_screens(self) -> None:
        for screen in [one for one in self.screen_stack if isinstance(one, LiveScreen) and one.is_mounted]:
            with shown(self.notify_plainly, is_once=True):
                screen.refresh_data()

    async def _show_kept(self) -> None:
        """Start the feeds when the kept snapshot is on screen: they would take the processor from it."""
        await self.services.cluster.show_kept()
        self._refresh_screens()
        self.call_after_refresh(self._start)

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
        if self.services.settings.record is not None:
            from tui.commands.script_writer import begin_to_record

            self.dispatcher.script_writer = begin_to_record(self, self.services, self.workspace)
        if self._play is None:
            self.workspace.arranged = lambda: self.run_worker(self._told(self.workspace.keep), group="layouts")
            settings = self.services.settings
            brings_own = bool(settings.open_run or settings.watch or settings.record)  # a script begins with one pane
            await self._told(partial(self.workspace.restore, is_shown=not brings_own))
            self.run_worker(self.workspace.import_panes(), group="panes")
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
