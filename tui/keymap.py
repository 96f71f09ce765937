"""The operator's own keys: `keys.yaml` in the settings folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textual.app import App

from actions.base.errors import ConsoleError, InputError
from actions.base.files import config_home
from actions.base.yamldoc import Document, load_documents, read_input
from actions.command.parse import parse_line
from actions.command.registry import nearest_hint
from actions.script.keynames import is_key
from tui.keys import KEYS
from tui.live.keymap import Keymap

FILE_NAME = "keys.yaml"
_TOP = ("move", "own")


def load_keymap(path: Path | None = None) -> Keymap:
    """Read the file; without one nothing is changed.

    Raises:
        InputError: With file, line and column, and what to write instead.
    """
    file = path or config_home() / FILE_NAME
    if not file.exists():
        return Keymap()
    documents = load_documents(read_input(file, kind=InputError), file=str(file), kind=InputError)
    if not documents:
        return Keymap()  # nothing but comments
    document = documents[0]
    top = document.value
    if not isinstance(top, dict):
        raise document.error(InputError, "the file is a mapping.", hint=f"Its keys are {' and '.join(_TOP)}.")
    for key in top:
        if key not in _TOP:
            raise document.error(InputError, f"unknown key {key!r}.", key, hint=nearest_hint(key, _TOP))
    return Keymap(_moved(document), _lines(document))


def key_ids() -> Iterable[str]:
    """The id of every row of the table."""
    return (f"{row.context.name.lower()}.{row.does}" for row in KEYS)


def _moved(document: Document) -> dict[str, str]:
    known = tuple(key_ids())
    found: dict[str, str] = {}
    for name, keys in _section(document, "move").items():
        if name not in known:
            raise document.error(
                InputError, f"{name!r} is nothing that has a key.", "move", name, hint=nearest_hint(name, known)
            )
        found[name] = ",".join(_keys(document, keys, "move", name))
    return found


def _lines(document: Document) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, line in _section(document, "own").items():
        _keys(document, key, "own", key)
        try:
            parse_line(str(line))
        except ConsoleError as error:
            raise document.error(InputError, error.message, "own", key, hint=error.hint) from error
        found[key] = str(line)
    return found


def _section(document: Document, name: str) -> dict[str, Any]:
    section = document.value.get(name) or {}
    if not isinstance(section, dict):
        raise document.error(InputError, f"{name} is a mapping.", name, hint="Write pods.shell: S, or f6: open pods.")
    return {str(key): value for key, value in section.items()}


def _keys(document: Document, keys: Any, *path: str) -> list[str]:
    words = str(keys).replace(",", " ").split()
    for word in words:
        if not is_key(word):
            raise document.error(
                InputError, f"{word!r} is no key.", *path, hint="Write keys as enter, ctrl+w, f1 or j."
            )
    if not words:
        raise document.error(InputError, "no key is given.", *path)
    return words


def take_keymap(app: App[Any], keymap: Keymap) -> None:
    """Have the app know the operator's keys."""
    app.set_keymap(dict(keymap.moved))
    for key, line in keymap.lines.items():
        app.bind(key, f"screen.carry({line!r})", show=False)
