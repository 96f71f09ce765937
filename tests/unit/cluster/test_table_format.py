"""Tables as a server sends them: lists, events, bookmarks, and objects where there are no tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actions.base.errors import FormatError
from actions.cluster.watch.table_format import TableColumn, TableFormat

COLUMNS = [
    {"name": "Name", "type": "string", "format": "name", "priority": 0},
    {"name": "Restarts", "type": "integer", "format": "", "priority": 0},
    {"name": "IP", "type": "string", "format": "", "priority": 1},
]


def a_row(name: str = "web", *cells: Any, **metadata: Any) -> dict[str, Any]:
    held = {"name": name, "namespace": "work", "uid": f"u-{name}", "resourceVersion": "7"} | metadata
    return {"cells": [name, *cells], "object": {"kind": "PartialObjectMetadata", "metadata": held}}


def a_table(*rows: dict[str, Any], columns: list[dict[str, Any]] | None = None, version: str = "9") -> bytes:
    body = {"kind": "Table", "metadata": {"resourceVersion": version}, "rows": list(rows)}
    return json.dumps(body | {"columnDefinitions": COLUMNS if columns is None else columns}).encode()


def test_a_list_has_columns_and_typed_cells() -> None:
    form = TableFormat()
    page = form.read_page(a_table(a_row("web", 3, None, creationTimestamp="2026-11-21T10:00:00Z")))
    (row,) = [form.decode(raw) for raw in page.items]
    assert page.resource_version == "9"
    assert form.columns[1:] == (TableColumn("Restarts", "integer"), TableColumn("IP", priority=1))
    assert (row.namespace, row.name, row.uid, row.cells) == ("work", "web", "u-web", ("web", 3, None))
    assert row.created_at == pytest.approx(1795255200.0)


def test_later_events_have_no_columns_and_leave_those_of_the_list() -> None:
    form = TableFormat()
    form.read_page(a_table())
    kind, raw = form.read_event(
        b'{"type":"MODIFIED","object":' + a_table(a_row("web", 4, "10.0.0.1"), columns=[]) + b"}"
    )
    assert kind == "MODIFIED"
    assert form.decode(raw).cells == ("web", 4, "10.0.0.1")
    assert [column.name for column in form.columns] == ["Name", "Restarts", "IP"]
    assert form.meta_of(raw).resource_version == "9"


def test_a_bookmark_gives_the_version_of_its_row_where_the_table_has_none() -> None:
    row = a_row("", annotations={"k8s.io/initial-events-end": "true"}, resourceVersion="12")
    meta = TableFormat().meta_of(a_table(row, version=""))
    assert (meta.resource_version, meta.annotations) == ("12", {"k8s.io/initial-events-end": "true"})


def test_a_server_without_tables_sends_objects_of_which_name_and_age_are_shown() -> None:
    form = TableFormat()
    body = {"kind": "PodMetricsList", "metadata": {}, "items": [{"metadata": {"name": "web", "namespace": "work"}}]}
    (row,) = [form.decode(raw) for raw in form.read_page(json.dumps(body).encode()).items]
    assert [column.name for column in form.columns] == ["Name", "Age"]
    assert (row.uid, row.cells) == ("work/web", ("web", ""))


def test_text_of_cells_is_cleaned_and_a_row_without_object_is_refused() -> None:
    form = TableFormat()
    form.read_page(a_table())
    assert form.decode(json.dumps(a_row("web", "\x1b[31mred\x1b[0m\ntwo")).encode()).cells[1] == "red two"
    with pytest.raises(FormatError, match="names no object"):
        form.decode(b'{"cells":["web"],"object":null}')


def test_an_object_of_the_same_name_is_another_row() -> None:
    form = TableFormat()
    first, second = (form.decode(json.dumps(a_row("web", uid=uid)).encode()) for uid in ("a", "b"))
    assert first.key != second.key
    assert first.key.startswith("work/web ")
