"""The console as a Textual app: what lives from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.filter import LineFilter
from textual.screen import Screen
from textual.worker import Worker

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConsoleError, RefusedError
from actions.base.files import asset
from actions.base.untrusted import one_line, redact
from actions.command.parse import parse_line
from actions.command.verbs import Call, LaunchArguments
from tui.base_app import BaseApp
from tui.commands.dispatcher import CommandDispatcher, Confirmations, Handler, with_selected_run
from tui.commands.palette import ConsoleCommands
from tui.feeds.services import ConsoleServices
from tui.feeds.ticker import Ticker
from tui.screens.confirm import Confirmation, ConfirmModal, TypeNameModal
from tui.screens.console import ConsoleScreen
from tui.screens.live_screen import LiveScreen
from tui.screens.workspace import PaneWorkspace
from tui.script_driver import ScriptDriver
from tui.settings.keymap import take_keymap
from tui.settings.settings import ConsoleSettings
from tui.settings.theme import NAME, console_theme
from tui.shutdown import ExitDeadline
from tui.textual_private import release_closed_widgets
from tui.widgets.line_filters import AsciiFilter, ControlFilter

if TYPE_CHECKING:
    from tui.feeds.run_actions import RunActions

Play = Callable[[ScriptDriver], Awaitable[Any]]


class ConsoleApp(BaseApp[Any]):
    """The console on a terminal, or headless under a script.

    Args:
        settings: What it was started with.
        clock: Time.
        play: Plays a script on the host; the app ends with its result, without one with the error of its kubeconfig.
        ending: Ends the process if the app does not.
    """

    CSS_PATH = str(asset("styles/console.tcss"))
    TITLE = "eksml-tui"
    BINDINGS: ClassVar = []
    COMMANDS: ClassVar = {lambda: ConsoleCommands}

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
        self.play_began = asyncio.Event()  # before, nobody looks at the script's deadline
        self.services = ConsoleServices(settings, clock or SystemClock(), Ticker(self._paint))
        self.workspace = PaneWorkspace(self.services)
        confirmations = Confirmations(self.services.runs)
        self.dispatcher = CommandDispatcher(
            self._handlers,
            is_readonly=settings.readonly,
            ask=self._ask,
            confirmation_for=confirmations.confirmation_for,
            confirmed_arguments=confirmations.confirmed_arguments,
        )
        self.script_driver = ScriptDriver(self, self.services, self.dispatcher, self.workspace)
        self.register_theme(console_theme())
        self.set_reactive(ConsoleApp.theme, NAME)  # assigned, it would have all styles parsed a second time

    def get_default_screen(self) -> Screen[None]:
        """The console itself."""
        return ConsoleScreen(self.services, self.workspace, self.run_line)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Nothing that is drawn carries a control to the terminal, or a sign that it lacks."""
        return [*super().get_line_filters(), *self._drawn_through]

    def on_mount(self) -> None:
        """Leave on signals; follow the world only after the first frame."""
        take_keymap(self, self.services.settings.keymap)
        self.leave_on_signals()
        self.call_after_refresh(self._start)

    def post_display_hook(self) -> None:
        """Tell the ticker, and the script's host, that there is a frame."""
        self.services.ticker.painted()
        self.script_driver.frame_painted()

    async def on_unmount(self) -> None:
        """End everything that was begun."""
        await self.services.aclose()
        self._actions.close()

    def stop_playing(self) -> None:
        """Break the script off, if it is being played; its `always` is still played."""
        if self._playing is not None:
            self._playing.cancel()

    async def run_line(self, line: str) -> None:
        """Carry a typed line out; what goes wrong is told, not raised."""
        try:
            call = with_selected_run(parse_line(line), self.workspace.current.subject())
        except ConsoleError as error:
            self._tell_error(error)
            return
        self.run_worker(self._dispatch(call, self.type_ahead.hold()), group="commands", exit_on_error=True)

    async def _dispatch(self, call: Call, release: Callable[[], None]) -> None:
        try:
            if isinstance(call.arguments, LaunchArguments):
                self.dispatcher.refuse_mutation(call)
                await self._review(call.arguments)
                return
            await self.dispatcher.dispatch(call, is_asked=True)
        except ConsoleError as error:
            self._tell_error(error)
        except Exception as error:  # noqa: BLE001 - the command boundary: a defect in one verb must not end the console
            self.notify_plainly(f"{call.command.id} met a defect of this program: {type(error).__name__}: {error}")
        finally:
            self.release_when_shown(release, self.workspace.current)

    async def _review(self, arguments: LaunchArguments) -> None:
        from tui.screens.launch import LaunchScreen

        blueprint = await self.services.blueprints.find(arguments.blueprint)
        reviewed = await self.put_in_front(LaunchScreen(blueprint, arguments, self.services))
        if reviewed is not None:
            await self.dispatcher.dispatch(Call(parse_line("launch -").command, reviewed), is_asked=False)

    async def _ask(self, question: Confirmation) -> bool:
        return await self.put_in_front(TypeNameModal(question) if question.word else ConfirmModal(question))

    @cached_property
    def _actions(self) -> RunActions:
        from tui.feeds.run_actions import RunActions

        return RunActions(self.services.settings, self.services.runs, self.services.clock)

    def _handlers(self) -> dict[str, Handler]:
        from tui.commands.handlers import app_actions, handlers_for

        return handlers_for(
            self.workspace,
            self.services,
            self._actions,
            app_actions(self, self.services, save=self.script_driver.save_screen),
        )

    def _tell_error(self, error: ConsoleError) -> None:
        tell = partial(self.notify, one_line(redact(error.sentence())), markup=False, timeout=8)
        tell(severity="warning" if isinstance(error, RefusedError) else "error")

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
        self.services.start()
        if self.services.settings.open_run:
            self.workspace.open("run", "")
        if self.services.settings.watch:
            self.call_later(self.run_line, f"watch {self.services.settings.watch}")
        if not self.services.settings.readonly:
            self.services.supervisor.keep("runners", lambda: self._actions.keep_runners(self.notify_plainly))
        if self._play is not None:
            self._playing = self.run_worker(self._run_script(self._play), exit_on_error=True)
            self.play_began.set()

    async def _run_script(self, play: Play) -> None:
        self.exit(await play(self.script_driver))
