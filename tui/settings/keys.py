"""The table of keys: one row a key, behind bindings, footer, help page and docs/keys.md."""

from __future__ import annotations

import enum
import string
from collections.abc import Iterator
from typing import get_args

import msgspec

from actions.command.arguments import PaneName
from actions.command.parse import parse_line
from actions.command.verbs import COMMANDS
from tui.settings.keymap import NO_CHANGES, Keymap


class KeyContext(enum.StrEnum):
    """The place where a key works. A pane's context has the pane's name."""

    EVERYWHERE = "everywhere"
    PANES = "after ctrl+w"
    HOME = "home"
    NODES = "nodes"
    PODS = "pods"
    BLUEPRINTS = "blueprints"
    RUNS = "runs"
    RUN = "run"
    LOGS = "logs"
    ACCELERATORS = "accelerators"
    CHARTS = "charts"
    EVENTS = "events"
    COST = "cost"
    OBJECTS = "objects"


class Key(msgspec.Struct, frozen=True):
    """A row of the table of keys.

    Args:
        context: The place where it works.
        keys: Textual's names of its keys; the first one is shown.
        does: Its effect: a line as typed after `:`, or one of `ASIDES`.
        label: One or two words for the footer.
        in_footer: Shown in the footer at 80 columns.
        repeats: After the prefix, it can be pressed several times.
    """

    context: KeyContext
    keys: tuple[str, ...]
    does: str
    label: str
    in_footer: bool = False
    repeats: bool = False

    @property
    def id(self) -> str:
        """The row's name in the operator's keymap: `pods.shell`."""
        return f"{self.context.name.lower()}.{self.does}"

    @property
    def is_aside(self) -> bool:
        """True if it concerns only the screen, and is not a command."""
        return self.does in ASIDES


ASIDES = {
    "enter": "Open the selection: node → its pods → logs; blueprint → launch; stage → its log.",
    "command-line": "Type a command, with completion.",
    "filter-line": "Filter the focused pane while typing.",
    "palette": "Find a command by its name.",
    "prefix": "Prefix of the keys listed under “After ctrl+w”.",
}
"""Actions that are not commands, with explanations."""


PANE_KEYS: dict[str, PaneName] = dict(zip("H123456789K0", get_args(PaneName), strict=True))
"""The panes by the keys that open them, in the panes' order."""

_OBJECT_CONTEXTS = (KeyContext.NODES, KeyContext.PODS, KeyContext.ACCELERATORS, KeyContext.OBJECTS)
_TREE_CONTEXTS = (KeyContext.PODS, KeyContext.OBJECTS, KeyContext.RUN, KeyContext.RUNS)
_WHY_CONTEXTS = (
    KeyContext.HOME, KeyContext.NODES, KeyContext.PODS, KeyContext.ACCELERATORS, KeyContext.EVENTS,
)  # fmt: skip

KEYS: tuple[Key, ...] = (
    *(Key(KeyContext.EVERYWHERE, (key,), f"open {pane}", pane) for key, pane in PANE_KEYS.items()),
    Key(KeyContext.EVERYWHERE, ("enter",), "enter", "open"),
    Key(KeyContext.EVERYWHERE, ("colon",), "command-line", "do", in_footer=True),
    Key(KeyContext.EVERYWHERE, ("slash",), "filter-line", "filter", in_footer=True),
    Key(KeyContext.EVERYWHERE, ("question_mark", "f1"), "help", "help", in_footer=True),
    Key(KeyContext.EVERYWHERE, ("escape",), "back", "back"),
    Key(KeyContext.EVERYWHERE, ("z",), "zoom", "zoom"),
    Key(KeyContext.EVERYWHERE, ("tab",), "focus next", "next pane"),
    Key(KeyContext.EVERYWHERE, ("shift+tab",), "focus previous", "previous pane"),
    Key(KeyContext.EVERYWHERE, ("ctrl+w",), "prefix", "panes"),
    Key(KeyContext.EVERYWHERE, ("ctrl+p",), "palette", "palette"),
    Key(KeyContext.EVERYWHERE, ("Y",), "copy", "copy"),
    Key(KeyContext.EVERYWHERE, ("q",), "quit", "quit", in_footer=True),
    Key(KeyContext.PANES, ("h", "left"), "focus left", "left"),
    Key(KeyContext.PANES, ("j", "down"), "focus down", "down"),
    Key(KeyContext.PANES, ("k", "up"), "focus up", "up"),
    Key(KeyContext.PANES, ("l", "right"), "focus right", "right"),
    Key(KeyContext.PANES, ("v",), "split right", "split right"),
    Key(KeyContext.PANES, ("s",), "split down", "split below"),
    Key(KeyContext.PANES, ("H", "shift+left"), "resize left", "resize", repeats=True),
    Key(KeyContext.PANES, ("J", "shift+down"), "resize down", "resize", repeats=True),
    Key(KeyContext.PANES, ("K", "shift+up"), "resize up", "resize", repeats=True),
    Key(KeyContext.PANES, ("L", "shift+right"), "resize right", "resize", repeats=True),
    Key(KeyContext.PANES, ("equals_sign",), "equalize", "equal"),
    Key(KeyContext.PANES, ("x",), "swap next", "swap"),
    Key(KeyContext.PANES, ("c",), "close", "close"),
    Key(KeyContext.PANES, ("o",), "layout single", "one pane"),
    Key(KeyContext.PANES, ("z",), "zoom", "zoom"),
    Key(KeyContext.PANES, ("r",), "layout watch", "watch a run"),
    Key(KeyContext.PANES, ("f",), "layout quad", "four panes"),
    Key(KeyContext.PODS, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.PODS, ("v",), "watch", "watch job"),
    Key(KeyContext.PODS, ("s",), "shell", "shell", in_footer=True),
    Key(KeyContext.ACCELERATORS, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.ACCELERATORS, ("s",), "shell", "shell", in_footer=True),
    *(Key(context, ("d",), "describe", "describe", in_footer=True) for context in _OBJECT_CONTEXTS),
    *(Key(context, ("y",), "yaml", "yaml") for context in _OBJECT_CONTEXTS),
    *(Key(context, ("D",), "delete", "delete") for context in (KeyContext.PODS, KeyContext.OBJECTS)),
    *(Key(context, ("e",), "edit", "edit") for context in (KeyContext.NODES, KeyContext.PODS, KeyContext.OBJECTS)),
    *(Key(context, ("x",), "tree", "tree") for context in _TREE_CONTEXTS),
    Key(KeyContext.OBJECTS, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.OBJECTS, ("v",), "watch", "watch job"),
    Key(KeyContext.NODES, ("c",), "cordon", "cordon"),
    Key(KeyContext.NODES, ("U",), "uncordon", "uncordon"),
    Key(KeyContext.EVENTS, ("d",), "describe", "describe", in_footer=True),
    *(Key(context, ("w",), "why", "why", in_footer=True) for context in _WHY_CONTEXTS),
    Key(KeyContext.HOME, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.HOME, ("P",), "park", "park", in_footer=True),
    Key(KeyContext.LOGS, ("O",), "only", "one pod"),
    Key(KeyContext.CHARTS, ("m",), "chart", "curve", in_footer=True),
    Key(KeyContext.CHARTS, ("M",), "chart all", "all", in_footer=True),
    Key(KeyContext.CHARTS, ("enter",), "chart pick", "choose"),
    Key(KeyContext.RUN, ("a",), "approve", "approve", in_footer=True),  # an answer comes first: a footer is cut behind
    Key(KeyContext.RUN, ("w",), "why", "why", in_footer=True),
    Key(KeyContext.RUN, ("R",), "resume", "resume", in_footer=True),
    Key(KeyContext.RUN, ("f",), "forward", "forward"),
    Key(KeyContext.RUN, ("o",), "results", "results", in_footer=True),
    Key(KeyContext.RUN, ("p",), "pause", "pause"),
    Key(KeyContext.RUN, ("C",), "cancel", "cancel", in_footer=True),
    Key(KeyContext.RUN, ("P",), "park", "park", in_footer=True),
    Key(KeyContext.RUN, ("T",), "teardown", "teardown", in_footer=True),
    Key(KeyContext.RUNS, ("a",), "approve", "approve", in_footer=True),
    Key(KeyContext.RUNS, ("w",), "why", "why", in_footer=True),
    Key(KeyContext.RUNS, ("R",), "resume", "resume", in_footer=True),
    Key(KeyContext.RUNS, ("p",), "pause", "pause"),
    Key(KeyContext.RUNS, ("C",), "cancel", "cancel", in_footer=True),
    Key(KeyContext.RUNS, ("P",), "park", "park", in_footer=True),
    Key(KeyContext.RUNS, ("T",), "teardown", "teardown", in_footer=True),
)


WIDGET_KEYS: dict[KeyContext, tuple[tuple[str, str], ...]] = {
    KeyContext.LOGS: (("F", "follow"), ("/", "search"), ("&", "only"), ("b", "error"), ("W", "wrap"), ("t", "time")),
    KeyContext.CHARTS: (("L", "log"), ("E", "smooth"), ("←→", "values")),
}
"""Keys of a pane's own widgets, for the footer: key and label."""


_WITHOUT_FILTER = (KeyContext.HOME, KeyContext.RUN, KeyContext.CHARTS, KeyContext.LOGS)
"""Panes with nothing to filter, or with a search of their own under that key."""


ENTERED = {
    KeyContext.HOME: "open",
    KeyContext.NODES: "pods",
    KeyContext.PODS: "log",
    KeyContext.BLUEPRINTS: "launch",
    KeyContext.RUNS: "open",
    KeyContext.RUN: "log",
    KeyContext.ACCELERATORS: "log",
    KeyContext.CHARTS: "pick",
}
"""The target of enter, in the panes where it opens something."""


def keys_of(context: KeyContext) -> Iterator[Key]:
    """Return the rows of one context, in the table's order."""
    return (key for key in KEYS if key.context is context)


def names_of(row: Key, keymap: Keymap = NO_CHANGES) -> tuple[str, ...]:
    """Return the keys of a row, as people write them: the operator's own if they were moved."""
    moved = keymap.moved.get(row.id)
    return tuple(shown_name(name) for name in (moved.split(",") if moved else row.keys))


def key_name(context: KeyContext, does: str, keymap: Keymap = NO_CHANGES) -> str:
    """Return the first key of the row of a context that does `does`.

    Raises:
        StopIteration: The table has no such row.
    """
    return names_of(next(row for row in keys_of(context) if row.does == does), keymap)[0]


def shown_name(key: str) -> str:
    """Return a key as people write it: `colon` is `:`."""
    return {
        "colon": ":",
        "equals_sign": "=",
        "slash": "/",
        "question_mark": "?",
        "escape": "esc",
        "left_square_bracket": "[",
        "right_square_bracket": "]",
        "right_curly_bracket": "}",
    }.get(key, key)


def explanation(key: Key) -> str:
    """Return the effect of a key in a sentence."""
    if key.is_aside:
        return ASIDES[key.does]
    call = parse_line(key.does)
    title = call.command.title
    if call.values():
        return f"{title}: {' '.join(str(value) for value in call.values().values())}."
    return f"{title}{'' if title.endswith('?') else '.'} {call.command.help}"


def footer(context: KeyContext, keymap: Keymap = NO_CHANGES) -> tuple[tuple[str, str], ...]:
    """Return keys and labels for the footer while a pane of `context` has the focus, the pane's own keys first."""
    own = WIDGET_KEYS.get(context, ())
    entered = ENTERED.get(context)
    inside = [(key_name(KeyContext.EVERYWHERE, "enter"), entered)] if entered else []
    special = [(names_of(row, keymap)[0], row.label) for row in KEYS if row.in_footer and row.context is context]
    both = (*special, *own) if context is KeyContext.CHARTS else (*own, *special)
    return (*both, *inside, *common_keys(context, keymap))


def common_keys(context: KeyContext, keymap: Keymap = NO_CHANGES) -> tuple[tuple[str, str], ...]:
    """Return keys and labels that the footer has in every pane, but for those that a pane of `context` lacks."""
    rows = [row for row in KEYS if row.in_footer and row.context is KeyContext.EVERYWHERE]
    lacking = ("filter-line",) if context in _WITHOUT_FILTER else ()
    return tuple((names_of(row, keymap)[0], row.label) for row in rows if row.does not in lacking)


_HEAD = """\
# Keys

Generated from `tui/settings/keys.py`; `?` in the console shows the same keys.

Put your own keys into `~/.config/eksml-tui/keys.yaml`. `move` gives other keys to rows of the tables below: the name
of a row is the first word of its table (`everywhere`, `panes`, `pods` …), a dot, and the command. `own` binds keys to
lines as typed after `:`; they work everywhere. Footer and help show them. For a mistake, or a key with two meanings in
one place, the console prints file, line and column, and does not start.

A letter means one thing in every pane; keys after ctrl+w are a table of their own, as in vim. What stops or removes has
a capital: `C` cancel, `P` park, `T` tear down, `D` delete. A key for a pane goes to it: one that is not in the layout
is shown alone in front of it, and esc returns to the layout as it was; split now, and it stays. On a screen too small
for a layout its panes are tabs.

```yaml
move: {pods.shell: S, everywhere.zoom: f5}
own: {f6: open pods of=run, f7: layout quad}
```

Free for your own, in every pane: FREE, and `f2` to `f12` without `f9`.
"""


def keys_page() -> str:
    """Return the text of docs/keys.md."""
    parts = [_HEAD.replace("FREE", ", ".join(f"`{letter}`" for letter in free_letters()))]
    for context in KeyContext:
        rows = list(keys_of(context))
        if not rows:
            continue
        parts.append(f"## {context.value.capitalize()}\n\n| Key | Does | Command |\n| --- | --- | --- |")
        for row in rows:
            names = ", ".join(f"`{name}`" for name in names_of(row))
            typed = "" if row.is_aside else f"`:{row.does}`"
            parts.append(f"| {names} | {explanation(row)} | {typed} |")
        parts.append("")
    return "\n".join([*parts, _movement_page()])


MOVEMENT: tuple[tuple[tuple[str, ...], str], ...] = (
    (("j", "k", "arrows"), "Move one line down, up."),
    (("ctrl+d", "ctrl+u"), "Move half a page down, up."),
    (("pagedown", "pageup"), "Move a page down, up."),
    (("g", "G", "home", "end"), "Go to the first, last line."),
    ((",", ".", ";"), "Sort by the previous, the next column; reverse the order (tables)."),
    (("space",), "Mark a row, or drop its mark (tables of nodes, pods, objects); a mark in a log: `:mark`."),
    (("'", '"'), "Go to the next, the previous mark, `:mark next`; Y copies from it on (logs)."),
    (("/", "n", "N"), "Search, next match, previous match (logs: `:search`, `:goto match`; texts)."),
    (("&",), "Show only matching lines (logs): `:filter`."),
    (("b", "B"), "Go to the next, previous error, “bad” line (logs): `:goto error`."),
    (
        ("F", "W", "t", "S"),
        "Switch follow, wrap (also texts; logs: tracebacks, all, none), time, source (logs): `:set wrap all`.",
    ),
    (
        ("J",),
        "Show lines of JSON as LEVEL message key=value, or raw: searches, copies and files take them raw (logs): "
        "`:set json`.",
    ),
    (("L", "E", "t"), "Switch logarithmic axis, smoothing, time axis (charts): `:set log`, `:set smooth off`."),
    (
        ("left", "right"),
        "Move the cursor to the point before, the next one, and show the values there (all charts): `:axis next`.",
    ),
    (("+", "-", "="), "Zoom the x axis in, out; show the whole axis without a cursor (charts): `:axis in`."),
    (("h", "l", "shift+arrows"), "Move along a zoomed x axis (charts): `:axis left`."),
    (("h", "l", "left", "right"), "Scroll sideways over lines that are not wrapped (logs): `:goto right`."),
    (("n", "N"), "Go to the next, the previous of several charts: `:chart next`."),
    (("ctrl+] q", "ctrl+] ctrl+]"), "Leave a shell, send ctrl+] to it: esc is the program's."),
)
"""Keys of the widgets themselves, for help and documentation."""


def free_letters() -> tuple[str, ...]:
    """Return the letters that mean nothing in any pane, small ones first: for new keys, and for the operator's own.

    Letters that are used only after ctrl+w are free.
    """
    used = {name for row in KEYS if row.context is not KeyContext.PANES for name in row.keys}
    used.update(name for names, _ in MOVEMENT for name in names)
    return tuple(letter for letter in string.ascii_letters if letter not in used)


def _movement_page() -> str:
    rows = (f"| {', '.join(f'`{name}`' for name in names)} | {does} |" for names, does in MOVEMENT)
    return "\n".join(["## In tables, logs and texts\n", "| Key | Does |", "| --- | --- |", *rows, ""])


_KEY_WIDTH = 12
_USAGE_WIDTH = 44


def help_page(focused: KeyContext, keymap: Keymap = NO_CHANGES) -> str:
    """Return the help as plain text, headings at the margin, with the operator's own keys."""
    order = [focused, KeyContext.EVERYWHERE, KeyContext.PANES, *(c for c in KeyContext if c is not focused)]
    sections = [_section(context, keymap, is_focused=context is focused) for context in dict.fromkeys(order)]
    commands = ["Commands, typed after :", *(_row(c.usage(), c.help, _USAGE_WIDTH) for c in COMMANDS)]
    return "\n\n".join(part for part in [_own(keymap), *sections, _movement(), "\n".join(commands)] if part)


def _section(context: KeyContext, keymap: Keymap, *, is_focused: bool = False) -> str:
    """Return the keys of a context; of the focused one first those of its own widget: they are looked for most."""
    rows = list(keys_of(context))
    if not rows:
        return ""
    title = context.value if context in (KeyContext.EVERYWHERE, KeyContext.PANES) else f"In the {context} pane"
    own = [_row(" ".join(names), does, _KEY_WIDTH) for names, does in MOVEMENT if is_focused and _is_for(context, does)]
    return "\n".join([title[:1].upper() + title[1:], *own, *(_line(row, keymap) for row in rows)])


def _is_for(context: KeyContext, does: str) -> bool:
    """Return whether a key of widgets is for the one of a pane, by the panes that its sentence names in brackets."""
    return any(context.value in part.partition(")")[0] for part in does.split("(")[1:])


def _own(keymap: Keymap) -> str:
    if not keymap.lines:
        return ""
    rows = (_row(shown_name(key), f":{line}", _KEY_WIDTH) for key, line in keymap.lines.items())
    return "\n".join(["Your own keys", *rows])


def _line(row: Key, keymap: Keymap) -> str:
    was = f" (was {shown_name(row.keys[0])})" if row.id in keymap.moved else ""
    return _row(" ".join(names_of(row, keymap)), f"{explanation(row)}{was}", _KEY_WIDTH)


def _movement() -> str:
    rows = (_row(" ".join(names), does, _KEY_WIDTH) for names, does in MOVEMENT)
    return "\n".join(["In tables, logs and texts", *rows])


def _row(name: str, text: str, width: int) -> str:
    return f"  {name:<{width}}  {text}"
