"""The driver through which a script uses the console: commands, keys, frames, and what is on screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actions.base.errors import ConsoleError
from actions.command.verbs import Call
from tui.base_app import key_event
from tui.commands.dispatcher import CommandDispatcher
from tui.commands.screenshot import save_screen
from tui.feeds.services import ConsoleServices, explain_stage
from tui.screens.status_lines import header_facts
from tui.screens.workspace import PaneWorkspace
from tui.textual_private import screen_text

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.state.cluster_state import ClusterSnapshot
    from actions.script.model import ScriptStep
    from tui.base_app import TypeAheadApp


FRAME_SECONDS = 0.1
"""The longest wait for a frame."""
SHOW_SECONDS = 1.0
"""The longest wait for a pane that was just opened."""


class ScriptDriver:
    """The `actions.script.driver.ConsoleDriver` of a running app. Used on its loop only.

    Args:
        app: The console.
        services: The data behind its panes.
        dispatcher: Runs the handlers of commands.
        workspace: The panes.
    """

    def __init__(
        self, app: TypeAheadApp[Any], services: ConsoleServices, dispatcher: CommandDispatcher, workspace: PaneWorkspace
    ) -> None:
        self._workspace = workspace
        self._app = app
        self._services = services
        self._dispatcher = dispatcher
        self._painted = asyncio.Event()

    def frame_painted(self) -> None:
        """Note that a frame has been painted; called by the app."""
        self._painted.set()

    def step_passed(self, step: ScriptStep) -> None:
        """Note a step that has passed, for the recording of a session that is recorded."""
        if self._dispatcher.script_writer is not None:
            self._dispatcher.script_writer.step_passed(step)

    async def execute(self, call: Call) -> None:
        """Run a command without a confirmation, and return when its effect is on screen.

        Raises:
            ConsoleError: The command failed.
        """
        self._services.runs.catch_up()  # a script reads the journal itself, and may be ahead of the screen
        await self._dispatcher.execute(call)
        await self.settle()
        await self._show_pane()

    async def _show_pane(self) -> None:
        """Wait until a pane that was just opened has the focus and shows its rows: the next key may be for them."""
        pane = self._workspace.current
        shown = asyncio.Event()
        if not pane.call_after_refresh(shown.set):
            return
        try:
            async with asyncio.timeout(SHOW_SECONDS):
                await shown.wait()
        except TimeoutError:
            return
        self._workspace.refresh_data()
        await self.settle()

    async def press(self, keys: Sequence[str]) -> None:
        """Press keys, each settled before the next: a key pressed while the focus moves would be lost."""
        for key in keys:
            self._app.post_message(key_event(key))
            await self.settle()

    async def settle(self) -> None:
        """Return when all keys and all messages of widgets have been handled, and request a frame.

        Raises:
            ConsoleError: The console has ended, by a key or by a defect.
        """
        await self._drain()  # behind what is in the app's queue
        await self._unless_ended(self._app.type_ahead.wait_until_quiet)
        await self._drain()  # a message that a widget handles may post one to another widget
        self._services.ticker.request_paint()
        self._services.ticker.hasten()
        await asyncio.sleep(0)

    async def show(self) -> None:
        """Put the newest data on screen: it is going to be read."""
        self._services.ticker.paint_now()
        await asyncio.sleep(0)  # the paint is due in the turn after this one, and is queued before the drain's end
        await self.settle()

    async def frame(self) -> None:
        """Return after the next frame, or after `FRAME_SECONDS`."""
        self._painted.clear()
        try:
            async with asyncio.timeout(FRAME_SECONDS):
                await self._painted.wait()
        except TimeoutError:
            return

    async def show_named_run(self) -> None:
        """Put the run on screen that the command line names, if it names one: the first step may be about it."""
        if self._services.settings.open_run:
            await self._services.runs.refresh_list()

    def run_folder(self) -> Path | None:
        """Return the folder of the run on screen; `None` if there is no run."""
        return self._services.runs.folder

    def snapshot(self) -> ClusterSnapshot | None:
        """Return the newest snapshot of the cluster; `None` before the first."""
        return self._services.cluster.snapshot()

    async def explain(self, stage: str) -> Sequence[Finding]:
        """Return the diagnosis of a stage of the run on screen, as `w` shows it.

        Raises:
            MissingError: There is no run, or it has no such stage.
        """
        self._services.runs.catch_up()
        return await explain_stage(self._services, stage)

    def identity(self) -> dict[str, str]:
        """Return cluster, region and account as the header shows them; empty if unknown."""
        facts = header_facts(self._services)
        return {"cluster": facts.cluster, "region": facts.region, "account": facts.account}

    def screen_text(self) -> str:
        """Return the screen as lines of text, and have it painted soon if there is something new.

        Raises:
            ConsoleError: The console has ended.
        """
        self._require_running()
        self._services.ticker.hasten()
        return screen_text(self._app)

    def save_screen(self, file: Path) -> None:
        """Write the screen, as SVG or, for a name ending in `.txt`, as text. Known secrets on it are hidden.

        Raises:
            ConfigError: The file cannot be written, or not by a script.
            ConsoleError: The console has ended.
        """
        self._require_running()
        save_screen(self._app, self._services.settings, file)

    async def _drain(self) -> None:
        """Return when app, screen and widgets have handled the messages that are in their queues now."""
        self._require_running()
        widgets = [self._app, *self._app.screen.walk_children(with_self=True)]
        drained = asyncio.Event()
        waiting = len(widgets)

        def arrived() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting <= 0:
                drained.set()

        for widget in widgets:
            if not widget.call_later(arrived):
                arrived()
        await self._unless_ended(drained.wait)

    async def _unless_ended(self, arrival: Callable[[], Awaitable[object]]) -> None:
        """Wait for what an app that has ended never does.

        Raises:
            ConsoleError: It has ended.
        """
        while True:
            try:
                async with asyncio.timeout(FRAME_SECONDS):
                    await arrival()
            except TimeoutError:
                self._require_running()
            else:
                return

    def _require_running(self) -> None:
        if not self._app.is_running:
            raise ConsoleError("The console has ended.")
