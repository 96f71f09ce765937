"""The table of keys: one row a key, behind bindings, footer, help page and docs/keys.md."""

from __future__ import annotations

import enum
import itertools
import re
import string
from collections.abc import Iterator, Sequence
from typing import get_args

import msgspec

from actions.command.arguments import PaneName
from actions.command.parse import parse_line
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
    QUEUES = "queues"


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
    "enter": "Open the selection. A node's pods, a pod's log, a blueprint's form, a stage's log.",
    "command-line": "Type a command, with completion.",
    "filter-line": "Filter the pane while typing.",
    "palette": "Find a command: all of them, with what they take and do.",
    "prefix": "Prefix of the keys below, which place panes as in vim.",
}
"""Actions that are not commands, with explanations."""


PANE_KEYS: dict[str, PaneName] = dict(zip("H123456789KQ0", get_args(PaneName), strict=True))
"""The panes by the keys that open them, in the panes' order."""

_OBJECT_CONTEXTS = (
    KeyContext.NODES, KeyContext.PODS, KeyContext.ACCELERATORS, KeyContext.OBJECTS, KeyContext.QUEUES,
)  # fmt: skip
_WHY_CONTEXTS = (
    KeyContext.HOME, KeyContext.NODES, KeyContext.PODS, KeyContext.ACCELERATORS, KeyContext.EVENTS,
    KeyContext.QUEUES,
)  # fmt: skip

KEYS: tuple[Key, ...] = (
    *(Key(KeyContext.EVERYWHERE, (key,), f"open {pane}", pane) for key, pane in PANE_KEYS.items()),
    Key(KeyContext.EVERYWHERE, ("enter",), "enter", "open"),
    Key(KeyContext.EVERYWHERE, ("colon",), "command-line", "do", in_footer=True),
    Key(KeyContext.EVERYWHERE, ("slash",), "filter-line", "filter", in_footer=True),
    Key(KeyContext.EVERYWHERE, ("question_mark",), "help", "help", in_footer=True),
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
    Key(KeyContext.PANES, ("H",), "resize left", "resize", repeats=True),
    Key(KeyContext.PANES, ("J",), "resize down", "resize", repeats=True),
    Key(KeyContext.PANES, ("K",), "resize up", "resize", repeats=True),
    Key(KeyContext.PANES, ("L",), "resize right", "resize", repeats=True),
    Key(KeyContext.PANES, ("equals_sign",), "equalize", "equal"),
    Key(KeyContext.PANES, ("x",), "swap next", "swap"),
    Key(KeyContext.PANES, ("c",), "close", "close"),
    Key(KeyContext.PANES, ("o",), "layout single", "one pane"),
    Key(KeyContext.PANES, ("r",), "layout watch", "watch a run"),
    Key(KeyContext.PODS, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.PODS, ("v",), "watch", "watch job"),
    Key(KeyContext.PODS, ("s",), "shell", "shell", in_footer=True),
    Key(KeyContext.ACCELERATORS, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.ACCELERATORS, ("s",), "shell", "shell", in_footer=True),
    Key(KeyContext.ACCELERATORS, ("V",), "open accelerators all", "all"),
    *(Key(context, ("d",), "describe", "describe", in_footer=True) for context in _OBJECT_CONTEXTS),
    *(Key(context, ("y",), "yaml", "yaml") for context in _OBJECT_CONTEXTS),
    *(Key(context, ("D",), "delete", "delete") for context in (KeyContext.PODS, KeyContext.OBJECTS)),
    *(Key(context, ("e",), "edit", "edit") for context in (KeyContext.NODES, KeyContext.PODS, KeyContext.OBJECTS)),
    Key(KeyContext.OBJECTS, ("l",), "logs", "logs", in_footer=True),
    *(Key(context, ("v",), "watch", "watch job") for context in (KeyContext.OBJECTS, KeyContext.QUEUES)),
    *(Key(context, ("u",), "queue", "its queue") for context in (KeyContext.PODS, KeyContext.OBJECTS)),
    Key(KeyContext.NODES, ("c",), "cordon", "cordon"),
    Key(KeyContext.NODES, ("U",), "uncordon", "uncordon"),
    Key(KeyContext.EVENTS, ("d",), "describe", "describe", in_footer=True),
    *(Key(context, ("w",), "why", "why", in_footer=True) for context in _WHY_CONTEXTS),
    Key(KeyContext.HOME, ("l",), "logs", "logs", in_footer=True),
    Key(KeyContext.HOME, ("P",), "park", "park", in_footer=True),
    Key(KeyContext.LOGS, ("O",), "only", "one pod"),
    Key(KeyContext.LOGS, ("A",), "browse", "web page"),
    Key(KeyContext.LOGS, ("w",), "why", "why"),
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


WITHOUT_FILTER = frozenset({KeyContext.HOME, KeyContext.RUN, KeyContext.CHARTS})
"""Panes with nothing to filter."""


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


def explanation(*rows: Key) -> str:
    """Return the effect of a key in two sentences; of several that differ in one value, with all values."""
    if rows[0].is_aside:
        return ASIDES[rows[0].does]
    calls = [parse_line(row.does) for row in rows]
    title = calls[0].command.title
    values = [" ".join(str(value) for value in call.values().values()) for call in calls]
    if any(values):
        return f"{title}: {', '.join(values)}."
    return f"{title}{'' if title.endswith('?') else '.'} {calls[0].command.help}"


def footer(context: KeyContext, keymap: Keymap = NO_CHANGES) -> tuple[tuple[str, str], ...]:
    """Return keys and labels for the footer while a pane of `context` has the focus, the pane's own keys first."""
    own = WIDGET_KEYS.get(context, ())
    entered = ENTERED.get(context)
    inside = [(key_name(KeyContext.EVERYWHERE, "enter"), entered)] if entered else []
    special = [(names_of(row, keymap)[0], row.label) for row in KEYS if row.in_footer and row.context is context]
    both = (*special, *own) if context is KeyContext.CHARTS else (*own, *special)
    plugins = [(plugin.key, plugin.description) for plugin, panes in keymap.plugins if context in panes]
    return (*both, *inside, *plugins, *common_keys(context, keymap))


def common_keys(context: KeyContext, keymap: Keymap = NO_CHANGES) -> tuple[tuple[str, str], ...]:
    """Return keys and labels that the footer has in every pane, but for those that a pane of `context` lacks."""
    rows = [row for row in KEYS if row.in_footer and row.context is KeyContext.EVERYWHERE]
    searches = "/" in dict(WIDGET_KEYS.get(context, ()))
    lacking = ("filter-line",) if searches or context in WITHOUT_FILTER else ()
    return tuple((names_of(row, keymap)[0], row.label) for row in rows if row.does not in lacking)


_HEAD = """\
# Keys

Generated from `tui/settings/keys.py`. `?` in the console shows those of the pane that has the focus, on one screen;
`ctrl+p` finds the commands.

A letter means one thing in every pane; keys after ctrl+w are a table of their own, as in vim. What stops or removes has
a capital: `C` cancel, `P` park, `T` tear down, `D` delete. A key for a pane goes to it: one that is not in the layout
is shown alone in front of it, and esc returns to the layout as it was; split now, and it stays. On a screen too small
for a layout its panes are tabs. Arrows move as `j` and `k`, `pagedown` and `pageup` by a page, `home` and `end` as `g`
and `G`; after ctrl+w they go to a pane.

## Your own

Put your own keys into `~/.config/eksml-tui/keys.yaml`. `move` gives other keys to a row of the first three tables, in
one pane: its name is the pane (`everywhere` for the first table, `panes` for the second), a dot, and the command. `own`
binds keys to lines as typed after `:`; they work everywhere. Footer and help show them. For a mistake, or a key with
two meanings in one place, the console prints file, line and column, and does not start.

```yaml
move: {pods.shell: S, everywhere.zoom: f5, panes.split right: w}
own: {f6: open pods of=run, f7: layout quad}
```

Free for your own, in every pane: FREE, and `f1` to `f12`.

## Plugins

`~/.config/eksml-tui/plugins.yaml` and the files of the folder `plugins` beside it (there also one plugin a file, or
names without `plugins:`) have external programs that a key starts with the selected object, in the form of k9s:
`shortCut` (`r`, `Shift-A`, `Ctrl-Y`, `F5`), `scopes` (kinds by any name, `containers`, `all`), `description`,
`command`, `args`, and where wanted `background`, `confirm`, `dangerous`, `overwriteOutput`, `inputs`. They are in
footer, help and completion (`:plugin NAME`).

```yaml
plugins:
  stern:
    shortCut: Ctrl-Y
    description: stern
    scopes: [pods]
    command: stern
    args: [--tail, 50, $FILTER, -n, $NAMESPACE, --context, $CONTEXT]
```

Placeholders are `$NAME`, `$NAMESPACE`, `$POD`, `$CONTAINER`, `$FILTER`, `$CONTEXT`, `$CLUSTER`, `$USER`, `$GROUPS`,
`$KUBECONFIG`, `$RESOURCE_GROUP`, `$RESOURCE_VERSION`, `$RESOURCE_NAME`, `$COL-STATUS` (a column that is shown) and
`$INPUT_SIZE`; also `${NAME}`, and `$!COL-X` for the opposite. A program gets them as words of its own, without a
shell. A value that was not typed is refused where it begins with `-`; and with a blank or a sign of a shell, where it
is part of an argument, or where a shell (or `watch`, `ssh`) is among the words. In front it has the terminal until it
ends; in the background it ends with the console, at the latest after a day, and its end is shown. One with `dangerous`
or `confirm` is confirmed first, and inputs are typed after `:`. A read-only console refuses all. As in k9s it gets the
row of the cursor, also where rows are marked. A key that means something in the panes of a plugin is refused with its
line, also with `override`: move that one in keys.yaml.
"""


def keys_page() -> str:
    """Return the text of docs/keys.md."""
    head = _HEAD.replace("FREE", ", ".join(f"`{letter}`" for letter in free_letters()))
    inside = [row for row in KEYS if row.context not in (KeyContext.EVERYWHERE, KeyContext.PANES)]
    return "\n".join(
        [
            head,
            *_table("Everywhere", list(keys_of(KeyContext.EVERYWHERE))),
            *_table("After ctrl+w", list(keys_of(KeyContext.PANES))),
            *_table("In panes", inside, has_panes=True),
            *_table_of_lines(),
        ]
    )


def _table(title: str, rows: Sequence[Key], *, has_panes: bool = False) -> Iterator[str]:
    """Return the table of some rows: one line for a key that does the same in several panes, and one for values."""
    yield from (f"## {title}", "")
    places, dashes = (" Panes |", " --- |") if has_panes else ("", "")
    yield from (f"| Key | Does |{places} Command |", f"| --- | --- |{dashes} --- |")
    alike: dict[tuple[tuple[str, ...], str], list[Key]] = {}
    for row in rows:
        alike.setdefault((row.keys, row.does), []).append(row)
    for same in _in_values([rows[0] for rows in alike.values()]):
        names = ", ".join(f"`{names_of(row)[0]}`" for row in same)
        panes = ", ".join(row.context.value for row in alike[same[0].keys, same[0].does])
        lines = [] if same[0].is_aside else [f"`:{row.does}`" for row in same]
        typed = ", ".join(lines if len(lines) <= _MANY else [lines[0], "…"])
        yield f"| {names} | {explanation(*same)} |{f' {panes} |' if has_panes else ''} {typed} |"
    yield ""


_MANY = 4
"""The most commands in a row."""


def _in_values(rows: Sequence[Key]) -> Iterator[tuple[Key, ...]]:
    """Return neighbours of one command together that differ in its values alone, in a context."""
    for _, same in itertools.groupby(rows, lambda row: (row.context, row.does.split()[0], " " in row.does)):
        yield tuple(same)


_WIDGETS: dict[str, tuple[KeyContext, ...]] = {
    "all": tuple(KeyContext),
    "tables": (
        KeyContext.NODES, KeyContext.PODS, KeyContext.BLUEPRINTS, KeyContext.RUNS, KeyContext.ACCELERATORS,
        KeyContext.EVENTS, KeyContext.COST, KeyContext.OBJECTS,
    ),
    "nodes, pods, objects": (KeyContext.NODES, KeyContext.PODS, KeyContext.OBJECTS),
    "logs": (KeyContext.LOGS,),
    "logs, texts": (KeyContext.LOGS,),
    "charts": (KeyContext.CHARTS,),
    "shells": (KeyContext.PODS, KeyContext.ACCELERATORS),
}  # fmt: skip
"""The panes that have a widget, by the words for it."""


class WidgetKeys(msgspec.Struct, frozen=True):
    """Keys of a widget itself, for help and documentation: they have no rows in the table of keys.

    Args:
        keys: As people write them.
        does: Their effect.
        where: What has them, one of `_WIDGETS`.
        line: The same, typed after `:`.
    """

    keys: tuple[str, ...]
    does: str
    where: str
    line: str = ""


MOVEMENT: tuple[WidgetKeys, ...] = (
    WidgetKeys(("j", "k"), "Go down, up.", "all"),
    WidgetKeys(("ctrl+d", "ctrl+u"), "Go half a page down, up.", "all"),
    WidgetKeys(("g", "G"), "Go to the first, the last line.", "all"),
    WidgetKeys((",", ".", ";"), "Sort by the previous, the next column; reverse the order.", "tables"),
    WidgetKeys(("space",), "Mark a row, or drop its mark: commands are for all of them.", "nodes, pods, objects"),
    WidgetKeys(("/", "n", "N"), "Search; go to the next, the previous match.", "logs, texts", ":search"),
    WidgetKeys(("&",), "Show only matching lines.", "logs", ":filter"),
    WidgetKeys(("b", "B"), "Go to the next, the previous error, “bad” line.", "logs", ":goto error"),
    WidgetKeys(
        ("space", "'", '"'), "Mark a line; go to the next, the previous mark. Y copies from it on.", "logs", ":mark"
    ),
    WidgetKeys(("F", "t", "S"), "Switch follow, time, source.", "logs", ":set follow"),
    WidgetKeys(("W",), "Wrap tracebacks, all lines, none.", "logs, texts", ":set wrap all"),
    WidgetKeys(("J",), "Lay out lines of JSON, or not. Search, copies and files take them raw.", "logs", ":set json"),
    WidgetKeys(("h", "l"), "Go sideways over lines that are not wrapped.", "logs", ":goto right"),
    WidgetKeys(("L", "E", "t"), "Switch logarithmic axis, smoothing, time axis.", "charts", ":set log"),
    WidgetKeys(("left", "right"), "Show the values at the point before, at the next one.", "charts", ":axis next"),
    WidgetKeys(("+", "-", "="), "Zoom the x axis in, out; show the whole axis.", "charts", ":axis in"),
    WidgetKeys(("h", "l"), "Go along a zoomed x axis.", "charts", ":axis left"),
    WidgetKeys(("n", "N"), "Go to the next, the previous of several charts.", "charts", ":chart next"),
    WidgetKeys(("pagedown", "pageup"), "Show the next, the previous page of charts.", "charts", ":chart next-page"),
    WidgetKeys(("ctrl+] q",), "Leave a shell: ctrl+] twice sends it one, esc is the program's.", "shells"),
)
"""Keys of the widgets themselves, for help and documentation."""


def free_letters() -> tuple[str, ...]:
    """Return the letters that mean nothing in any pane, small ones first: for new keys, and for the operator's own.

    Letters that are used only after ctrl+w are free.
    """
    used = {name for row in KEYS if row.context is not KeyContext.PANES for name in row.keys}
    used.update(name for row in MOVEMENT for name in row.keys)
    return tuple(letter for letter in string.ascii_letters if letter not in used)


def _table_of_lines() -> Iterator[str]:
    yield from (
        "## In tables, logs, charts and texts",
        "",
        "| Key | Does | Where | Command |",
        "| --- | --- | --- | --- |",
    )
    for row in MOVEMENT:
        typed = f"`{row.line}`" if row.line else ""
        yield f"| {', '.join(f'`{name}`' for name in row.keys)} | {row.does} | {row.where} | {typed} |"
    yield ""


_KEY_WIDTH = 14
_Line = tuple[tuple[str, ...], str]
"""Keys, and what they do."""


def help_page(focused: KeyContext, keymap: Keymap = NO_CHANGES, width: int = 160) -> str:
    """Return the help for a pane as plain text, headings at the margin, with the operator's own keys.

    It is one screen of 160x45, and at most two of 80x24: where its sentences are too long, a key has the first one.

    Args:
        focused: The pane that has the focus.
        keymap: The operator's own keys.
        width: Columns.
    """
    own: list[_Line] = [((shown_name(key),), f":{line}") for key, line in keymap.lines.items()]
    for plugin, panes in keymap.plugins:
        if focused in panes:
            own.append(((plugin.key,), f"{plugin.description} (:plugin {plugin.name})"))
    inside: list[_Line] = [
        (row.keys, row.does) for row in MOVEMENT if row.where != "all" and focused in _WIDGETS[row.where]
    ]
    everywhere: list[_Line] = [(row.keys, row.does) for row in MOVEMENT if row.where == "all"]
    parts = {
        "Your own keys": own,
        f"In the {focused} pane": [*_lines_of(focused, keymap), *inside],
        "Everywhere": [*_lines_of(KeyContext.EVERYWHERE, keymap), *everywhere],
        "After ctrl+w": _lines_of(KeyContext.PANES, keymap),
    }
    return "\n\n".join(
        "\n".join([title, *(_help_line(keys, text, width) for keys, text in rows)])
        for title, rows in parts.items()
        if rows
    )


def _lines_of(context: KeyContext, keymap: Keymap) -> list[_Line]:
    """Return keys and effects of a context, for the help."""
    found = []
    for same in _in_values(list(keys_of(context))):
        names = names_of(same[0], keymap) if len(same) == 1 else tuple(names_of(row, keymap)[0] for row in same)
        was = ", ".join(shown_name(row.keys[0]) for row in same if row.id in keymap.moved)
        found.append((names, f"{explanation(*same)}{f' (was {was})' if was else ''}"))
    return found


def _help_line(keys: tuple[str, ...], text: str, width: int) -> str:
    names = " ".join(keys).replace("1 2 3 4 5 6 7 8 9", "1 … 9")
    line = f"  {names:<{_KEY_WIDTH}}  {text}"
    if len(line) <= width:
        return line
    first = re.split(r"(?<=[.?]) ", text, maxsplit=1)[0]
    return f"  {names:<{_KEY_WIDTH}}  {first}"
