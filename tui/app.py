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
from tui.base_app import LeavingApp
from tui.commands.dispatcher import Carrier, Questioner, Verb, aimed
from tui.commands.palette import ConsoleCommands
from tui.feeds.services import Desk
from tui.feeds.ticker import Ticker
from tui.screens.confirm import ConfirmModal, Question, TypeNameModal
from tui.screens.console import ConsoleScreen
from tui.screens.live_screen import PullingScreen
from tui.screens.workspace import Workspace
from tui.script_driver import ConsoleHost
from tui.settings.keymap import take_keymap
from tui.settings.settings import ConsoleSettings
from tui.settings.theme import NAME, console_theme
from tui.shutdown import Ending
from tui.textual_private import release_closed_widgets
from tui.widgets.line_filters import AsciiFilter, ControlFilter

if TYPE_CHECKING:
    from tui.feeds.run_actions import RunActions

Play = Callable[[ConsoleHost], Awaitable[Any]]


class ConsoleApp(LeavingApp[Any]):
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
        ending: Ending | None = None,
    ) -> None:
        release_closed_widgets()
        super().__init__(ending)
        self._drawn_through = (ControlFilter(), AsciiFilter()) if settings.is_ascii else (ControlFilter(),)
        self._play = play
        self._playing: Worker[None] | None = None
        self.play_began = asyncio.Event()  # before, nobody looks at the script's deadline
        self.desk = Desk(settings, clock or SystemClock(), Ticker(self._paint))
        self.workspace = Workspace(self.desk)
        questioner = Questioner(self.desk.runs)
        self.carrier = Carrier(
            self._verbs,
            is_readonly=settings.readonly,
            ask=self._ask,
            doubt=questioner.question_of,
            vouch=questioner.vouch,
        )
        self.host = ConsoleHost(self, self.desk, self.carrier, self.workspace)
        self.register_theme(console_theme())
        self.set_reactive(ConsoleApp.theme, NAME)  # assigned, it would have all styles parsed a second time

    def get_default_screen(self) -> Screen[None]:
        """The console itself."""
        return ConsoleScreen(self.desk, self.workspace, self.carry_line)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Nothing that is drawn carries a control to the terminal, or a sign that it lacks."""
        return [*super().get_line_filters(), *self._drawn_through]

    def on_mount(self) -> None:
        """Leave on signals; follow the world only after the first frame."""
        take_keymap(self, self.desk.settings.keymap)
        self.leave_on_signals()
        self.call_after_refresh(self._start)

    def post_display_hook(self) -> None:
        """Tell the ticker, and the script's host, that there is a frame."""
        self.desk.ticker.painted()
        self.host.frame_painted()

    async def on_unmount(self) -> None:
        """End everything that was begun."""
        await self.desk.aclose()
        self._actions.close()

    def stop_playing(self) -> None:
        """Break the script off, if it is being played; its `always` is still played."""
        if self._playing is not None:
            self._playing.cancel()

    async def carry_line(self, line: str) -> None:
        """Carry a typed line out; what goes wrong is told, not raised."""
        try:
            call = aimed(parse_line(line), self.workspace.current.subject())
        except ConsoleError as error:
            self._tell_error(error)
            return
        self.run_worker(self._carry(call, self.type_ahead.hold()), group="commands", exit_on_error=True)

    async def _carry(self, call: Call, release: Callable[[], None]) -> None:
        try:
            if isinstance(call.arguments, LaunchArguments):
                self.carrier.refuse_mutation(call)
                await self._review(call.arguments)
                return
            await self.carrier.carry(call, is_asked=True)
        except ConsoleError as error:
            self._tell_error(error)
        except Exception as error:  # noqa: BLE001 - the command boundary: a defect in one verb must not end the console
            self.notify_plainly(f"{call.command.id} met a defect of this program: {type(error).__name__}: {error}")
        finally:
            self.release_when_shown(release, self.workspace.current)

    async def _review(self, arguments: LaunchArguments) -> None:
        from tui.screens.launch import LaunchScreen

        blueprint = await self.desk.blueprints.find(arguments.blueprint)
        reviewed = await self.put_in_front(LaunchScreen(blueprint, arguments, self.desk))
        if reviewed is not None:
            await self.carrier.carry(Call(parse_line("launch -").command, reviewed), is_asked=False)

    async def _ask(self, question: Question) -> bool:
        return await self.put_in_front(TypeNameModal(question) if question.word else ConfirmModal(question))

    @cached_property
    def _actions(self) -> RunActions:
        from tui.feeds.run_actions import RunActions

        return RunActions(self.desk.settings, self.desk.runs, self.desk.clock)

    def _verbs(self) -> dict[str, Verb]:
        from tui.commands.handlers import hands_of, verbs_of

        return verbs_of(self.workspace, self.desk, self._actions, hands_of(self, self.desk, save=self.host.save_screen))

    def _tell_error(self, error: ConsoleError) -> None:
        tell = partial(self.notify, one_line(redact(error.sentence())), markup=False, timeout=8)
        tell(severity="warning" if isinstance(error, RefusedError) else "error")

    def _paint(self) -> None:
        self.call_later(self._pull)  # in the app's own queue, so that a defect ends it with a report

    def _pull(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, PullingScreen) and screen.is_mounted:
                screen.pull()

    async def _start(self) -> None:
        if self._play is None:
            try:
                await self.desk.require_target()
            except ConfigError as error:
                from tui.commands.handlers import settle

                self.run_worker(settle(self, self.desk, error, self._start), exit_on_error=True)
                return
        self.desk.start()
        if self.desk.settings.open_run:
            self.workspace.open("run", "")
        if self.desk.settings.watch:
            self.call_later(self.carry_line, f"watch {self.desk.settings.watch}")
        if not self.desk.settings.readonly:
            self.desk.supervisor.keep("runners", lambda: self._actions.keep_runners(self.notify_plainly))
        if self._play is not None:
            self._playing = self.run_worker(self._run_script(self._play), exit_on_error=True)
            self.play_began.set()

    async def _run_script(self, play: Play) -> None:
        self.exit(await play(self.host))
