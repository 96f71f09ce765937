"""The arrangement of panes of the last session, and the charts that were picked: files of the state folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError
from actions.base.executors import NamedExecutor
from actions.base.files import private_directory, read_file, write_private
from actions.command.arguments import PaneName
from tui.widgets.arrangement import Cut, Leaf, Tree, leaves

LAST_FILE = "last-layout.json"
CHARTS_FILE = "charts.json"

_MOST_BYTES = 1 << 18
_MOST_PLACES = 200
"""Runs and jobs of which the picked charts are kept; the oldest are dropped."""
_PANES = frozenset(get_args(PaneName))


class _Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    layout: Tree


class _Charts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    charts: dict[
        Annotated[str, msgspec.Meta(max_length=400)],
        tuple[Annotated[str, msgspec.Meta(max_length=400)], ...],
    ]


class KeptPanes:
    """The files of a folder in which the panes are kept. Each change is written at once, on a thread of its own.

    A file that is damaged, or of another version of the program, is left as it is: nothing is written over it.

    Args:
        folder: Of the files; `None` to keep nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._written: Tree | None = None
        self._keeps_last = folder is not None
        self._keeps_charts = folder is not None
        self._thread: NamedExecutor | None = None

    async def last(self) -> Tree | None:
        """Return the arrangement of the last session; `None` without one, or if it was a single pane.

        Raises:
            ConfigError: The file cannot be read.
        """
        if self._folder is None:
            return None
        try:
            found = await self._worker.call(read_layout, self._folder / LAST_FILE)
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
                await self._worker.call(_write, self._folder / LAST_FILE, _Layout(1, tree))
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

    @property
    def _worker(self) -> NamedExecutor:
        """The thread, one for all files, so that the last change is written last."""
        if self._thread is None:
            self._thread = NamedExecutor("kept panes")
        return self._thread


def read_layout(file: Path) -> Tree | None:
    """Read the arrangement of a file; `None` if there is no file.

    Raises:
        ConfigError: It cannot be read, is damaged, or of another version of the program.
    """
    return _read(file, _layout_in)


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
            f"{file} cannot be read: {error.strerror}.", hint="Until it can, the panes are not kept."
        ) from error
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} is damaged: {error}.", hint="Fix or delete it; until then the panes are not kept."
        ) from error


def _layout_in(data: bytes) -> Tree:
    tree = decode_json(data, _Layout).layout
    keys = leaves(tree)
    unknown = sorted(set(keys) - _PANES)
    if unknown:
        raise msgspec.ValidationError(f"there is no pane {unknown[0]!r}")
    if len(set(keys)) < len(keys):
        raise msgspec.ValidationError("a pane is in a layout twice")
    _check_shares(tree)
    return tree


def _check_shares(tree: Tree) -> None:
    if isinstance(tree, Cut):
        if not 0 < tree.share < 1:
            raise msgspec.ValidationError("a share is not between 0 and 1")
        _check_shares(tree.first)
        _check_shares(tree.second)


def _write(file: Path, content: _Layout | _Charts) -> None:
    try:
        private_directory(file.parent)
        write_private(file, msgspec.json.format(msgspec.json.encode(content)), is_synced=False)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
