"""The driver through which a script uses the console: commands, keys, screenshots without secrets."""

from __future__ import annotations

import asyncio
import html
import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from textual import events

from actions.base.untrusted import KNOWN, redact
from actions.command.verbs import Call
from tui.commands.dispatcher import CommandDispatcher
from tui.feeds.services import ConsoleServices, explain_stage
from tui.screens.status_lines import header_facts
from tui.screens.workspace import PaneWorkspace
from tui.textual_private import screen_text

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.state.cluster_state import ClusterSnapshot
    from tui.base_app import TypeAheadApp


_TEXT = re.compile(
    r'(?P<head><text [^>]*?x="(?P<x>[\d.e+]+)"[^>]*?textLength="(?P<length>[\d.e+]+)"'
    r'[^>]*?clip-path="url\(#[^)]*-line-(?P<line>\d+)\)"[^>]*>)(?P<said>[^<]*)(?P<tail></text>)'
)
_HIDDEN = "•"


class _Element(msgspec.Struct, frozen=True):
    start: int
    """Of what it says in the picture, and its end."""
    end: int
    line: str
    left: float
    right: float
    said: str


def without_secrets(picture: str) -> str:
    """The SVG with every character of a secret replaced, where one line of the screen shows the whole of it."""
    elements = [
        _Element(
            start=match.start("said"),
            end=match.end("said"),
            line=match["line"],
            left=float(match["x"]),
            right=float(match["x"]) + float(match["length"]),
            said=html.unescape(match["said"]).replace("\xa0", " "),
        )
        for match in _TEXT.finditer(picture)
    ]
    pieces, at = [], 0
    for _, line in groupby(elements, key=lambda element: element.line):
        for element, said in _hidden(list(line)):
            pieces += [picture[at : element.start], html.escape(said).replace(" ", "&#160;")]
            at = element.end
    return "".join(pieces) + picture[at:]


def _hidden(line: list[_Element]) -> list[tuple[_Element, str]]:
    """The elements of one line that have to say something else, and what."""
    text, places = "", []
    for number, element in enumerate(line):
        if number and element.left > line[number - 1].right + 1:
            text += " "
        places.append(len(text))
        text += element.said
    masked = list(text)
    for start, end in KNOWN.spans(text):
        masked[start:end] = _HIDDEN * (end - start)
    said = ["".join(masked[place : place + len(one.said)]) for place, one in zip(places, line, strict=True)]
    return [(one, new) for one, new in zip(line, said, strict=True) if new != one.said]


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


class ScriptDriver:
    """Implements `actions.script.driver.Host` over a running app. Used on its loop only.

    Args:
        app: The console.
        desk: What its panes look at.
        carrier: Who carries calls out.
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
        """Called by the app after every frame."""
        self._painted.set()

    async def execute(self, call: Call) -> None:
        """Carry a command out, without asking.

        Raises:
            ConsoleError: It cannot be done.
        """
        self._services.runs.catch_up()  # a script has looked at the journal itself, and may be ahead of the screen
        await self._dispatcher.dispatch(call, is_asked=False)
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
        self._workspace.refresh_data()
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
        self._services.ticker.request_paint()
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
        if self._services.settings.open_run:
            await self._services.runs.refresh_list()

    def run_folder(self) -> Path | None:
        """The folder of the run on screen."""
        return self._services.runs.folder

    def snapshot(self) -> ClusterSnapshot | None:
        """The newest picture of the cluster."""
        return self._services.cluster.snapshot()

    async def explain(self, stage: str) -> Sequence[Finding]:
        """The diagnosis of a stage of the run on screen, as `w` shows it.

        Raises:
            MissingError: There is no run, or it has no such stage.
        """
        self._services.runs.catch_up()
        return await explain_stage(self._services, stage)

    def identity(self) -> dict[str, str]:
        """What the header shows of where one is; empty where nobody knows."""
        facts = header_facts(self._services)
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
        self._services.settings.write_file(file, text.encode())

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
