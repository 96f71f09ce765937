"""The operator's own keys: `keys.yaml` in the settings folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.files import config_folder

if TYPE_CHECKING:
    from textual.app import App


class Keymap(msgspec.Struct, frozen=True):
    """The operator's changes to the default keys.

    Args:
        moved: Other keys for rows of the table, by id: `pods.shell`.
        lines: Lines as typed after `:`, by key; they work everywhere.
    """

    moved: Mapping[str, str] = msgspec.field(default_factory=dict)
    lines: Mapping[str, str] = msgspec.field(default_factory=dict)


NO_CHANGES = Keymap()
"""The default keys."""
_FILE_NAME = "keys.yaml"


def keymap_path() -> Path:
    """Return the path of the file; it need not exist."""
    return config_folder() / _FILE_NAME


def take_keymap(app: App[Any], keymap: Keymap) -> None:
    """Install the operator's keys in the app."""
    app.set_keymap(dict(keymap.moved))
    for key, line in keymap.lines.items():
        app.bind(key, f"screen.run_line({line!r})", show=False)
