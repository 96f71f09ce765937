"""The help page: keys of the focused pane first, then all others, then the commands."""

from __future__ import annotations

from actions.command.registry import COMMANDS
from tui.keys import MOVEMENT, Context, Key, explanation, keys_of, shown_name

_KEY_WIDTH = 22


def help_page(focused: Context) -> str:
    """Plain text; headings stand at the margin."""
    order = [focused, Context.EVERYWHERE, Context.PANES, *(c for c in Context if c is not focused)]
    sections = [_section(context) for context in dict.fromkeys(order)]
    commands = ["Commands, typed after :", *(f"  {c.usage():<44} {c.help}" for c in COMMANDS)]
    return "\n\n".join(section for section in [*sections, _movement(), "\n".join(commands)] if section)


def _section(context: Context) -> str:
    rows = list(keys_of(context))
    if not rows:
        return ""
    title = context.value if context in (Context.EVERYWHERE, Context.PANES) else f"In the {context} pane"
    return "\n".join([title[:1].upper() + title[1:], *(_line(row) for row in rows)])


def _line(row: Key) -> str:
    names = " ".join(shown_name(name) for name in row.keys)
    return f"  {names:<{_KEY_WIDTH}} {explanation(row)}"


def _movement() -> str:
    return "\n".join(
        ["In tables, logs and texts", *(f"  {' '.join(names):<{_KEY_WIDTH}} {does}" for names, does in MOVEMENT)]
    )
