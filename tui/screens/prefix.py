"""What the next key means after ctrl+w."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui.keys import Context, keys_of, shown_name
from tui.present.cells import Span, Tone
from tui.widgets.lines import Lines


class PrefixScreen(ModalScreen[str]):
    """Waits for one key; its result is the line to carry out, empty for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), f"choose({key.does!r})", key.label, show=False, priority=True)
        for key in keys_of(Context.PANES)
    ]

    def compose(self) -> ComposeResult:
        """The keys that mean something, at the bottom."""
        spans = [Span(" ctrl+w ", Tone.ACCENT)]
        for key in keys_of(Context.PANES):
            spans += [Span(f" {shown_name(key.keys[0])} ", Tone.STRONG), Span(key.label, Tone.MUTED)]
        yield Lines([tuple(spans)], id="prefix-keys")

    def action_choose(self, line: str) -> None:
        """Close with the line."""
        self.dismiss(line)

    def on_key(self, event: events.Key) -> None:
        """Any other key is a change of mind."""
        event.stop()
        self.dismiss("")
