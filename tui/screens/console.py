"""The console screen: header, panes, a command line at the bottom, and the keys after ctrl+w."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from actions.command.parse import complete
from tui.feeds.services import ConsoleServices
from tui.panes.base import Pane, bindings_of
from tui.present.cells import Span, Tone
from tui.present.header import header_line
from tui.screens.live_screen import LiveScreen
from tui.screens.status_lines import header_facts, hints_line, run_mark, selected_run, tabs_line
from tui.screens.workspace import PANES, PaneWorkspace
from tui.settings.keymap import Keymap
from tui.settings.keys import KeyContext, keys_of, name_of, names_of
from tui.widgets.base import Lines
from tui.widgets.prompt import PromptLine
from tui.widgets.split import Split, leaves

if TYPE_CHECKING:
    from actions.cluster.state.snapshot import ClusterSnapshot


class PrefixScreen(ModalScreen[str]):
    """Waits for one key; its result is the line to carry out, empty for none.

    Args:
        keymap: The operator's own keys.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), f"choose({key.does!r})", key.label, id=key.id, show=False, priority=True)
        for key in keys_of(KeyContext.PANES)
    ]

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """The keys that mean something, at the bottom."""
        spans = [Span(f" {name_of(KeyContext.EVERYWHERE, 'prefix', self._keymap)} ", Tone.ACCENT)]
        for key in keys_of(KeyContext.PANES):
            spans += [Span(f" {names_of(key, self._keymap)[0]} ", Tone.STRONG), Span(key.label, Tone.MUTED)]
        yield Lines([tuple(spans)], id="prefix-keys")

    def action_choose(self, line: str) -> None:
        """Close with the line."""
        self.dismiss(line)

    def on_key(self, event: events.Key) -> None:
        """Any other key is a change of mind."""
        event.stop()
        self.dismiss("")


class ConsoleScreen(LiveScreen[None]):
    """Everything that is seen between start and quit, but what stands in front of it for a moment.

    Args:
        desk: What the panes look at.
        workspace: The panes.
        carry: Carries a line out as if it had been typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KeyContext.EVERYWHERE)

    def __init__(
        self, services: ConsoleServices, workspace: PaneWorkspace, run_line: Callable[[str], Awaitable[None]]
    ) -> None:
        super().__init__()
        self._services = services
        self._workspace = workspace
        self._run_line = run_line
        self._header = Lines(id="header")
        self._tabs = Lines(id="tabs")
        self._hints = Lines(id="hints")
        self._edges: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Header, tabs, panes, the bottom line. Prompts come when they are asked for: the first frame has none."""
        yield self._header
        yield self._tabs
        yield self._workspace.split
        yield self._hints

    def on_mount(self) -> None:
        """Keys go to the first pane."""
        self._workspace.current.take_focus()
        self.refresh_data()

    def refresh_data(self) -> None:
        """Show what changed: edges first, then every visible pane."""
        self._header.show([header_line(header_facts(self._services), self.size.width)])
        self._show_edges()
        self._workspace.refresh_data()

    async def on_resize(self) -> None:
        """Lay the edges out for the new width; between the first two layouts the loop has a look at its sockets."""
        await asyncio.sleep(0)
        self.refresh_data()

    async def action_run_line(self, line: str) -> None:
        """Carry a line of the key table out."""
        await self._run_line(line)

    async def action_command_line(self) -> None:
        """Take a command."""
        await self._open(self._command, "")

    async def action_command_line_with(self, text: str) -> None:
        """Take a command that begins with `text`."""
        await self._open(self._command, text)

    async def action_filter_line(self) -> None:
        """Narrow the focused pane."""
        await self._open(self._filter, self._workspace.current.active_filter)

    def action_prefix(self) -> None:
        """Wait for the key that says what to do with the panes."""
        self.app.push_screen(PrefixScreen(self._services.settings.keymap), self._chosen)

    def action_palette(self) -> None:
        """Find a command by its name."""
        self.app.action_command_palette()

    @on(Split.Changed)
    def _panes_changed(self, event: Split.Changed) -> None:
        event.stop()
        self.refresh_data()

    @on(Pane.Entered)
    async def _entered(self, event: Pane.Entered) -> None:
        event.stop()
        await self._run_line(event.line)

    @on(PromptLine.Submitted, "#command-line")
    async def _commanded(self, event: PromptLine.Submitted) -> None:
        event.stop()
        self._workspace.current.take_focus()
        if event.text.strip():
            await self._run_line(event.text)

    @on(PromptLine.Changed, "#filter-line")
    async def _filtering(self, event: PromptLine.Changed) -> None:
        event.stop()
        await self._run_line(f"filter {_quoted(event.text)}")

    @on(PromptLine.Submitted, "#filter-line")
    def _filtered(self, event: PromptLine.Submitted) -> None:
        event.stop()
        self._workspace.current.take_focus()

    @on(PromptLine.Cancelled)
    async def _cancelled(self, event: PromptLine.Cancelled) -> None:
        event.stop()
        if event.prompt is self._filter:
            await self._run_line("filter")
        self._workspace.current.take_focus()

    @cached_property
    def _command(self) -> PromptLine:
        return PromptLine(":", hint="command", completer=self._completions, id="command-line")

    @cached_property
    def _filter(self) -> PromptLine:
        return PromptLine("/", hint="filter", id="filter-line")

    async def _open(self, prompt: PromptLine, text: str) -> None:
        if not prompt.is_attached:
            await self.mount(prompt, before=self._hints)
        prompt.open(text)

    def _chosen(self, line: str | None) -> None:
        if line:
            self.run_worker(self._run_line(line), exclusive=False)

    def _show_edges(self) -> None:
        """Tabs and hints, laid out only when what they say has changed."""
        split, pane = self._workspace.split, self._workspace.current
        run, selected = self._services.runs.view, selected_run(self._services, pane.subject())
        edges = (self.size.width, split.current, split.arrangement, split.is_zoomed, run and run.state, selected)
        if edges == self._edges:
            return
        self._edges = edges
        keymap = self._services.settings.keymap
        marks = {KeyContext.RUN.value: run_mark(run)}
        present = leaves(split.arrangement)
        self._tabs.show([tabs_line(PANES, present, split.current, width=edges[0], marks=marks, keymap=keymap)])
        self._hints.show(
            [
                hints_line(
                    pane.CONTEXT,
                    run=run,
                    selected=selected,
                    is_readonly=self._services.settings.readonly,
                    is_zoomed=split.is_zoomed,
                    keymap=keymap,
                )
            ]
        )

    def _completions(self, text: str) -> tuple[str, ...]:
        snapshot, view = self._services.cluster.snapshot(), self._services.runs.view
        return complete(
            text,
            {
                "blueprint": [blueprint.id for blueprint in self._services.blueprints.found],
                "pane": list(PANES),
                "name": ["single", "watch", "job", "quad"],
                "object": list(snapshot.pods) if snapshot else [],
                "job": _jobs_in(snapshot),
                "run": [run.id for run in self._services.runs.summaries],
                "stage": [stage.id for stage in view.stages] if view else [],
            },
        )


def _jobs_in(snapshot: ClusterSnapshot | None) -> list[str]:
    jobs = snapshot.workloads.values() if snapshot else ()
    return [f"{job.kind.lower()}/{job.namespace}/{job.name}" for job in jobs]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
