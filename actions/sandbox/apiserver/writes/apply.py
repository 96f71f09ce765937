"""Server-side apply: the merge of one manager's fields into those of all.

Source: kubernetes.io "Server-Side Apply"; sigs.k8s.io/structured-merge-diff `merge.Updater`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actions.sandbox.apiserver.storage.codec import Object, decode, encode
from actions.sandbox.apiserver.storage.errors import Cause, StatusError
from actions.sandbox.apiserver.storage.resources import ServedResource
from actions.sandbox.apiserver.writes.managed_fields import (
    ITEM,
    FieldOwner,
    Leaves,
    Manager,
    Path,
    describe,
    item_step,
    leaves_of,
    owner_of,
    owners_of,
    write_owners,
)
from actions.sandbox.apiserver.writes.merge_keys import MergeSchema


def apply_object(
    live: Object,
    wanted: Object,
    merge_schema: MergeSchema,
    manager: Manager,
    *,
    resource: ServedResource,
    force: bool,
    now: str,
) -> Object:
    """Return the object after `manager` applied `wanted` to `live`.

    Args:
        live: The stored object; an empty one (metadata with the name only) when it is being created. Not changed.
        wanted: The applied object. Fields that the manager applied before and that are missing here are removed, unless
            another manager owns them too.
        merge_schema: How the lists and maps of this type merge.
        manager: The one that applies.
        resource: The type, for messages.
        force: Take fields from other managers instead of failing.
        now: RFC 3339.

    Raises:
        StatusError: 409 with one cause for every field that another manager owns with another value.
    """
    owners = owners_of(live)
    leaves = leaves_of(wanted, merge_schema)
    contested = _conflicts(owners, leaves, leaves_of(live, merge_schema), manager)
    if contested and not force and not (manager.name == _KUBECTL and _applied_by_client(live, merge_schema, contested)):
        raise _conflict_fault(resource, str(wanted["metadata"].get("name", "")), contested)
    for owner, paths in contested:
        owner.paths -= paths
    own = owner_of(owners, manager, now=now)
    paths = set(leaves)
    abandoned = own.paths - paths
    for owner in owners:
        if owner is not own:
            abandoned -= owner.paths
    merged: Object = _merge(live, wanted, merge_schema)
    for path in sorted(abandoned, key=len):  # an item goes before its fields, by which it is found
        _prune(merged, path, merge_schema, owners=[owner for owner in owners if owner is not own])
    if own.paths != paths:
        own.paths, own.time = paths, now
    merged["metadata"] = dict(merged["metadata"])
    if manager.name == _KUBECTL and _LAST_APPLIED in (merged["metadata"].get("annotations") or {}):
        annotations = merged["metadata"]["annotations"]
        merged["metadata"]["annotations"] = {**annotations, _LAST_APPLIED: encode(wanted).decode()}
    write_owners(merged, owners)
    return merged


_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _applied_by_client(live: Object, merge_schema: MergeSchema, contested: list[tuple[FieldOwner, set[Path]]]) -> bool:
    """Return whether `kubectl` itself applied all of it before, on the client: then it may change it."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if not text:
        return False
    try:
        before = decode(text.encode())
    except msgspec.DecodeError:
        return False
    now = leaves_of(live, merge_schema)
    unchanged = {path for path, value in leaves_of(before, merge_schema).items() if path in now and now[path] == value}
    return all(paths <= unchanged for _, paths in contested)


def _conflicts(
    owners: list[FieldOwner], leaves: Leaves, live: Leaves, manager: Manager
) -> list[tuple[FieldOwner, set[Path]]]:
    changed = {
        path for path, value in leaves.items() if value is not ITEM and (path not in live or live[path] != value)
    }
    found = [(owner, owner.paths & changed) for owner in owners if owner.manager != manager]
    return [(owner, paths) for owner, paths in found if paths]


def _conflict_fault(resource: ServedResource, name: str, contested: list[tuple[FieldOwner, set[Path]]]) -> StatusError:
    """The refusal, in the words of the server-side apply of Kubernetes: one conflict on a line, more by owner."""
    causes, texts = [], []
    for owner, paths in contested:
        fields = [describe(path) for path in sorted(paths)]
        causes += [Cause(field, f"conflict with {_owner(owner)}", "FieldManagerConflict") for field in fields]
        texts += [f"conflicts with {_owner(owner)}:", *(f"- {field}" for field in fields)]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(texts)
    details = {"name": name, "kind": resource.plural} | ({"group": resource.group} if resource.group else {})
    return StatusError(409, "Conflict", message, details=details, causes=causes)


def _owner(owner: FieldOwner) -> str:
    """Return the owner of a field as text. One that did not apply is named with its subresource and version too."""
    manager = owner.manager
    who = f'"{manager.name}"' + (f' with subresource "{manager.subresource}"' if manager.subresource else "")
    return f"{who} using {manager.api_version}" if manager.operation == "Update" else who


def _merge(live: Any, wanted: Any, merge_schema: MergeSchema) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict) and not merge_schema.is_atomic_map():
        merged = dict(live)
        for name, value in wanted.items():
            if value is not None:
                merged[name] = _merge(live.get(name), value, merge_schema.child(name))
        return merged
    if isinstance(wanted, list) and isinstance(live, list):
        return _merge_list(live, wanted, merge_schema)
    return wanted


def _merge_list(live: list[Any], wanted: list[Any], merge_schema: MergeSchema) -> list[Any]:
    rule, inside = merge_schema.list_rule(), merge_schema.items()
    if not rule.keys and not rule.is_set:
        return wanted
    merged = list(live)
    places = {item_step(item, rule, inside): place for place, item in enumerate(merged)}
    for item in wanted:
        place = places.get(item_step(item, rule, inside))
        if place is None:
            merged.append(item)
        else:
            merged[place] = _merge(merged[place], item, inside)
    return merged


def _prune(node: Any, path: Path, merge_schema: MergeSchema, *, owners: list[FieldOwner], done: Path = ()) -> bool:
    """Remove what `path` leads to, and maps and lists that this empties; whether `node` became empty.

    `node` is copied on the way, as it may be shared with the stored object.
    """
    step, rest = path[0], path[1:]
    here = (*done, step)
    if step.startswith("f:"):
        return _prune_field(node, path, merge_schema, owners=owners, done=done)
    rule, inside = merge_schema.list_rule(), merge_schema.items()
    for place, item in enumerate(node):
        if item_step(item, rule, inside) != step:
            continue
        if rest:
            node[place] = dict(item)
            _prune(node[place], rest, inside, owners=owners, done=here)
        elif not any(owned[: len(here)] == here for owner in owners for owned in owner.paths):
            del node[place]
        break
    return not node


def _prune_field(node: Any, path: Path, merge_schema: MergeSchema, *, owners: list[FieldOwner], done: Path) -> bool:
    name, rest = path[0][2:], path[1:]
    if not isinstance(node, dict) or name not in node:
        return False
    if not rest:
        del node[name]
        return not node
    inner = node[name]
    if isinstance(inner, dict | list):
        node[name] = inner.copy()
        if _prune(node[name], rest, merge_schema.child(name), owners=owners, done=(*done, path[0])):
            del node[name]
    return not node
