"""External programs with the selection: `plugins.yaml` and the folder `plugins` of the settings, in the form of k9s.

Source: github.com/derailed/k9s, `internal/config/plugin.go` and `internal/config/json/schemas/plugins.json` for the
keys, `internal/view/env.go` for placeholders.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from actions.base.errors import InputError, Mistakes, nearest_hint
from actions.base.yamldoc import Document, load_documents, read_input
from actions.cluster.kinds import KINDS, KubeKind, find_word
from tui.settings.keymap import ConsolePlugin, Keymap, PluginInput
from tui.settings.keys import KEYS, MOVEMENT, KeyContext

_Where = tuple[str | int, ...]
"""The keys that lead to a plugin in its document."""
_FILE = "plugins.yaml"
ALL = "all"
CONTAINERS = "containers"
_TYPES = {str: "a text", bool: "true or false", list: "a list"}
_KEYS: dict[str, tuple[type, bool]] = {
    "shortCut": (str, True),
    "description": (str, True),
    "scopes": (list, True),
    "command": (str, True),
    "args": (list, False),
    "background": (bool, False),
    "confirm": (bool, False),
    "dangerous": (bool, False),
    "override": (bool, False),
    "overwriteOutput": (bool, False),
    "inputs": (list, False),
}
"""The keys of a plugin: the type of each, and whether it is needed."""
_INPUT_KEYS = ("name", "label", "type", "required", "default", "options")
_INPUT_TYPES = ("string", "number", "bool", "dropdown")
_MOST_INPUTS = 5
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")
_OBJECTS = (KeyContext.NODES, KeyContext.PODS, KeyContext.ACCELERATORS, KeyContext.OBJECTS, KeyContext.QUEUES)
_OF_KIND = {
    "Node": (KeyContext.NODES, KeyContext.OBJECTS),
    "Pod": (KeyContext.PODS, KeyContext.ACCELERATORS, KeyContext.OBJECTS),
}
"""The panes whose rows are of a kind; those of all others have both of the last ones."""
_OF_TERMINALS = {"ctrl+c": "interrupt", "ctrl+i": "tab", "ctrl+j": "enter", "ctrl+m": "enter", "ctrl+h": "backspace"}
"""Keys that a terminal does not tell from others, or keeps."""
_SHORT_CUT = re.compile(
    r"(?P<letter>[a-z])|Shift-(?P<capital>[A-Za-z])|Ctrl-(?P<control>[A-Za-z])|(?P<f>F([1-9]|1[0-2]))"
)


def with_plugins(keymap: Keymap, files: Iterable[Path]) -> Keymap:
    """Parse and check files; return the operator's keys with those of their plugins.

    Args:
        keymap: The operator's own keys, which plugins must not take either.
        files: Of several plugins of one name the last one counts.

    Raises:
        InputError: One has a mistake; with file, line and column, and a hint. Its `others` are all further mistakes.
    """
    mistakes = Mistakes()
    parts: dict[str, tuple[Document, Any, _Where]] = {}
    for file in files:
        with mistakes.collected():
            parts |= dict(_parts_of(file))
    found: list[ConsolePlugin] = []
    for name, (document, value, where) in parts.items():
        with mistakes.collected():
            plugin = _plugin(document, name, value, where)
            _refuse_clash(document, plugin, where, keymap, found)
            found.append(plugin)
    mistakes.require_none()
    return replace(keymap, plugins=[(plugin, panes_of(plugin)) for plugin in found]) if found else keymap


def _parts_of(file: Path) -> Iterator[tuple[str, tuple[Document, Any, _Where]]]:
    """Yield each plugin by name, with document, value and place: those of a mapping, or the one that the file is."""
    for document in load_documents(read_input(file, may_be_pipe=True), file=str(file), kind=InputError)[:1]:
        top = document.value
        where: _Where = ("plugins",) if isinstance(top, dict) and [*top] == ["plugins"] else ()
        named = top["plugins"] if where else top
        if not isinstance(named, dict) or (not where and file.name == _FILE):
            message = "the file is a mapping `plugins` of names to plugins."
            raise document.error(InputError, message, hint="As k9s has it.")
        if not where and "command" in named:
            yield file.stem, (document, named, where)
            continue
        for name, value in named.items():
            yield str(name), (document, value, (*where, name))


def _plugin(document: Document, name: str, value: Any, where: _Where) -> ConsolePlugin:
    if not isinstance(value, dict):
        raise document.error(InputError, f"{name} is a mapping.", *where)
    for key, entry in value.items():
        if key not in _KEYS:
            raise document.error(InputError, f"unknown key {key!r}.", *where, key, hint=nearest_hint(str(key), _KEYS))
        if not isinstance(entry, _KEYS[key][0]):
            raise document.error(InputError, f"{key} must be {_TYPES[_KEYS[key][0]]}.", *where, key)
    for key, (_, is_needed) in _KEYS.items():
        if is_needed and not value.get(key):
            raise document.error(InputError, f"{name} needs {key}.", *where)
    inputs = tuple(_input(document, (*where, "inputs", at), one) for at, one in enumerate(value.get("inputs", ())))
    if len(inputs) > _MOST_INPUTS or len({one.name for one in inputs}) < len(inputs):
        raise document.error(
            InputError, f"{name} has at most {_MOST_INPUTS} inputs, each with its name.", *where, "inputs"
        )
    return ConsolePlugin(
        name=name,
        key=_key(document, value["shortCut"], *where, "shortCut"),
        description=value["description"],
        scopes=tuple(map(str, value["scopes"])),
        command=value["command"],
        args=tuple(map(str, value.get("args", ()))),
        is_background=value.get("background", False),
        is_confirmed=value.get("dangerous", False) or value.get("confirm", bool(inputs)),
        shows_output=value.get("overwriteOutput", False),
        inputs=inputs,
    )


def _input(document: Document, where: tuple[str | int, ...], value: Any) -> PluginInput:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or value.get("type") not in _INPUT_TYPES:
        hint = f"Types are {', '.join(_INPUT_TYPES)}."
        raise document.error(InputError, "an input has a name and a type.", *where, hint=hint)
    unknown = next((key for key in value if key not in _INPUT_KEYS), None)
    if unknown is not None:
        hint = nearest_hint(str(unknown), list(_INPUT_KEYS))
        raise document.error(InputError, f"unknown key {unknown!r}.", *where, unknown, hint=hint)
    default = value.get("default", "")
    made = PluginInput(
        name=value["name"],
        type=value["type"],
        is_required=bool(value.get("required", False)),
        default=str(default).lower() if isinstance(default, bool) else str(default),
        options=tuple(map(str, value.get("options", ()))),
    )
    if made.default and (wrong := what_is_wrong(made, made.default)):
        raise document.error(InputError, f"the default {wrong}.", *where, "default")
    return made


def what_is_wrong(wanted: PluginInput, text: str) -> str:
    """Return what is wrong with a value of an input: `must be a number`; empty for nothing."""
    if wanted.type == "number" and not _NUMBER.fullmatch(text):
        return f"must be a number, not {text!r}"
    allowed = ("true", "false") if wanted.type == "bool" else wanted.options if wanted.type == "dropdown" else ()
    return f"must be one of {', '.join(allowed)}, not {text!r}" if allowed and text not in allowed else ""


def _key(document: Document, text: str, *where: str | int) -> str:
    """Return Textual's name of a key that is written as k9s has it: `Shift-D` is `D`."""
    match = _SHORT_CUT.fullmatch(text.strip())
    if match is None:
        raise document.error(InputError, f"{text!r} is not a key.", *where, hint="Write a, Shift-A, Ctrl-A or F1.")
    if control := match["control"]:
        return f"ctrl+{control.lower()}"
    return match["letter"] or (match["capital"] or "").upper() or match["f"].lower()


def kind_of_scope(word: str) -> KubeKind | None:
    """Return the row of a kind as k9s names it: `po`, `pods`, `Pod`; `None` for a kind without one."""
    return find_word(word) or next((row for row in KINDS if row.plural == word.lower()), None)


def panes_of(plugin: ConsolePlugin) -> frozenset[KeyContext]:
    """Return the panes whose rows a plugin may be for."""
    found: set[KeyContext] = set()
    for scope in plugin.scopes:
        found |= {*(_OBJECTS if scope == ALL else _OF_KIND.get(_name_of(scope), _OBJECTS[-2:]))}
    return frozenset(found)


def _refuse_clash(
    document: Document, plugin: ConsolePlugin, where: _Where, keymap: Keymap, others: list[ConsolePlugin]
) -> None:
    """Refuse a key that means something already in a pane of the plugin, also with `override`.

    Raises:
        InputError: The key is taken; with its place.
    """
    contexts = panes_of(plugin)
    taken = next(
        (
            row.id
            for row in KEYS
            if row.context in {*contexts, KeyContext.EVERYWHERE}
            and plugin.key in (keymap.moved[row.id].split(",") if row.id in keymap.moved else row.keys)
        ),
        "",
    )
    hint = f"Choose another one, or move that one in keys.yaml: move: {{{taken}: f12}}."
    if not taken:
        widgets = (row.does for row in MOVEMENT if plugin.key in row.keys and row.where in _OF_TABLES)
        same = (f"the plugin {one.name}" for one in others if one.key == plugin.key and _share_scopes(plugin, one))
        line = f"own line {keymap.lines[plugin.key]!r}" if plugin.key in keymap.lines else ""
        taken = line or _OF_TERMINALS.get(plugin.key, "") or next(widgets, "") or next(same, "")
        hint = "Choose another one."
    if taken:
        message = f"{plugin.name}: {plugin.key!r} is already the key of {taken.removesuffix('.')}."
        raise document.error(InputError, message, *where, "shortCut", hint=hint)


def _share_scopes(one: ConsolePlugin, other: ConsolePlugin) -> bool:
    """Return whether both may be for the same object; one for pods and one for containers are apart, as in k9s."""
    kinds, others = (
        {word if word == CONTAINERS else _name_of(word) for word in plugin.scopes} for plugin in (one, other)
    )
    return bool(kinds & others) or ALL in (*kinds, *others)


def _name_of(scope: str) -> str:
    row = kind_of_scope(scope)
    return "Pod" if scope == CONTAINERS else row.name if row else scope.lower()


_OF_TABLES = ("all", "tables", "nodes, pods, objects")
_PLACEHOLDER = re.compile(r"\$(!?)([\w-]+)|\$\{(!?)([\w%/: -]+)\}")
_TRUE, _FALSE = ("t", "T", "TRUE", "true", "True"), ("f", "F", "FALSE", "false", "False")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced: `$NAME`, `${COL-CPU/L}`; `$!NAME` is the opposite of a boolean.

    What has no value stays as it is: a shell has `$1` and variables of its own. Values are not read for placeholders.

    Args:
        text: An argument of a plugin.
        values: By name, in capitals.
    """

    def value_of(match: re.Match[str]) -> str:
        name = (match[2] or match[4]).upper()
        if name not in values:
            return match[0]
        value, is_inverse = values[name], bool(match[1] or match[3])
        if value in (*_TRUE, *_FALSE):
            return "true" if (value in _TRUE) != is_inverse else "false"
        return value

    return _PLACEHOLDER.sub(value_of, text)


def names_in(text: str) -> list[str]:
    """Return the names of the placeholders of a text, in capitals."""
    return [(match[2] or match[4]).upper() for match in _PLACEHOLDER.finditer(text)]


def is_one_placeholder(text: str) -> bool:
    """Return whether a text is a placeholder and nothing beside it."""
    return _PLACEHOLDER.fullmatch(text) is not None


def typed_line(plugin: ConsolePlugin) -> str:
    """Return the line that starts a plugin; its inputs have their defaults."""
    inputs = (f"{one.name}={shlex.quote(one.default) if one.default else ''}" for one in plugin.inputs)
    return " ".join(["plugin", shlex.quote(plugin.name), *inputs])
