"""The console screen: header, panes and `:` line, the keys after ctrl+w, and the command palette."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import ModalScreen

from actions.base.errors import ParameterError
from actions.cluster.auth.kubeconfig import short_contexts
from actions.command.arguments import FilterArguments
from actions.command.parse import complete
from actions.command.verbs import (
    COMMANDS,
    Call,
    Command,
    command_of,
)
from tui.base_app import key_event
from tui.feeds.services import ConsoleServices
from tui.panes.base import Pane, bindings_of
from tui.present.cells import Span, Tone
from tui.present.header import header_line
from tui.present.run import trouble_in
from tui.screens.live_screen import LiveScreen
from tui.screens.status_lines import (
    Alone,
    header_facts,
    hints_line,
    is_elsewhere,
    other_trouble,
    run_mark,
    selected_run,
    tabs_line,
)
from tui.screens.workspace import PANES, PaneWorkspace
from tui.settings.keymap import Keymap
from tui.settings.keys import WITHOUT_FILTER, Key, KeyContext, key_name, keys_of, names_of
from tui.widgets.arrangement import leaves
from tui.widgets.base import Lines
from tui.widgets.prompt import PromptLine
from tui.widgets.split import Split

if TYPE_CHECKING:
    from actions.cluster.state.snapshot import ClusterSnapshot


class PrefixScreen(ModalScreen[str]):
    """The screen after ctrl+w: waits for one key. Its result is the command line of the key, empty for none.

    After a key that repeats (they resize), it waits for another one; any other key ends that.

    Args:
        keymap: The operator's own keys.
        submit: Starts the command line of a key that repeats.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            ",".join(key.keys),
            f"{'repeat' if key.repeats else 'choose'}({key.does!r})",
            key.label,
            id=key.id,
            show=False,
            priority=True,
        )
        for key in keys_of(KeyContext.PANES)
    ]

    def __init__(self, keymap: Keymap, submit: Callable[[str], None]) -> None:
        super().__init__()
        self._keymap = keymap
        self._submit = submit

    def compose(self) -> ComposeResult:
        """Show the keys of the table at the bottom."""
        lead = f" {key_name(KeyContext.EVERYWHERE, 'prefix', self._keymap)} "
        lines = [[Span(lead, Tone.ACCENT)], [Span(" " * len(lead))]]
        for label, grouped in groupby(keys_of(KeyContext.PANES), _group_of):
            keys = list(grouped)
            is_layout = keys[0].does.startswith("layout")
            names = "".join(names_of(key, self._keymap)[0] for key in keys)
            lines[is_layout] += [Span(f" {names} ", Tone.STRONG), Span(label, Tone.MUTED)]
        yield Lines([tuple(line) for line in lines], id="prefix-keys")

    def action_choose(self, line: str) -> None:
        """Close with the command line of a key."""
        self.dismiss(line)

    def action_repeat(self, line: str) -> None:
        """Start the command line of a key, and stay."""
        self._submit(line)

    def on_key(self, event: events.Key) -> None:
        """Close without a command on any other key."""
        event.stop()
        self.dismiss("")


_GROUPED = {f"focus {side}": "go" for side in ("left", "down", "up", "right")}
"""Labels of keys that are shown together."""


def _group_of(key: Key) -> str:
    return _GROUPED.get(key.does, key.label)


class ConsoleScreen(LiveScreen[None]):
    """The screen that is there from start to quit; all others are pushed in front of it.

    Args:
        services: The data of header and hints.
        workspace: The panes.
        submit: Starts a command: a line as typed after `:`, or a call.
    """

    DEFAULT_CSS = "ConsoleScreen { layers: panes prompt; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KeyContext.EVERYWHERE)

    def __init__(
        self, services: ConsoleServices, workspace: PaneWorkspace, submit: Callable[[str | Call], None]
    ) -> None:
        super().__init__()
        self._services = services
        self._workspace = workspace
        self._submit = submit
        self._header = Lines(id="header")
        self._tabs = Lines(id="tabs")
        self._hints = Lines(id="hints")
        self._edges: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out header, tabs, panes and hints. Prompts are mounted when they are first opened."""
        yield self._header
        yield self._tabs
        yield self._workspace.split
        yield self._hints

    def on_mount(self) -> None:
        """Focus the first pane."""
        self._workspace.current.take_focus()
        self.refresh_data()

    def refresh_data(self) -> None:
        """Show changes: header, tabs and hints first, then every visible pane."""
        self._header.show([header_line(header_facts(self._services), self.size.width)])
        self._show_edges()
        self._workspace.refresh_data()

    async def on_resize(self) -> None:
        """Lay header, tabs and hints out for the new width; let the loop read its sockets before the second layout."""
        await asyncio.sleep(0)
        self.refresh_data()

    def action_run_line(self, line: str) -> None:
        """Start the command line of a key, as the key table has it."""
        self._submit(line)

    async def action_command_line(self) -> None:
        """Open the `:` line."""
        self._services.read_kinds()
        await self._open(self._command, "")

    async def action_command_line_with(self, text: str) -> None:
        """Open the `:` line with `text` on it."""
        self._services.read_kinds()
        await self._open(self._command, text)

    async def action_filter_line(self) -> None:
        """Open the filter line of the focused pane; where it has no filter, the command says so."""
        pane = self._workspace.current
        if pane.CONTEXT in WITHOUT_FILTER:
            self._submit("filter")
        else:
            await self._open(self._filter, pane.active_filter)

    def action_prefix(self) -> None:
        """Wait for a key of those after ctrl+w."""
        self.app.push_screen(PrefixScreen(self._services.settings.keymap, self._submit), self._chosen)

    def action_palette(self) -> None:
        """Open the command palette."""
        self.app.action_command_palette()

    @on(Split.Changed)
    @on(Split.Dragged)
    def _panes_changed(self, event: Split.Changed | Split.Dragged) -> None:
        event.stop()
        if isinstance(event, Split.Dragged):
            self._workspace.arranged()
        self.refresh_data()

    @on(Lines.Clicked)
    def _clicked(self, event: Lines.Clicked) -> None:
        event.stop()
        if event.link.line:
            self._submit(event.link.line)
        else:
            self.app.call_later(
                _press, self.app, event.link.key
            )  # the app does not pass on a key that a child has posted

    @on(Pane.Entered)
    def _entered(self, event: Pane.Entered) -> None:
        event.stop()
        self._submit(event.line)

    @on(PromptLine.Submitted, "#command-line")
    def _commanded(self, event: PromptLine.Submitted) -> None:
        event.stop()
        self._workspace.current.take_focus()
        if event.text.strip():
            self._submit(event.text)

    @on(PromptLine.Changed, "#filter-line")
    def _filtering(self, event: PromptLine.Changed) -> None:
        event.stop()
        if _is_filter_so_far(event.text):
            self._submit(Call(command_of("filter"), FilterArguments(text=event.text)))

    @on(PromptLine.Submitted, "#filter-line")
    def _filtered(self, event: PromptLine.Submitted) -> None:
        event.stop()
        if not _is_filter_so_far(event.text):
            self._submit(Call(command_of("filter"), FilterArguments(text=event.text)))
        self._workspace.current.take_focus()

    @on(PromptLine.Cancelled)
    def _cancelled(self, event: PromptLine.Cancelled) -> None:
        event.stop()
        if event.widget is self._filter:
            self._submit("filter")
        self._workspace.current.take_focus()

    @cached_property
    def _command(self) -> PromptLine:
        return PromptLine(":", hint="command", completer=self._completions, id="command-line")

    @cached_property
    def _filter(self) -> PromptLine:
        return PromptLine("/", hint="filter", id="filter-line")

    async def _open(self, prompt: PromptLine, text: str) -> None:
        if not prompt.is_attached:
            await self.mount(prompt, before=0)  # of what comes after it the painting order would change
        prompt.open(text)

    def _chosen(self, line: str | None) -> None:
        if line:
            self._submit(line)

    def _show_edges(self) -> None:
        """Lay tabs and hints out, if their contents have changed."""
        split, pane = self._workspace.split, self._workspace.current
        run, selected = self._services.runs.view, selected_run(self._services, pane.subject())
        state = None if run is None else (run.state, trouble_in(run.notices))
        panes = (split.current, split.arrangement, split.placing.is_zoomed, split.is_tabbed)
        is_readonly = self._services.settings.readonly or is_elsewhere(self._services, pane.subject())
        drains = dict(self._services.drains)
        other = other_trouble(self._services)
        edges = (self.size.width, panes, state, selected, is_readonly, drains, other)
        if edges == self._edges:
            return
        self._edges = edges
        keymap = self._services.settings.keymap
        marks = {KeyContext.RUN.value: run_mark(run)}
        if other:
            marks[KeyContext.RUNS.value] = Span("▲", Tone.BAD)
        present = leaves(split.arrangement)
        self._tabs.show([tabs_line(PANES, present, split.current, width=edges[0], marks=marks, keymap=keymap)])
        self._hints.show(
            [
                hints_line(
                    pane.CONTEXT,
                    run=run,
                    selected=selected,
                    is_readonly=is_readonly,
                    alone=_alone(split),
                    keymap=keymap,
                    width=edges[0],
                    drains=drains,
                    other=other,
                )
            ]
        )

    def _completions(self, text: str) -> tuple[str, ...]:
        snapshot, view = self._services.cluster.snapshot(), self._services.runs.view
        kinds, runs = self._services.followed.on_screen.kinds.known, _run_names(self._services)
        blueprints = self._services.blueprints.found
        shown = self._services.runs.names.get(view.id, view.id) if view else ""
        own = [word for word in self._services.settings.aliases if word.startswith(text)]
        found = complete(
            text,
            {
                "blueprint": [blueprint.id for blueprint in blueprints],
                "pane": list(PANES),
                "context": _context_names(self._services),
                "kind": kinds.words() if kinds is not None else (),
                "namespace": ["all", *_namespaces_in(snapshot)],
                "column": self._workspace.current.column_titles,
                "object": [*self._workspace.current.names, *(snapshot.pods if snapshot else ())],
                **{f"launch {blueprint.id} preset": list(blueprint.presets) for blueprint in blueprints},
                **{f"launch {blueprint.id} set": list(blueprint.parameters) for blueprint in blueprints},
                **{f"{command} object": _nodes_in(snapshot) for command in ("cordon", "uncordon", "drain")},
                "job": _jobs_in(snapshot),
                "plugin": [plugin.name for plugin, _ in self._services.settings.keymap.plugins],
                "run": runs,
                "other run": [run for run in runs if run != shown],
                "stage": [stage.id for stage in view.stages] if view else [],
                **{f"open {pane} of": of for pane, of in self._shown_in_panes().items()},
            },
        )
        return (*own, *found)

    def _shown_in_panes(self) -> dict[str, list[str]]:
        """Return what each pane can show, by its name."""
        snapshot, view, kinds = (
            self._services.cluster.snapshot(),
            self._services.runs.view,
            self._services.followed.on_screen.kinds.known,
        )
        stages = [stage.id for stage in view.stages] if view else []
        pods, nodes = list(snapshot.pods) if snapshot else [], _nodes_in(snapshot)
        return {
            "run": [*_run_names(self._services), *stages],
            "pods": [*(["run"] if view else []), *stages, *nodes, *_namespaces_in(snapshot)],
            "logs": [*stages, *pods],
            "charts": stages,
            "events": [*(f"node/{node}" for node in nodes), *pods],
            "objects": list(kinds.words()) if kinds is not None else [],
        }


def _context_names(services: ConsoleServices) -> list[str]:
    return ["run", *short_contexts(name for name, _ in services.home.contexts or ())]


def _run_names(services: ConsoleServices) -> list[str]:
    """Return the names of all runs as they stand on the screen."""
    runs = services.runs
    here = [run.id for run in runs.summaries]
    ids = [*here, *(run.id for run in runs.listed_elsewhere() if run.id not in here)]
    return [runs.names.get(run, run) for run in ids]


def _press(app: App[Any], key: str) -> None:
    app.post_message(key_event(key))


def _alone(split: Split) -> Alone | None:
    """Return the reason why one pane of several is shown."""
    if not split.is_single:
        return None
    if split.placing.has_front:
        return Alone.IN_FRONT
    return Alone.ZOOMED if split.placing.is_zoomed else Alone.TABBED


def _is_filter_so_far(text: str) -> bool:
    """Return whether a filter can be applied while it is typed: it is valid, and no request to the server."""
    from tui.settings.filters import parse_filter

    try:
        return not parse_filter(text).has_selectors
    except ParameterError:
        return False


def _namespaces_in(snapshot: ClusterSnapshot | None) -> list[str]:
    return sorted({pod.namespace for pod in snapshot.pods.values()}) if snapshot else []


def _nodes_in(snapshot: ClusterSnapshot | None) -> list[str]:
    return sorted(node.name for node in snapshot.nodes.values()) if snapshot else []


def _jobs_in(snapshot: ClusterSnapshot | None) -> list[str]:
    jobs = snapshot.workloads.values() if snapshot else ()
    return [f"{job.kind.lower()}/{job.namespace}/{job.name}" for job in jobs]


class CommandProvider(Provider):
    """The commands that the palette finds, by name or title.

    Those that need no argument are started; others open the `:` line with their name.
    """

    async def discover(self) -> Hits:
        """Return all commands, before anything is typed."""
        for command in COMMANDS:
            yield DiscoveryHit(command.title, self._runner(command), text=_palette_text(command), help=command.help)

    async def search(self, query: str) -> Hits:
        """Return the commands that match `query`."""
        matcher = self.matcher(query)
        for command in COMMANDS:
            text = _palette_text(command)
            score, offsets = matcher.fuzzy_search.match(matcher.query, text)
            if score > 0:
                score += _BEGINNING * _is_beginning(query, command)
                shown = Content(text)  # `highlight` would take its brackets for markup
                for offset in offsets:
                    shown = shown.stylize(matcher.match_style, offset, offset + 1)
                yield Hit(score, shown, self._runner(command), help=command.help)

    def _runner(self, command: Command) -> Callable[[], Awaitable[None]]:
        front, console = self.screen, self.app.screen_stack[0]

        async def run() -> None:
            if not isinstance(console, ConsoleScreen):
                return
            if not any(field.required for field in command.fields()):
                console.action_run_line(command.id)
            elif isinstance(front, ConsoleScreen):
                await front.action_command_line_with(f"{command.id} ")

        return run


_BEGINNING = 1000.0
"""Added to the score of a command whose name or title begins with what was typed: scattered letters come after it."""


def _is_beginning(query: str, command: Command) -> bool:
    typed = query.strip().casefold()
    return bool(typed) and (command.id.startswith(typed) or command.title.casefold().startswith(typed))


def _palette_text(command: Command) -> str:
    return f"{command.title} ({command.usage()})"
