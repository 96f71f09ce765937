"""Server-side tables: what `kubectl get` prints.

Source: k8s.io/apimachinery `metav1.Table`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from actions.sandbox.api.codec import Object
from actions.sandbox.api.columns import AGE, BUILTIN_COLUMNS, CREATED, NAME, Column
from actions.sandbox.api.humanage import age_of
from actions.sandbox.api.jsonpath import find
from actions.sandbox.api.resources import ResourceType


def columns_of(resource: ResourceType) -> list[Column]:
    """The columns of a type: the CRD's own, the built-in ones, or name and age."""
    if resource.is_custom:
        return [NAME, *(_custom(column) for column in resource.columns)] if resource.columns else [NAME, AGE]
    return BUILTIN_COLUMNS.get(resource.key) or [NAME, CREATED if resource.group.startswith("rbac.") else AGE]


def _custom(column: Object) -> Column:
    path, kind = str(column.get("jsonPath", "")), str(column.get("type", "string"))

    def cell(body: Object, now: datetime) -> Any:
        values = find(body, path)
        if not values:
            return None
        return age_of(values[0], now) if kind == "date" else _shown(values, kind)

    return Column(str(column["name"]), cell, kind=kind, priority=int(column.get("priority", 0)))


def _shown(values: list[Any], kind: str) -> Any:
    if kind in ("integer", "number", "boolean"):
        return values[0]
    return ",".join("true" if one is True else "false" if one is False else str(one) for one in values)


def table_of(
    resource: ResourceType, bodies: Iterable[Object], *, now: datetime, include: str, metadata: Object
) -> Object:
    """A table of objects.

    Args:
        resource: Their type.
        bodies: The objects, one row each.
        now: Wall time, for ages.
        include: What of each object goes with its row: `None`, `Metadata` or `Object`.
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


def _row(body: Object, columns: list[Column], now: datetime, include: str) -> Object:
    row: Object = {"cells": [column.cell(body, now) for column in columns]}
    if include == "Object":
        row["object"] = body
    elif include != "None":
        row["object"] = partial_of(body)
    return row


def partial_of(body: Object) -> Object:
    """Only an object's metadata, as `PartialObjectMetadata`."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}
