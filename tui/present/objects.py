"""Objects of any kind as rows of a table: the server's columns, their widths, ages, and what they are sorted by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from actions.base.untrusted import plain_text
from actions.base.wording import seconds_in
from actions.cluster.kinds import JOBS
from actions.fleet.quantity import parse_quantity
from tui.present.cells import CellValue, Span, Tone, width_of
from tui.present.text import natural_key

if TYPE_CHECKING:
    from actions.cluster.objects.catalogue import ServedKind
    from actions.cluster.watch.table_format import ObjectRow, TableColumn

_AGE = "age"
_NAMESPACE = -1
_GOING = " ◌"
"""Behind the name of what is being deleted."""
_MOMENTS = frozenset({"last seen", "first seen", "last schedule", "since", "last transition"})
"""Columns of built-in kinds with a time that has passed, printed when the row was."""
_DURATIONS = frozenset({"duration"})
_ABSENT = frozenset({"", "<none>", "<unset>", "<unknown>", "<nil>"})
_LONGEST = {"name": 60, "": 40}
"""Terminal columns that a column may take before the others have what they need, by format."""
_LEAST = {"name": 32, "": 20}
_BAD = re.compile(
    r"(?i)\b(failed|error|crashloopbackoff|imagepullbackoff|errimagepull|oomkilled|evicted|lost|notready|unknown)\b"
)
_WARN = re.compile(
    r"(?i)\b(pending|terminating|containercreating|suspended|schedulingdisabled|released|waiting|inqueue)\b"
)
_STATES = frozenset({"status", "state", "phase", "ready"})

_LEADING = re.compile(r"(-?\d+(?:\.\d+)?)(?:%|/\d+| \(.*\))?")


def passed(seconds: float) -> str:
    """Format a time that has passed, in one unit as kubectl's larger one: `90s`, `45m`, `5h`, `3d`."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 180 * 60:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86_400}d"


def changes_in(seconds: float) -> float:
    """Return after how many seconds `passed` gives another text."""
    unit = 1 if seconds < 119 else 60 if seconds < 180 * 60 else 3600
    return unit - max(0.0, seconds) % unit


def is_moment(column: TableColumn) -> bool:
    """Return whether a column prints how long ago something was."""
    return column.type == "date" or column.name.lower() in (_AGE, *_MOMENTS)


def value_key(text: str) -> tuple[int, float, str]:
    """Return what a cell is sorted by: numbers, shares and quantities by size, then texts, then what is absent."""
    if text in _ABSENT:
        return (2, 0.0, "")
    leading = _LEADING.fullmatch(text)
    if leading is not None:
        return (0, float(leading[1]), text)
    if text[0].isdigit():
        try:
            return (0, float(parse_quantity(text)), text)
        except ValueError:
            pass
    return (1, 0.0, natural_key(text))


def duration_key(text: str) -> tuple[int, float, str]:
    """Return what a time that has passed is sorted by: its length."""
    seconds = seconds_in(text)
    return value_key(text) if seconds is None else (0, seconds, "")


class ShownColumn(msgspec.Struct, frozen=True):
    """A column of a table of objects, as `tui.widgets.table_model.Column` takes it.

    Args:
        place: Its place among the server's columns, or that of the namespace.
        title: In capitals.
        width: Terminal columns that it has at least.
        flex: Its share of the remaining room.
        limit: Terminal columns that it has at most.
        drop: Order in which columns are dropped, highest first.
        is_number: Aligned right.
        is_name: Cut in its middle.
    """

    place: int
    title: str
    width: int
    flex: int = 0
    limit: int = 0
    drop: int = 0
    is_number: bool = False
    is_name: bool = False


class ObjectColumns:
    """The columns of a table of objects, and their texts at a moment.

    Args:
        columns: The server's.
        has_namespace: The objects are of several namespaces.
        received: Returns when the row of a key was printed, in seconds since the epoch.
        chosen: Titles of the columns to show, in their order; empty for the server's choice.
    """

    def __init__(
        self,
        columns: Sequence[TableColumn],
        *,
        has_namespace: bool,
        received: Callable[[str], float],
        chosen: Sequence[str] = (),
    ) -> None:
        self.now = 0.0
        """Seconds since the epoch, of the ages that are shown."""
        self._columns = tuple(columns)
        self._has_namespace = has_namespace
        self._received = received
        self._chosen = tuple(title.lower() for title in chosen)
        self._needed = [0] * len(self._columns)
        self._namespace_needed = 0
        self._has_text = [False] * len(self._columns)
        self._has_number = [False] * len(self._columns)

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of all columns that there are."""
        own = tuple(column.name.upper() for column in self._columns)
        return ("NAMESPACE", *own) if self._has_namespace else own

    def measure(self, rows: Iterable[ObjectRow]) -> bool:
        """Take the widths of rows; return whether a column needs more than before."""
        before = [*self._needed, self._namespace_needed]
        for row in rows:
            self._namespace_needed = max(self._namespace_needed, width_of(row.namespace))
            for place in range(min(len(row.cells), len(self._columns))):
                self._has_text[place] |= isinstance(row.cells[place], str | bool)
                self._has_number[place] |= isinstance(row.cells[place], int | float)
                width = width_of(self.text(row, place)) + (len(_GOING) if row.is_going and not place else 0)
                self._needed[place] = max(self._needed[place], width)
        return before != [*self._needed, self._namespace_needed]

    def text(self, row: ObjectRow, place: int) -> str:
        """Return the text of a cell, with the time that has passed since the server printed it."""
        if place >= len(row.cells):
            return ""
        column, cell = self._columns[place], row.cells[place]
        title = column.name.lower()
        if title == _AGE and row.created_at:
            return passed(self.now - row.created_at)
        text = _plain(cell)
        if is_moment(column) or (title in _DURATIONS and self._is_running(row)):
            seconds = seconds_in(text)
            if seconds is not None:
                return passed(seconds + max(0.0, self.now - self._received(row.key)))
        return text

    def search_text(self, row: ObjectRow) -> str:
        """Return the text that a filter matches."""
        return " ".join((row.namespace, row.name, *map(_plain, row.cells)))

    def youngest_changes_in(self, rows: Iterable[ObjectRow]) -> float | None:
        """Return the seconds until an age on screen changes; `None` without ages."""
        if not any(is_moment(column) or column.name.lower() in _DURATIONS for column in self._columns):
            return None
        made = max((row.created_at for row in rows), default=0.0)
        return changes_in(self.now - made) if made else None

    def shown(self) -> list[ShownColumn]:
        """Return the columns left to right: those of priority 0 stay longest, the others come where there is room."""
        columns = [self._column(place, column) for place, column in enumerate(self._columns)]
        if self._has_namespace:
            columns.insert(0, _namespace_column(self._namespace_needed))
        if not self._chosen:
            return columns
        by_title = {column.title.lower(): column for column in columns}
        return [replace(by_title[title], drop=0) for title in self._chosen if title in by_title] or columns

    def cell(self, row: ObjectRow, place: int) -> CellValue:
        """Return a cell as it is drawn."""
        if place == _NAMESPACE:
            return row.namespace
        text = self.text(row, place)
        if row.is_going and not place:
            return (Span(text), Span(_GOING, Tone.WARN))
        if text in _ABSENT:
            return Span(text or "-", Tone.MUTED)
        return Span(text, tone_of(text)) if self._columns[place].name.lower() in _STATES else text

    def sort_key(self, row: ObjectRow, place: int) -> tuple[int, float, str]:
        """Return what a cell is sorted by."""
        if place == _NAMESPACE:
            return value_key(row.namespace)
        column = self._columns[place]
        is_time = is_moment(column) or column.name.lower() in _DURATIONS
        return (duration_key if is_time else value_key)(self.text(row, place))

    def _column(self, place: int, column: TableColumn) -> ShownColumn:
        is_name = column.format == "name" or column.name.lower() == "name"
        form = "name" if is_name else ""
        needed = max(len(column.name) + 1, self._needed[place])
        least = _LONGEST[form] if column.priority else _LEAST[form]
        width = max(len(column.name) + 1, min(needed, least))
        return ShownColumn(
            place=place,
            title=column.name.upper(),
            width=width,
            flex=3 if is_name else 1 if needed > width else 0,
            limit=max(width, needed),
            is_number=self._has_number[place] and not self._has_text[place],
            drop=0 if is_name else 50 + place if column.priority else 2 if column.name.lower() == _AGE else 3 + place,
            is_name=is_name,
        )

    def _is_running(self, row: ObjectRow) -> bool:
        """Return whether a duration goes on: the row's state is `Running`, or is not shown."""
        states = [
            _plain(cell)
            for column, cell in zip(self._columns, row.cells, strict=False)
            if column.name.lower() in _STATES
        ]
        return not states or "Running" in states


def tone_of(state: str) -> Tone:
    """Return the tone of a word for a state, of whatever kind."""
    return Tone.BAD if _BAD.search(state) else Tone.WARN if _WARN.search(state) else Tone.PLAIN


def _namespace_column(needed: int) -> ShownColumn:
    width = max(len("NAMESPACE") + 1, min(needed, 20))
    return ShownColumn(_NAMESPACE, "NAMESPACE", width, flex=1, limit=max(width, needed), drop=1)


def _plain(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def kinds_page(kinds: Iterable[ServedKind]) -> str:
    """Format the list of kinds: the word to type, short names, kind, version, scope."""
    rows = [("NAME", "SHORT", "NAMESPACED", "KIND", "VERSION")]
    for one in sorted(kinds, key=lambda kind: (kind.plural, kind.group)):
        rows.append((one.qualified, ",".join(one.short_names), str(one.is_namespaced).lower(), one.kind, one.version))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = ("  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows)
    return plain_text("\n".join(lines))


_WITH_PODS = frozenset({
    "cronjobs.batch", "daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
    *(f"{row.plural}.{row.group}" for row in JOBS),
})  # fmt: skip
"""Kinds of workloads, by qualified name."""


def line_into(kind: ServedKind, row: ObjectRow) -> str:
    """Return the command that opens an object: a namespace, the pods of a workload or node, a log, else its page."""
    match kind.qualified:
        case "namespaces":
            return f"namespace {row.name}"
        case "nodes":
            return f"open pods of={row.name}"
        case "pods":
            return f"logs {row.namespace}/{row.name}"
        case qualified if qualified in _WITH_PODS:
            return f"open pods of={kind.kind}/{row.namespace}/{row.name}"
    return "describe"
