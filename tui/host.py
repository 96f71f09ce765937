"""The console as a script sees it."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events

from actions.base.untrusted import redact
from actions.command.verbs import Call
from tui.live.desk import Desk
from tui.live.stage_diagnosis import explain_stage
from tui.picture import without_secrets
from tui.screens.carrier import Carrier
from tui.screens.hints import header_facts
from tui.screens.workspace import Workspace
from tui.seams import screen_text

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.state.cluster_state import ClusterSnapshot
    from tui.typeahead import PatientApp

FRAME_SECONDS = 0.1
SHOW_SECONDS = 1.0
_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*")
_NAMES = {
    ":": "colon",
    "/": "slash",
    "?": "question_mark",
    " ": "space",
    "-": "minus",
    "_": "underscore",
    ".": "full_stop",
    ",": "comma",
    "=": "equals_sign",
    "&": "ampersand",
    "esc": "escape",
}


class ConsoleHost:
    """Implements `actions.script.driver.Host` over a running app. Used on its loop only.

    Args:
        app: The console.
        desk: What its panes look at.
        carrier: Who carries calls out.
        workspace: The panes.
    """

    def __init__(self, app: PatientApp[Any], desk: Desk, carrier: Carrier, workspace: Workspace) -> None:
        self._workspace = workspace
        self._app = app
        self._desk = desk
        self._carrier = carrier
        self._painted = asyncio.Event()

    def frame_painted(self) -> None:
        """Called by the app after every frame."""
        self._painted.set()

    async def execute(self, call: Call) -> None:
        """Carry a command out, without asking.

        Raises:
            ConsoleError: It cannot be done.
        """
        self._desk.runs.catch_up()  # a script has looked at the journal itself, and may be ahead of the screen
        await self._carrier.carry(call, is_asked=False)
        await self.settle()
        await self._show_pane()

    async def _show_pane(self) -> None:
        """Let a pane that was just opened take the focus and show its rows: the next key may be for them."""
        pane = self._workspace.current
        shown = asyncio.Event()
        if not pane.call_after_refresh(shown.set):
            return
        try:
            async with asyncio.timeout(SHOW_SECONDS):
                await shown.wait()
        except TimeoutError:
            return
        self._workspace.pull()
        await self.settle()

    async def press(self, keys: Sequence[str]) -> None:
        """Press keys, each settled before the next: a key that comes while the focus moves would be lost."""
        for key in keys:
            self._app.post_message(_event_of(key))
            await self.settle()

    async def settle(self) -> None:
        """Return when every key and widget has handled what was in its queue, and the frame is drawn."""
        await self._drain()  # behind what is in the app's queue
        await self._app.type_ahead.wait_until_quiet()
        await self._drain()  # what a widget does may put something into another one's queue
        self._desk.ticker.poke()
        await asyncio.sleep(0)

    async def frame(self) -> None:
        """Return after the next frame, or 100 ms at the latest."""
        self._painted.clear()
        try:
            async with asyncio.timeout(FRAME_SECONDS):
                await self._painted.wait()
        except TimeoutError:
            return

    async def show_named_run(self) -> None:
        """Have the run on screen that the command line names, if it names one: the first step may be about it."""
        if self._desk.settings.open_run:
            await self._desk.runs.refresh_list()

    def run_folder(self) -> Path | None:
        """The folder of the run on screen."""
        return self._desk.runs.folder

    def snapshot(self) -> ClusterSnapshot | None:
        """The newest picture of the cluster."""
        return self._desk.cluster.snapshot()

    async def explain(self, stage: str) -> Sequence[Finding]:
        """The diagnosis of a stage of the run on screen, as `w` shows it.

        Raises:
            MissingError: There is no run, or it has no such stage.
        """
        self._desk.runs.catch_up()
        return await explain_stage(self._desk, stage)

    def identity(self) -> dict[str, str]:
        """What the header shows of where one is; empty where nobody knows."""
        facts = header_facts(self._desk)
        return {"cluster": facts.cluster, "region": facts.region, "account": facts.account}

    def screen_text(self) -> str:
        """The screen as lines of text."""
        return screen_text(self._app)

    def save_screen(self, file: Path) -> None:
        """Write the screen, as SVG or, for a name ending in `.txt`, as text. Known secrets on it are hidden.

        Raises:
            ConfigError: The file cannot be written, or not by a script.
        """
        text = redact(self.screen_text()) + "\n" if file.suffix == ".txt" else self._picture()
        self._desk.settings.write_file(file, text.encode())

    def _picture(self) -> str:
        """The screen as SVG that needs nothing from elsewhere: the font is the viewer's own monospace."""
        return without_secrets(_FONT_FACE.sub("", self._app.export_screenshot(title="eksml-tui")))

    async def _drain(self) -> None:
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
        await drained.wait()


def _event_of(key: str) -> events.Key:
    """The event of a key by Textual's name, or of a single character."""
    name = _NAMES.get(key, key)
    character: str | None = key if len(key) == 1 else None
    if character is None and "+" not in name:
        try:
            character = unicodedata.lookup(name.replace("_", " ").upper())
        except KeyError:
            character = None
    return events.Key(name, character)
