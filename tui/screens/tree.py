"""The screen of an owner tree: a line for each object, from a job to its pods, nodes and claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from tui.present.cells import Cells, CellValue, Span, Tone
from tui.widgets.base import Lines
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.cluster.objects.owner_tree import OwnerTree, TreeEntry

_GLYPHS = {
    "running": ("●", Tone.GOOD),
    "finished": ("✓", Tone.MUTED),
    "waiting": ("○", Tone.WARN),
    "failed": ("✗", Tone.BAD),
    "": ("·", Tone.MUTED),
}
_Row = tuple[int, "TreeEntry"]


class TreeScreen(ModalScreen[None]):
    """A tree as a table; enter describes the object under the cursor.

    Args:
        title: The title.
        tree: The tree.
        submit: Starts a command line.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,x", "leave", "back", show=False)]

    def __init__(self, title: str, tree: OwnerTree, submit: Callable[[str], None]) -> None:
        super().__init__()
        self._title = title
        self._submit = submit
        self._rows = list(enumerate(tree.entries))
        self._unlisted = tree.unlisted
        self._table: KeyedTable[_Row] = KeyedTable(
            _COLUMNS, key=lambda row: f"{row[0]:06}", noun="objects", empty="Nothing here."
        )

    def compose(self) -> ComposeResult:
        """Yield the tree, and its keys."""
        self._table.border_title = Content(self._title)
        yield self._table
        yield Lines([_hint(self._unlisted)], id="viewer-keys")

    def on_mount(self) -> None:
        """Show the rows, and focus them."""
        self._table.reconcile(self._rows)
        self._table.focus()

    def on_keyed_table_selected(self, event: KeyedTable.Selected) -> None:
        """Describe the object under the cursor."""
        event.stop()
        row = self._table.selected_row
        if row is not None:
            entry = row[1]
            self._submit(f"describe {'/'.join(filter(None, (entry.qualified, entry.namespace, entry.name)))}")

    def action_leave(self) -> None:
        """Close the screen."""
        self.dismiss(None)


def _hint(unlisted: tuple[str, ...]) -> Cells:
    missing = f"   may not be listed: {', '.join(unlisted)}" if unlisted else ""
    return (Span(" enter describe   esc back", Tone.MUTED), Span(missing, Tone.WARN))


def _object(row: _Row) -> CellValue:
    entry = row[1]
    glyph, tone = _GLYPHS.get(entry.state, ("?", Tone.WARN))
    return (Span(f"{'  ' * entry.depth}{glyph} ", tone), Span(f"{entry.kind} ", Tone.MUTED), Span(entry.name))


_WORDS = {
    ("Node", "running"): "Ready",
    ("Node", "waiting"): "NotReady",
    ("PersistentVolumeClaim", "running"): "Bound",
    ("NodeClaim", "running"): "Ready",
}
"""The words of Kubernetes for states of what does not run."""


def _state(row: _Row) -> CellValue:
    word = _WORDS.get((row[1].kind, row[1].state), row[1].state)
    return Span(word, _GLYPHS.get(row[1].state, ("?", Tone.WARN))[1])


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("object", "OBJECT", _object, width=40, flex=3, sort_key=lambda row: row[0]),
    Column("state", "STATE", _state, width=9),
    Column("namespace", "NAMESPACE", lambda row: row[1].namespace, width=12, drop=2),
    Column("detail", "DETAIL", lambda row: row[1].detail, width=20, flex=2, drop=1),
)
