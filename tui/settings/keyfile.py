"""The parser of `keys.yaml`, with its checks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actions.base.errors import ConsoleError, InputError, Mistakes, nearest_hint
from actions.base.yamldoc import Document, load_documents, read_input
from actions.command.parse import parse_line
from actions.script.model import is_key
from tui.settings.keymap import NO_CHANGES, Keymap, keymap_path
from tui.settings.keys import KEYS, Key, KeyContext

_TOP = ("move", "own")


def load_keymap(path: Path | None = None) -> Keymap:
    """Parse and check the file; without one, return the default keys.

    Raises:
        InputError: It has a mistake; with file, line and column, and a hint. Its `others` are all further mistakes.
    """
    file = path or keymap_path()
    if not file.exists():
        return NO_CHANGES
    documents = load_documents(read_input(file, may_be_pipe=True), file=str(file), kind=InputError)
    if not documents:
        return Keymap()  # nothing but comments
    document = documents[0]
    top = document.value
    if not isinstance(top, dict):
        raise document.error(InputError, "the file is a mapping.", hint=f"Its keys are {' and '.join(_TOP)}.")
    mistakes = Mistakes()
    for key in top:
        with mistakes.collected():
            if key not in _TOP:
                raise document.error(InputError, f"unknown key {key!r}.", key, hint=nearest_hint(key, _TOP))
    keymap = Keymap(_moved(document, mistakes), _lines(document, mistakes))
    _refuse_clashes(document, keymap, mistakes)
    mistakes.require_none()
    return keymap


def key_ids() -> Iterable[str]:
    """Return the id of every row whose keys can be moved; enter is fixed."""
    return (row.id for row in KEYS if row.does != "enter")


def _moved(document: Document, mistakes: Mistakes) -> dict[str, str]:
    known = tuple(key_ids())
    found: dict[str, str] = {}
    for name, keys in _section(document, "move", mistakes).items():
        with mistakes.collected():
            if name not in known:
                message = f"{name!r} is not a row of the key tables."
                raise document.error(InputError, message, "move", name, hint=nearest_hint(name, known))
            found[name] = ",".join(_keys(document, keys, "move", name))
    return found


def _lines(document: Document, mistakes: Mistakes) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, line in _section(document, "own", mistakes).items():
        with mistakes.collected():
            _keys(document, key, "own", key)
            try:
                parse_line(str(line))
            except ConsoleError as error:
                raise document.error(InputError, error.message, "own", key, hint=error.hint) from error
            found[key] = str(line)
    return found


def _refuse_clashes(document: Document, keymap: Keymap, mistakes: Mistakes) -> None:
    """Collect keys with two meanings in one place: the row that was not moved would silently lose its key."""
    taken: dict[tuple[KeyContext, str], Key] = {}
    for row in KEYS:
        moved = keymap.moved.get(row.id)
        for key in moved.split(",") if moved else row.keys:
            other = taken.setdefault((row.context, key), row)
            if other is not row:
                culprit = row if moved else other
                message = f"{key!r} would be both {other.id} and {row.id}."
                hint = "Move the other one as well."
                mistakes.found.append(document.error(InputError, message, "move", culprit.id, hint=hint))
    for key in keymap.lines:
        row_taken = next(
            (row for (place, name), row in taken.items() if name == key and place is not KeyContext.PANES), None
        )
        if row_taken is not None:
            message, hint = f"{key!r} is already the key of {row_taken.id}.", "Choose another key, or move that one."
            mistakes.found.append(document.error(InputError, message, "own", key, hint=hint))


def _section(document: Document, name: str, mistakes: Mistakes) -> dict[str, Any]:
    section = document.value.get(name) or {}
    if isinstance(section, dict):
        return {str(key): value for key, value in section.items()}
    hint = "Write pods.shell: S, or f6: open pods."
    mistakes.found.append(document.error(InputError, f"{name} is a mapping.", name, hint=hint))
    return {}


def _keys(document: Document, keys: Any, *path: str) -> list[str]:
    words = str(keys).replace(",", " ").split()
    for word in words:
        if not is_key(word):
            raise document.error(
                InputError, f"{word!r} is not a key.", *path, hint="Write keys as enter, ctrl+w, f1 or j."
            )
    if not words:
        raise document.error(InputError, "no key is given.", *path)
    return words
