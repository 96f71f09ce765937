"""From the table of keys to Textual's bindings."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from tui.keys import Context, keys_of


def bindings_of(context: Context) -> list[BindingType]:
    """The bindings of one context; each asks the screen to carry its line out.

    Keys that only the screen knows what to do with (`ASIDES`) become the screen's action of that name.
    """
    bindings: list[BindingType] = []
    for row in keys_of(context):
        if row.does == "enter":
            continue  # the focused widget says what was chosen
        action = f"screen.{row.does.replace('-', '_')}" if row.is_aside else f"screen.carry({row.does!r})"
        bindings.append(Binding(",".join(row.keys), action, row.label, id=row.id, show=False))
    return bindings
