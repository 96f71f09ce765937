"""The operator's own keys: those of `keys.yaml` and `plugins.yaml` in the settings folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.files import config_folder

if TYPE_CHECKING:
    from textual.app import App


class PluginInput(msgspec.Struct, frozen=True):
    """A value that the operator gives to a plugin: `$INPUT_NAME`."""

    name: str
    type: str
    is_required: bool = False
    default: str = ""
    options: tuple[str, ...] = ()


class ConsolePlugin(msgspec.Struct, frozen=True, kw_only=True):
    """An external program that a key starts with the selection.

    Args:
        name: Its name in the file.
        key: Textual's name of its key.
        description: A few words for footer and help.
        scopes: Words of the kinds that it is for; `all`.
        command: The program.
        args: Its arguments, with placeholders.
        is_background: It has no terminal, and the console goes on.
        is_confirmed: The operator confirms it first.
        shows_output: Of one in the background, the first line of its output is shown when it has ended.
        inputs: Values that are typed.
    """

    name: str
    key: str
    description: str
    scopes: tuple[str, ...]
    command: str
    args: tuple[str, ...] = ()
    is_background: bool = False
    is_confirmed: bool = False
    shows_output: bool = False
    inputs: tuple[PluginInput, ...] = ()


class Keymap(msgspec.Struct, frozen=True):
    """The operator's changes to the default keys.

    Args:
        moved: Other keys for rows of the table, by id: `pods.shell`.
        lines: Lines as typed after `:`, by key; they work everywhere.
        plugins: External programs, each with its key, and the panes in which it works.
    """

    moved: Mapping[str, str] = msgspec.field(default_factory=dict)
    lines: Mapping[str, str] = msgspec.field(default_factory=dict)
    plugins: Sequence[tuple[ConsolePlugin, Collection[str]]] = ()


NO_CHANGES = Keymap()
"""The default keys."""
_FILE_NAME = "keys.yaml"


def keymap_path() -> Path:
    """Return the path of the file; it need not exist."""
    return config_folder() / _FILE_NAME


def plugin_files(folder: Path | None = None) -> list[Path]:
    """Return the files with plugins: `plugins.yaml` first, then those in and below the folder `plugins`.

    Args:
        folder: Of the settings, if not the usual one.
    """
    home = folder or config_folder()
    inside = sorted(path for ending in ("yaml", "yml") for path in (home / "plugins").rglob(f"*.{ending}"))
    return [path for path in (home / "plugins.yaml", *inside) if path.exists()]


def take_keymap(app: App[Any], keymap: Keymap) -> None:
    """Install the operator's keys in the app."""
    app.set_keymap(dict(keymap.moved))
    for key, line in keymap.lines.items():
        app.bind(key, f"screen.run_line({line!r})", show=False)
    for key in {plugin.key for plugin, _ in keymap.plugins}:
        app.bind(key, f"screen.run_line('plugin key={key}')", show=False)
