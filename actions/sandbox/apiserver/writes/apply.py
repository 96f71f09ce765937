"""Server-side apply: merging what one manager wants into what all of them have.

Source: kubernetes.io "Server-Side Apply"; sigs.k8s.io/structured-merge-diff `merge.Updater`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actions.sandbox.apiserver.storage.codec import Object, decode, encode
from actions.sandbox.apiserver.storage.errors import ApiFault, Cause
from actions.sandbox.apiserver.storage.resources import ResourceType
from actions.sandbox.apiserver.writes.managed_fields import (
    ITEM,
    Claim,
    Leaves,
    Manager,
    Path,
    claim_of,
    claims_of,
    describe,
    item_step,
    leaves_of,
    write_claims,
)
from actions.sandbox.apiserver.writes.merge_keys import Shape


def apply_object(
    live: Object, wanted: Object, shape: Shape, manager: Manager, *, resource: ResourceType, force: bool, now: str
) -> Object:
    """The object after `manager` applied `wanted` to `live`.

    Args:
        live: The stored object; an empty one (metadata with the name only) when it is being created. Not changed.
        wanted: What the manager applies. Fields it applied before and that are missing here are removed, unless
            somebody else owns them too.
        shape: How the lists of this type merge.
        manager: Who applies.
        resource: The type, for messages.
        force: Take fields from other managers instead of failing.
        now: RFC 3339.

    Raises:
        ApiFault: 409 with one cause for every field that another manager owns with another value.
    """
    claims = claims_of(live)
    leaves = leaves_of(wanted, shape)
    contested = _conflicts(claims, leaves, leaves_of(live, shape), manager)
    if contested and not force and not (manager.name == _KUBECTL and _applied_by_client(live, shape, contested)):
        raise _conflict_fault(resource, str(wanted["metadata"].get("name", "")), contested)
    for claim, paths in contested:
        claim.paths -= paths
    own = claim_of(claims, manager, now=now)
    paths = set(leaves)
    abandoned = own.paths - paths
    for claim in claims:
        if claim is not own:
            abandoned -= claim.paths
    merged: Object = _merge(live, wanted, shape)
    for path in sorted(abandoned, key=len):  # an item goes before its fields, by which it is found
        _prune(merged, path, shape, claims=[claim for claim in claims if claim is not own])
    if own.paths != paths:
        own.paths, own.time = paths, now
    merged["metadata"] = dict(merged["metadata"])
    if manager.name == _KUBECTL and _LAST_APPLIED in (merged["metadata"].get("annotations") or {}):
        annotations = merged["metadata"]["annotations"]
        merged["metadata"]["annotations"] = {**annotations, _LAST_APPLIED: encode(wanted).decode()}
    write_claims(merged, claims)
    return merged


_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _applied_by_client(live: Object, shape: Shape, contested: list[tuple[Claim, set[Path]]]) -> bool:
    """Whether all of it is what `kubectl` itself applied before, by the client's way: then it may change it."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if not text:
        return False
    try:
        before = decode(text.encode())
    except msgspec.DecodeError:
        return False
    now = leaves_of(live, shape)
    unchanged = {path for path, value in leaves_of(before, shape).items() if path in now and now[path] == value}
    return all(paths <= unchanged for _, paths in contested)


def _conflicts(claims: list[Claim], leaves: Leaves, live: Leaves, manager: Manager) -> list[tuple[Claim, set[Path]]]:
    changed = {
        path for path, value in leaves.items() if value is not ITEM and (path not in live or live[path] != value)
    }
    found = [(claim, claim.paths & changed) for claim in claims if claim.manager != manager]
    return [(claim, paths) for claim, paths in found if paths]


def _conflict_fault(resource: ResourceType, name: str, contested: list[tuple[Claim, set[Path]]]) -> ApiFault:
    """The refusal, in the words of the server-side apply of Kubernetes: one conflict on a line, more by owner."""
    causes, texts = [], []
    for claim, paths in contested:
        fields = [describe(path) for path in sorted(paths)]
        causes += [Cause(field, f"conflict with {_owner(claim)}", "FieldManagerConflict") for field in fields]
        texts += [f"conflicts with {_owner(claim)}:", *(f"- {field}" for field in fields)]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(texts)
    details = {"name": name, "kind": resource.plural} | ({"group": resource.group} if resource.group else {})
    return ApiFault(409, "Conflict", message, details=details, causes=causes)


def _owner(claim: Claim) -> str:
    """Who holds a field. One who did not apply also says through which subresource, and with which version."""
    manager = claim.manager
    who = f'"{manager.name}"' + (f' with subresource "{manager.subresource}"' if manager.subresource else "")
    return f"{who} using {manager.api_version}" if manager.operation == "Update" else who


def _merge(live: Any, wanted: Any, shape: Shape) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict) and not shape.is_atomic_map():
        merged = dict(live)
        for name, value in wanted.items():
            if value is not None:
                merged[name] = _merge(live.get(name), value, shape.child(name))
        return merged
    if isinstance(wanted, list) and isinstance(live, list):
        return _merge_list(live, wanted, shape)
    return wanted


def _merge_list(live: list[Any], wanted: list[Any], shape: Shape) -> list[Any]:
    rule, inside = shape.list_shape(), shape.items()
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


def _prune(node: Any, path: Path, shape: Shape, *, claims: list[Claim], done: Path = ()) -> bool:
    """Remove what `path` leads to, and maps and lists that this empties; whether `node` became empty.

    `node` is copied on the way, as it may be shared with the stored object.
    """
    step, rest = path[0], path[1:]
    here = (*done, step)
    if step.startswith("f:"):
        return _prune_field(node, path, shape, claims=claims, done=done)
    rule, inside = shape.list_shape(), shape.items()
    for place, item in enumerate(node):
        if item_step(item, rule, inside) != step:
            continue
        if rest:
            node[place] = dict(item)
            _prune(node[place], rest, inside, claims=claims, done=here)
        elif not any(owned[: len(here)] == here for claim in claims for owned in claim.paths):
            del node[place]
        break
    return not node


def _prune_field(node: Any, path: Path, shape: Shape, *, claims: list[Claim], done: Path) -> bool:
    name, rest = path[0][2:], path[1:]
    if not isinstance(node, dict) or name not in node:
        return False
    if not rest:
        del node[name]
        return not node
    inner = node[name]
    if isinstance(inner, dict | list):
        node[name] = inner.copy()
        if _prune(node[name], rest, shape.child(name), claims=claims, done=(*done, path[0])):
            del node[name]
    return not node
