"""The operator's saved layouts, the arrangement of the last session, and picked charts: files of the state folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, MissingError, ParameterError
from actions.base.executors import NamedExecutor
from actions.base.files import private_directory, read_file, write_private
from actions.command.arguments import (
    LayoutName,
    PaneName,
)
from actions.command.verbs import nearest_hint
from tui.widgets.arrangement import Cut, Leaf, Tree, leaves

SAVED_FILE = "layouts.json"
LAST_FILE = "last-layout.json"
CHARTS_FILE = "charts.json"
LAST = "last"
"""The name of the only layout in `LAST_FILE`."""
LAYOUT_WORDS = ("save", "delete", "list")
"""Words after `:layout` that are not names."""

_MOST_BYTES = 1 << 18
_MOST_LAYOUTS = 100
_MOST_PLACES = 200
"""Runs and jobs of which the picked charts are kept; the oldest are dropped."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}"
_TAKEN = (*get_args(LayoutName), *LAYOUT_WORDS)
_PANES = frozenset(get_args(PaneName))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    layouts: Annotated[
        dict[Annotated[str, msgspec.Meta(pattern=f"^{_NAME}$")], Tree], msgspec.Meta(max_length=_MOST_LAYOUTS)
    ]


class _Charts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    charts: dict[
        Annotated[str, msgspec.Meta(max_length=400)],
        tuple[Annotated[str, msgspec.Meta(max_length=400)], ...],
    ]


class SavedLayouts:
    """Layouts by name, kept in a folder. Read once; each change is written at once, on a thread of its own.

    A file that is damaged, or of another version of the program, is left as it is: nothing is written over it.

    Args:
        folder: Of the files; `None` to keep layouts for this session only.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._named: dict[str, Tree] = {}
        self._is_read = folder is None
        self._written: Tree | None = None
        self._keeps_last = folder is not None
        self._keeps_charts = folder is not None
        self._thread: NamedExecutor | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the saved layouts, as far as they have been read."""
        return tuple(sorted(self._named))

    async def find(self, name: str) -> Tree:
        """Return a saved layout.

        Raises:
            MissingError: There is none of that name; the hint names the nearest ones.
            ConfigError: The file cannot be read.
        """
        await self.read()
        if name not in self._named:
            known = [*get_args(LayoutName), *self._named]
            raise MissingError(f"There is no layout {name!r}.", hint=nearest_hint(name, known))
        return self._named[name]

    async def save(self, name: str, tree: Tree) -> None:
        """Save a layout, in the place of one of that name.

        Raises:
            ParameterError: That is not a name for a layout.
            ConfigError: The file cannot be read or written.
        """
        if not re.fullmatch(_NAME, name) or name in _TAKEN:
            raise ParameterError(
                f"{name!r} cannot be the name of a layout." if name else "The layout needs a name.",
                hint=f"Use letters, digits, dots and dashes, and none of {', '.join(_TAKEN)}.",
            )
        await self.read()
        if name not in self._named and len(self._named) >= _MOST_LAYOUTS:
            raise ParameterError(f"There are {_MOST_LAYOUTS} layouts already.", hint="Delete one: layout delete NAME.")
        await self._write_named({**self._named, name: tree})

    async def delete(self, name: str) -> None:
        """Delete a saved layout.

        Raises:
            MissingError: There is none of that name.
            ConfigError: The file cannot be read or written.
        """
        await self.read()
        if name not in self._named:
            raise MissingError(f"There is no saved layout {name!r}.", hint=nearest_hint(name, self._named))
        await self._write_named({known: tree for known, tree in self._named.items() if known != name})

    async def read(self) -> None:
        """Read the saved layouts, if that has not been done.

        Raises:
            ConfigError: The file cannot be read.
        """
        if not self._is_read and self._folder is not None:
            self._named = dict(await self._worker.call(read_layouts, self._folder / SAVED_FILE))
            self._is_read = True

    async def last(self) -> Tree | None:
        """Return the arrangement of the last session; `None` without one, or if it was a single pane.

        Raises:
            ConfigError: The file cannot be read.
        """
        if self._folder is None:
            return None
        try:
            found = (await self._worker.call(read_layouts, self._folder / LAST_FILE)).get(LAST)
        except ConfigError:
            self._keeps_last = False
            raise
        self._written = found
        return None if isinstance(found, Leaf) else found

    async def keep_last(self, tree: Tree) -> None:
        """Write the present arrangement down for the next session, if it has changed.

        Raises:
            ConfigError: The file cannot be written; that is tried once.
        """
        if self._folder is not None and self._keeps_last and tree != self._written:
            self._written = tree
            try:
                await self._worker.call(_write, self._folder / LAST_FILE, _File(1, {LAST: tree}))
            except ConfigError:
                self._keeps_last = False
                raise

    async def charts(self) -> dict[str, tuple[str, ...]]:
        """Return the charts that were picked in earlier sessions, by run and stage, or job.

        Raises:
            ConfigError: The file cannot be read.
        """
        if self._folder is None:
            return {}
        try:
            return await self._worker.call(read_charts, self._folder / CHARTS_FILE)
        except ConfigError:
            self._keeps_charts = False
            raise

    async def keep_charts(self, picked: Mapping[str, tuple[str, ...]]) -> None:
        """Keep the picked charts for later sessions: those of the newest runs and jobs.

        Raises:
            ConfigError: The file cannot be written; that is tried once.
        """
        if self._folder is None or not self._keeps_charts:
            return
        newest = dict(list(picked.items())[-_MOST_PLACES:])
        try:
            await self._worker.call(_write, self._folder / CHARTS_FILE, _Charts(1, newest))
        except ConfigError:
            self._keeps_charts = False
            raise

    def close(self) -> None:
        """End the thread; what is being written is written to its end."""
        if self._thread is not None:
            self._thread.close()

    async def _write_named(self, layouts: Mapping[str, Tree]) -> None:
        if self._folder is not None:
            await self._worker.call(_write, self._folder / SAVED_FILE, _File(1, dict(layouts)))
        self._named = dict(layouts)

    @property
    def _worker(self) -> NamedExecutor:
        """The thread, one for all files, so that the last change is written last."""
        if self._thread is None:
            self._thread = NamedExecutor("layouts")
        return self._thread


def read_layouts(file: Path) -> dict[str, Tree]:
    """Read the layouts of a file; none if there is no file.

    Raises:
        ConfigError: It cannot be read, is damaged, or of another version of the program.
    """
    found = _read(file, _layouts_in)
    return {} if found is None else found


def read_charts(file: Path) -> dict[str, tuple[str, ...]]:
    """Read the picked charts of a file; none if there is no file.

    Raises:
        ConfigError: It cannot be read, is damaged, or of another version of the program.
    """
    found = _read(file, lambda data: decode_json(data, _Charts).charts)
    return {} if found is None else found


_Decoded = TypeVar("_Decoded")


def _read(file: Path, decode: Callable[[bytes], _Decoded]) -> _Decoded | None:
    try:
        data = read_file(file, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.", hint="Until it can, no layout is saved."
        ) from error
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} is damaged: {error}.", hint="Fix or delete it; until then no layout is saved."
        ) from error


def _layouts_in(data: bytes) -> dict[str, Tree]:
    layouts = decode_json(data, _File).layouts
    for tree in layouts.values():
        _check(tree)
    return layouts


def _check(tree: Tree) -> None:
    keys = leaves(tree)
    unknown = sorted(set(keys) - _PANES)
    if unknown:
        raise msgspec.ValidationError(f"there is no pane {unknown[0]!r}")
    if len(set(keys)) < len(keys):
        raise msgspec.ValidationError("a pane is in a layout twice")
    _check_shares(tree)


def _check_shares(tree: Tree) -> None:
    if isinstance(tree, Cut):
        if not 0 < tree.share < 1:
            raise msgspec.ValidationError("a share is not between 0 and 1")
        _check_shares(tree.first)
        _check_shares(tree.second)


def _write(file: Path, content: _File | _Charts) -> None:
    try:
        private_directory(file.parent)
        write_private(file, msgspec.json.format(msgspec.json.encode(content)), is_synced=False)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
