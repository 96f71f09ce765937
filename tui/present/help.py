"""The help page: keys of the focused pane first, then all others, then the commands."""

from __future__ import annotations

from actions.command.verbs import COMMANDS
from tui.keys import MOVEMENT, Context, Key, explanation, keys_of, names_of, shown_name
from tui.live.keymap import NO_CHANGES, Keymap

_KEY_WIDTH = 12
_USAGE_WIDTH = 44


def help_page(focused: Context, keymap: Keymap = NO_CHANGES) -> str:
    """Plain text; headings stand at the margin. Keys are the operator's own where they were moved."""
    order = [focused, Context.EVERYWHERE, Context.PANES, *(c for c in Context if c is not focused)]
    sections = [_section(context, keymap) for context in dict.fromkeys(order)]
    commands = ["Commands, typed after :", *(_row(c.usage(), c.help, _USAGE_WIDTH) for c in COMMANDS)]
    return "\n\n".join(part for part in [_own(keymap), *sections, _movement(), "\n".join(commands)] if part)


def _section(context: Context, keymap: Keymap) -> str:
    rows = list(keys_of(context))
    if not rows:
        return ""
    title = context.value if context in (Context.EVERYWHERE, Context.PANES) else f"In the {context} pane"
    return "\n".join([title[:1].upper() + title[1:], *(_line(row, keymap) for row in rows)])


def _own(keymap: Keymap) -> str:
    if not keymap.lines:
        return ""
    rows = (_row(shown_name(key), f":{line}", _KEY_WIDTH) for key, line in keymap.lines.items())
    return "\n".join(["Keys of your own", *rows])


def _line(row: Key, keymap: Keymap) -> str:
    was = f" (was {shown_name(row.keys[0])})" if row.id in keymap.moved else ""
    return _row(" ".join(names_of(row, keymap)), f"{explanation(row)}{was}", _KEY_WIDTH)


def _movement() -> str:
    rows = (_row(" ".join(names), does, _KEY_WIDTH) for names, does in MOVEMENT)
    return "\n".join(["In tables, logs and texts", *rows])


def _row(name: str, text: str, width: int) -> str:
    return f"  {name:<{width}}  {text}"
