"""Lists and watch events as tables: the columns that the server prints, for kinds without facts of their own.

The server sends the columns with a list and with the first event of a watch, not with later ones. An aggregated API
that has no tables answers with objects, of which name and age are shown.

Source: k8s.io/apimachinery `metav1.Table`; k8s.io/apiserver `pkg/endpoints/handlers/response.go`, where
`watchEmbeddedEncoder` drops the columns after the first event; `transformRequests` of `kubectl get`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence

import msgspec

from actions.base.clock import stamp_seconds
from actions.base.decoding import json_decoder
from actions.base.errors import FormatError
from actions.base.untrusted import one_line, redact
from actions.cluster.http.errors import ApiStatus
from actions.cluster.watch import json_format
from actions.cluster.watch.json_format import Meta, Page, Raw

ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
LABEL = "label:"
"""The beginning of the title of a column that is a label."""
_LONGEST_CELL = 400
"""Characters of one cell; server columns are short, but those of a definition print any field."""

Cell = str | int | float | bool | None
"""One value of a row, as the server sends it."""


class TableColumn(msgspec.Struct, frozen=True):
    """A column as the server defines it.

    Args:
        name: Its title.
        type: OpenAPI type: `string`, `integer`, `date`…
        format: `name` for the column that holds the object's name.
        priority: 0 is always shown, more where there is room.
    """

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0


class ObjectRow(msgspec.Struct, frozen=True):
    """An object as a row.

    Args:
        uid: Its uid; of an object that has none, such as a metric, namespace and name.
        namespace: Empty for what is in none.
        name: Its name.
        cells: One value a column, text cleaned; behind the server's the labels, `None` where it has no such label.
        created_at: Seconds since the epoch; 0 if unknown.
        is_going: It is being deleted.
    """

    uid: str
    namespace: str
    name: str
    cells: tuple[Cell, ...]
    created_at: float = 0.0
    is_going: bool = False

    @property
    def key(self) -> str:
        """Its key in a table: in the order of names, and another one for a new object of the same name."""
        return f"{self.namespace}/{self.name} {self.uid}"


_PLAIN = (TableColumn("Name", format="name"), TableColumn("Age"))


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None


class _Row(msgspec.Struct):
    cells: list[msgspec.Raw] | None = None
    object: _Object | None = None


class _Item(msgspec.Struct, rename="camel"):
    """A table of one row, a row, or an object."""

    kind: str = ""
    metadata: _Metadata | None = None
    rows: list[_Row] | None = None
    column_definitions: list[TableColumn] | None = None
    cells: list[msgspec.Raw] | None = None
    object: _Object | None = None


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    following: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, rename="camel"):
    metadata: _PageMeta
    kind: str = ""
    rows: list[msgspec.Raw] | None = None
    items: list[msgspec.Raw] | None = None
    column_definitions: list[TableColumn] | None = None


_items = json_decoder(_Item)
_pages = json_decoder(_Page)


class TableFormat:
    """The tables of one list and of the watches after it: a `RequestedForm` for a reflector, and its columns.

    `columns` are empty until the first answer.

    Args:
        label_names: Labels that are columns behind the server's own.
    """

    accept = ACCEPT

    def __init__(self, label_names: Sequence[str] = ()) -> None:
        self.columns: tuple[TableColumn, ...] = ()
        self._label_names = label_names

    def frames_of(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
        """Yield whole events from chunks that are cut anywhere."""
        return json_format.frames_of(chunks)

    def read_event(self, frame: bytes) -> tuple[str, Raw]:
        """Read the type of a watch event and its table, still as bytes.

        Raises:
            msgspec.DecodeError: It is not an event.
        """
        return json_format.read_event(frame)

    def error_status(self, raw: Raw) -> ApiStatus:
        """Read the `Status` of an ERROR event."""
        return json_format.error_status(raw)

    def read_page(self, body: bytes) -> Page:
        """Cut a list into its rows, and keep its columns.

        Raises:
            msgspec.DecodeError: It is not a list.
        """
        page = _pages.decode(body)
        self._take_columns(page.column_definitions, is_table=page.kind == "Table")
        rows = page.rows if page.kind == "Table" else page.items
        return Page(rows or (), page.metadata.resource_version, page.metadata.following)

    def meta_of(self, raw: Raw) -> Meta:
        """Read the metadata of the object in a table of one row.

        Raises:
            msgspec.DecodeError: It is not one.
        """
        item = _items.decode(raw)
        metadata = _metadata_of(item) or _Metadata()
        listed = item.metadata.resource_version if item.metadata else ""
        return Meta(listed or metadata.resource_version, metadata.annotations)

    def decode(self, raw: Raw) -> ObjectRow:
        """Read a row of a list, or the table of one row that a watch sends.

        Raises:
            FormatError: It names no object.
            msgspec.DecodeError: It is neither.
        """
        item = _items.decode(raw)
        if item.kind == "Table":
            self._take_columns(item.column_definitions, is_table=True)
        metadata = _metadata_of(item)
        if metadata is None or not metadata.name:
            raise FormatError("A row of the table names no object.")
        cells = item.rows[0].cells if item.rows else item.cells
        created = stamp_seconds(metadata.creation_timestamp)
        return ObjectRow(
            uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
            namespace=one_line(metadata.namespace),
            name=one_line(metadata.name),
            cells=(
                *((one_line(metadata.name), "") if cells is None else map(_cell, cells)),
                *(_shared((metadata.labels or {}).get(name)) for name in self._label_names),
            ),
            created_at=created,
            is_going=bool(metadata.deletion_timestamp),
        )

    def _take_columns(self, columns: list[TableColumn] | None, *, is_table: bool) -> None:
        labels = (TableColumn(f"{LABEL}{name}") for name in self._label_names)
        if columns:
            own = (msgspec.structs.replace(column, name=one_line(column.name)) for column in columns)
            self.columns = (*own, *labels)
        elif not is_table or not self.columns:
            self.columns = (*_PLAIN, *labels)


def _metadata_of(item: _Item) -> _Metadata | None:
    """Return the metadata of the object: of a row, of the one row of a table, or the item's own."""
    held = item.rows[0].object if item.rows else item.object
    if held is not None:
        return held.metadata
    return None if item.kind == "Table" or item.cells is not None else item.metadata


def _shared(value: str | None) -> str | None:
    """Return the value of a label, kept once: many objects have the same."""
    return None if value is None else sys.intern(one_line(value))


def _cell(raw: msgspec.Raw) -> Cell:
    value = msgspec.json.decode(raw)
    if value is None or isinstance(value, bool | int | float):
        return value
    return one_line(redact(str(value)), limit=_LONGEST_CELL)
