"""What the next key means after ctrl+w."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui.keys import Context, keys_of, name_of, names_of
from tui.live.keymap import Keymap
from tui.present.cells import Span, Tone
from tui.widgets.lines import Lines


class PrefixScreen(ModalScreen[str]):
    """Waits for one key; its result is the line to carry out, empty for none.

    Args:
        keymap: The operator's own keys.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), f"choose({key.does!r})", key.label, id=key.id, show=False, priority=True)
        for key in keys_of(Context.PANES)
    ]

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """The keys that mean something, at the bottom."""
        spans = [Span(f" {name_of(Context.EVERYWHERE, 'prefix', self._keymap)} ", Tone.ACCENT)]
        for key in keys_of(Context.PANES):
            spans += [Span(f" {names_of(key, self._keymap)[0]} ", Tone.STRONG), Span(key.label, Tone.MUTED)]
        yield Lines([tuple(spans)], id="prefix-keys")

    def action_choose(self, line: str) -> None:
        """Close with the line."""
        self.dismiss(line)

    def on_key(self, event: events.Key) -> None:
        """Any other key is a change of mind."""
        event.stop()
        self.dismiss("")
