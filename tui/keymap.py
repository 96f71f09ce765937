"""The operator's own keys: `keys.yaml` in the settings folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from actions.base.files import config_home
from tui.live.keymap import Keymap

if TYPE_CHECKING:
    from textual.app import App

FILE_NAME = "keys.yaml"


def load_keymap(path: Path | None = None) -> Keymap:
    """Read the file; without one nothing is changed.

    Raises:
        InputError: With file, line and column, and what to write instead.
    """
    file = path or config_home() / FILE_NAME
    if not file.exists():
        return Keymap()
    from tui.keyfile import read_keymap  # what reads YAML: few have such a file

    return read_keymap(file)


def take_keymap(app: App[Any], keymap: Keymap) -> None:
    """Have the app know the operator's keys."""
    app.set_keymap(dict(keymap.moved))
    for key, line in keymap.lines.items():
        app.bind(key, f"screen.carry({line!r})", show=False)
