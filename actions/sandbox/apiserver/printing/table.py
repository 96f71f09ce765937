"""Server-side tables: the output of `kubectl get`, with the columns that a CRD adds.

The JSON paths of `additionalPrinterColumns` have fields, indexes, wildcards and equality filters; no other syntax
occurs there.

Source: k8s.io/apimachinery `metav1.Table`, k8s.io/client-go `util/jsonpath`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from actions.sandbox.apiserver.printing.cells import age_of
from actions.sandbox.apiserver.printing.columns import AGE, BUILTIN_COLUMNS, CREATED, NAME, PrinterColumn
from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.resources import ServedResource

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
      | \['(?P<quoted>[^']*)'\]
      | \[\?\(@\.(?P<filter>[^=\s]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]
      | \[(?P<index>-?\d+)(?P<slice>:)?\]
      | (?P<all>\[\*\])""",
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def _parsed(path: str) -> tuple[tuple[str, str, str], ...]:
    """Return the steps of a path as (kind, argument, value); empty if the path is not understood."""
    steps, place = [], 0
    while place < len(path):
        match = _STEP.match(path, place)
        if match is None:
            return ()
        kind = match.lastgroup or ""
        if match["filter"] is not None:
            steps.append(("filter", match["filter"], match["value"]))
        elif match["index"] is not None:
            steps.append(("index", match["index"], ""))
        elif match["field"] is not None:
            steps.append(("field", match["field"].replace("\\", ""), ""))
        else:
            steps.append(("field", match["quoted"], "") if kind == "quoted" else ("all", "", ""))
        place = match.end()
    return tuple(steps)


def _step(values: list[Any], kind: str, argument: str, value: str) -> list[Any]:
    if kind == "field":
        return [one[argument] for one in values if isinstance(one, dict) and argument in one]
    lists = [one for one in values if isinstance(one, list)]
    if kind == "all":
        return [item for one in lists for item in one]
    if kind == "index":
        place = int(argument)
        return [one[place] for one in lists if -len(one) <= place < len(one)]
    steps = argument.split(".")
    return [item for one in lists for item in one if dig(item, *steps) == value]


def find(body: object, path: str) -> list[Any]:
    """Every value at `path`, e.g. `.status.conditions[?(@.type=="Ready")].status`."""
    values = [body]
    for kind, argument, value in _parsed(path):
        values = _step(values, kind, argument, value)
    return values if _parsed(path) else []


def columns_of(resource: ServedResource) -> list[PrinterColumn]:
    """The columns of a type: the CRD's own, the built-in ones, or name and age."""
    if resource.is_custom:
        return [NAME, *(_custom(column) for column in resource.columns)] if resource.columns else [NAME, AGE]
    return BUILTIN_COLUMNS.get(resource.key) or [NAME, CREATED if resource.group.startswith("rbac.") else AGE]


def _custom(column: Object) -> PrinterColumn:
    path, kind = str(column.get("jsonPath", "")), str(column.get("type", "string"))

    def cell(body: Object, now: datetime) -> Any:
        values = find(body, path)
        if not values:
            return None
        return age_of(values[0], now) if kind == "date" else _shown(values, kind)

    return PrinterColumn(str(column["name"]), cell, kind=kind, priority=int(column.get("priority", 0)))


def _shown(values: list[Any], kind: str) -> Any:
    if kind in ("integer", "number", "boolean"):
        return values[0]
    return ",".join("true" if one is True else "false" if one is False else str(one) for one in values)


def table_of(
    resource: ServedResource, bodies: Iterable[Object], *, now: datetime, include: str, metadata: Object
) -> Object:
    """Return a table of objects.

    Args:
        resource: Their type.
        bodies: The objects, one row each.
        now: Wall time, for ages.
        include: The part of each object that is sent with its row: `None`, `Metadata` or `Object`.
        metadata: `ListMeta` of the whole.
    """
    columns = columns_of(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": "",
                "priority": column.priority,
            }
            for column in columns
        ],
        "rows": [_row(body, columns, now, include) for body in bodies],
    }


def _row(body: Object, columns: list[PrinterColumn], now: datetime, include: str) -> Object:
    row: Object = {"cells": [column.cell(body, now) for column in columns]}
    if include == "Object":
        row["object"] = body
    elif include != "None":
        row["object"] = partial_of(body)
    return row


def partial_of(body: Object) -> Object:
    """Only an object's metadata, as `PartialObjectMetadata`."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}
