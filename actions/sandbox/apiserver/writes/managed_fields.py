"""Field ownership, `metadata.managedFields`: which manager owns which field paths of an object.

A path is a tuple of steps as `FieldsV1` spells them: `f:name` for a field, `k:{"name":"a"}` for an item under its key,
`v:"x"` for a member of a set. An item of a keyed list is in the set itself, beside the fields within it.

Source: sigs.k8s.io/structured-merge-diff `fieldpath`; kubernetes.io "Server-Side Apply"; k8s.io/apimachinery
`managedfields`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from actions.sandbox.apiserver.storage.codec import Object, dig, encode
from actions.sandbox.apiserver.writes.merge_keys import ListMergeRule, MergeSchema

Path: TypeAlias = tuple[str, ...]
Leaves: TypeAlias = dict[Path, object]

_UNOWNED = frozenset(
    {("f:apiVersion",), ("f:kind",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
            "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generateName",
        )
    }
)  # fmt: skip
ITEM = object()
"""The value of a path that stands for the presence of a list item."""


def item_step(item: Any, rule: ListMergeRule, merge_schema: MergeSchema) -> str:
    """The step to one item of a keyed list or set."""
    if rule.is_set or not isinstance(item, dict):
        return "v:" + encode(item).decode()
    keys = {key: item.get(key, merge_schema.default_of(key)) for key in sorted(rule.keys)}
    return "k:" + encode({key: value for key, value in keys.items() if value is not None}).decode()


def leaves_of(body: Object, merge_schema: MergeSchema) -> Leaves:
    """Every owned path of an object with its value; atomic lists and maps are one leaf."""
    found: Leaves = {}
    _gather_leaves(body, merge_schema, (), found)
    return found


def _gather_leaves(value: Any, merge_schema: MergeSchema, path: Path, found: Leaves) -> None:
    """Put every path of a value into `found`; not a generator, because most of a write's time would be its frames."""
    if isinstance(value, dict) and not merge_schema.is_atomic_map() and (value or not path):
        for name, inner in value.items():
            step = (*path, f"f:{name}")
            if step in _UNOWNED:
                continue
            if isinstance(inner, dict | list):
                _gather_leaves(inner, merge_schema.child(name), step, found)
            else:
                found[step] = inner
    elif isinstance(value, list) and (rule := merge_schema.list_rule()) != ListMergeRule():
        inside = merge_schema.items()
        for item in value:
            step = (*path, item_step(item, rule, inside))
            found[step] = ITEM
            if isinstance(item, dict):
                _gather_leaves(item, inside, step, found)
    else:
        found[path] = value


def encode_fields(paths: Iterable[Path]) -> Object:
    """Write a set of paths as `FieldsV1`; a path that also has paths below it gets a `.`."""
    root: Object = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        if path[-1][:2] in ("k:", "v:"):
            node["."] = {}
    return {step: _without_lone_dots(node) for step, node in root.items()}


def _without_lone_dots(node: Object) -> Object:
    if node.keys() == {"."}:
        return {}
    return {step: inner if step == "." else _without_lone_dots(inner) for step, inner in node.items()}


def decode_fields(fields: Object) -> set[Path]:
    """Read a `FieldsV1`."""
    found: set[Path] = set()
    _collect(fields, (), found)
    return found


def _collect(node: Object, path: Path, found: set[Path]) -> None:
    steps = [step for step in node if step != "."]
    if path and ("." in node or not steps):
        found.add(path)
    for step in steps:
        _collect(node[step], (*path, step), found)


def describe(path: Path) -> str:
    """A path as conflict messages spell it: `.spec.containers[name="a"].image`."""
    text = ""
    for step in path:
        body = step[2:]
        if step.startswith("f:"):
            text += f".{body}"
        elif step.startswith("k:"):
            text += "[" + body.strip("{}").replace('":', "=").replace('"', "", 1).replace(',"', ",") + "]"
        else:
            text += f"[={body}]"
    return text


APPLY = "Apply"
UPDATE = "Update"


class Manager(msgspec.Struct, frozen=True):
    """A writer: the same name applying and updating, or writing status, counts as different ones."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class FieldOwner(msgspec.Struct):
    """A manager and the field paths that it owns. `time` is RFC 3339, when these last changed."""

    manager: Manager
    time: str
    paths: set[Path] = msgspec.field(default_factory=set)


def owners_of(body: Object) -> list[FieldOwner]:
    """Read the owners of the fields of an object; entries without fields are dropped."""
    owners = []
    for entry in dig(body, "metadata", "managedFields") or ():
        if not entry.get("fieldsV1"):
            continue
        manager = Manager(
            entry.get("manager", ""), entry.get("operation", UPDATE), entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )  # fmt: skip
        owners.append(FieldOwner(manager, entry.get("time", ""), decode_fields(entry["fieldsV1"])))
    return owners


def write_owners(body: Object, owners: Iterable[FieldOwner]) -> None:
    """Write the owners that own any field into the object, appliers first, then by time."""
    written = []
    for owner in sorted(owners, key=lambda owner: (owner.manager.operation, owner.time)):
        if not owner.paths:
            continue
        manager = owner.manager
        entry: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": owner.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_fields(owner.paths),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        written.append(entry)
    body["metadata"]["managedFields"] = written


def owner_of(owners: list[FieldOwner], manager: Manager, *, now: str) -> FieldOwner:
    """Return the owner for one manager, added to the list if it has none."""
    for owner in owners:
        if owner.manager == manager:
            return owner
    owners.append(FieldOwner(manager, now))
    return owners[-1]


def track_update(
    before: Object | None, after: Object, merge_schema: MergeSchema, manager: Manager, *, now: str
) -> None:
    """Record in `after` that `manager` wrote every field that differs from `before`.

    Owners that the writer changed by hand are taken as they are: that is how `kubectl` migrates them.
    """
    handed_in = dig(after, "metadata", "managedFields")
    known = dig(before, "metadata", "managedFields") if before is not None else None
    if handed_in is not None and handed_in != known and before is not None:
        write_owners(after, owners_of(after))
        return
    old = leaves_of(before, merge_schema) if before is not None else {}
    new = leaves_of(after, merge_schema)
    written = {path for path, value in new.items() if path not in old or old[path] != value}
    gone = old.keys() - new.keys()
    owners = owners_of(before) if before is not None else []
    if written or gone:
        for owner in owners:
            owner.paths -= written
            owner.paths -= gone
    if written:
        own = owner_of(owners, manager, now=now)
        own.paths |= written
        own.time = now
    write_owners(after, owners)
