"""The objects pane: objects of any kind that the cluster serves, in the server's own columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from actions.cluster.kinds import full_name
from actions.cluster.watch.table_format import LABEL
from tui.feeds.services import OBJECTS, ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.base import TablePane, bindings_of
from tui.present.objects import ObjectColumns, ShownColumn, line_into
from tui.present.subject import Subject
from tui.settings.filters import parse_filter, selectors_as_typed
from tui.settings.keys import KeyContext
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.cluster.watch.table_format import ObjectRow
    from tui.feeds.objects import ObjectsScope

_MEASURED = 500
"""Rows that columns are made wide enough for at once; rows that change later count too."""
_NO_KIND = "Type a kind, such as :jobs, :pvc or :queues.scheduling.volcano.sh; :kinds lists them."


class ObjectsPane(TablePane["ObjectRow"]):
    """The objects of one kind at a time, as `kubectl get` prints them."""

    ONLY = "only"
    CONTEXT = KeyContext.OBJECTS
    BINDINGS: ClassVar = bindings_of(KeyContext.OBJECTS)
    NOUN = "objects"
    EMPTY = _NO_KIND
    READING = "Reading the objects."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, (), key=_key_of, search=self._search_text, identify=lambda row: row.uid)
        self._texts = ObjectColumns((), has_namespace=False, received=self._received)
        self._chosen: dict[str, tuple[str, ...]] = {}
        self._labels: dict[str, tuple[str, ...]] = {}
        self._sorted: dict[str, tuple[str, bool]] = {}
        self._kind_of_columns = ""
        self._scope: ObjectsScope | None = None
        self._server_columns: object = None
        self._aged_at = 0.0

    def refresh_data(self) -> None:
        """Show the rows that changed, and the ages as they are now."""
        feed = self.services.objects
        if feed.resume():
            self.services.follow_objects()
        self.show_health(self._source())
        if feed.scope is not self._scope:
            if self._scope is not None and feed.scope is not None and self._scope.kind != feed.scope.kind:
                self.table.filter_text = ""
            self._scope = feed.scope
            self.retitle(feed.scope.title() if feed.scope else self.CONTEXT.value)
            self._read_labels()
        self._texts.now = self.services.clock.now().timestamp()
        is_whole, touched = feed.take_changes()
        if is_whole and feed.columns is not self._server_columns:
            self._server_columns = feed.columns
            self._make_columns()
        rows = feed.rows.values() if is_whole else [feed.rows[key] for key in touched if key in feed.rows]
        if self._texts.measure(islice(rows, _MEASURED)):
            self.table.set_columns(self._columns_for_table())
        if is_whole:
            self.show_rows(rows)
        elif touched:
            gone = {key for key in touched if key not in feed.rows}
            self.update_rows(rows, gone)
        self._age()

    def subject(self) -> Subject | None:
        """Return the object under the cursor."""
        row = self.table.selected_row
        return None if row is None else self._subject_of(row)

    def marked(self) -> tuple[Subject, ...]:
        """Return the marked objects."""
        return tuple(filter(None, map(self._subject_of, self.table.marked_rows)))

    @property
    def names(self) -> Sequence[str]:
        """The names of all rows."""
        return [row.name for row in self.services.objects.rows.values()]

    def named(self, name: str) -> Subject | None:
        """Return the object of the kind on screen that has a name; `None` if none has, or several have."""
        fitting = [row for row in self.services.objects.rows.values() if row.name == name]
        return self._subject_of(fitting[0]) if len(fitting) == 1 else None

    def _subject_of(self, row: ObjectRow) -> Subject | None:
        if self._scope is None:
            return None
        kind = self._scope.kind
        return Subject(
            full_name(kind.api_version, kind.kind), row.name, row.namespace, api_version=kind.api_version, uid=row.uid
        )

    def filter(self, text: str) -> None:
        """Filter the rows, and have the server select by labels and fields.

        Raises:
            ParameterError: The filter cannot be read.
        """
        read, scope = parse_filter(text), self.services.objects.scope
        if scope is not None and (scope.labels, scope.fields) != (read.labels, read.fields):
            self._scope = replace(scope, labels=read.labels, fields=read.fields)
            self.services.show_objects(self._scope)
            self.retitle(self._scope.title())
        self.table.filter_text = read.text

    @property
    def active_filter(self) -> str:
        """The filter as it was typed, with its selectors."""
        scope = self.services.objects.scope
        selectors = selectors_as_typed(scope.labels, scope.fields) if scope is not None else ""
        return f"{selectors} {self.table.filter_text}".strip()

    @property
    def column_titles(self) -> tuple[str, ...]:
        """The titles of all columns of the kind."""
        return self._texts.titles

    def choose_columns(self, titles: Sequence[str]) -> None:
        """Show these columns of the kind, in this order; none for the server's choice. It is kept for the kind.

        `label:NAME` is the label of that name; labels alone stand behind the server's choice.

        Raises:
            MissingError: The kind has no such column; the message names the columns.
        """
        own = [title for title in titles if not title.startswith(LABEL)]
        self._require_columns(own, self.column_titles)
        if self._scope is not None:
            self._labels[self._scope.kind.qualified] = tuple(
                title.removeprefix(LABEL) for title in titles if title not in own
            )
            self._chosen[self._scope.kind.qualified] = tuple(titles) if own else ()
        self._make_columns()
        self._read_labels()

    def _read_labels(self) -> None:
        """Have the server's rows read again, if they lack the labels that are columns, or have others."""
        scope = self._scope
        if scope is not None and scope.label_names != (names := self._labels.get(scope.kind.qualified, ())):
            self.services.show_objects(replace(scope, label_names=names))

    def show_target(self, of: str) -> None:
        """Show the objects of a kind, by any of its names."""
        if of:
            self.post_message(self.Entered(f"objects {of}"))

    def line_of(self, row: ObjectRow) -> str:
        """Return the command that opens an object."""
        return line_into(self._scope.kind, row) if self._scope is not None else ""

    def _search_text(self, row: ObjectRow) -> str:
        return self._texts.search_text(row)

    def _source(self) -> FeedHealth:
        if self.services.objects.scope is None:
            return FeedHealth(FeedState.ENDED)
        running = self.services.supervisor.health(OBJECTS)
        if running.state in (FeedState.WAITING, FeedState.REFUSED):
            return running
        self._nothing = f"No {self.services.objects.scope.title()}."
        health = self.services.objects.health()
        if health.state is FeedState.REFUSED and self.services.objects.scope.is_across:
            return FeedHealth(health.state, f"{health.detail} Or choose a namespace: :ns NAME.", health.since)
        return health

    def _received(self, key: str) -> float:
        return self.services.objects.received_at.get(key, self._texts.now)

    def _make_columns(self) -> None:
        scope = self._scope
        key = scope.kind.qualified if scope else ""
        if self._kind_of_columns:  # a kind that is read anew has no columns meanwhile
            self._sorted[self._kind_of_columns] = self.table.sort_state
        self._kind_of_columns = key if self.services.objects.columns else ""
        self._texts = ObjectColumns(
            self.services.objects.columns,
            has_namespace=scope is not None and scope.is_across,
            received=self._received,
            chosen=self._chosen.get(key, ()),
        )
        self._texts.now = self.services.clock.now().timestamp()
        self._texts.measure(islice(self.services.objects.rows.values(), _MEASURED))
        self.table.set_columns(self._columns_for_table(), sort=self._sorted.get(key, ("", False)))

    def _columns_for_table(self) -> tuple[Column[ObjectRow], ...]:
        self._columns = tuple(_column(self._texts, shown) for shown in self._texts.shown())
        return self._columns

    def _age(self) -> None:
        """Draw ages again when one of them changes."""
        if self._texts.now >= self._aged_at:
            self.table.redraw()
        wait = self._texts.youngest_changes_in(self.services.objects.rows.values())
        if wait is not None:
            self._aged_at = self._texts.now + wait
            self.services.ticker.request_paint_in(max(1.0, wait))


def _key_of(row: ObjectRow) -> str:
    return row.key


def _column(texts: ObjectColumns, shown: ShownColumn) -> Column[ObjectRow]:
    place = shown.place
    return Column(
        shown.title.lower(),
        shown.title,
        lambda row: texts.cell(row, place),
        width=shown.width,
        flex=shown.flex,
        limit=shown.limit,
        align="right" if shown.is_number else "left",
        drop=shown.drop,
        sort_key=lambda row: texts.sort_key(row, place),
        keeps_ends=shown.is_name,
    )
