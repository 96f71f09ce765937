"""Who owns which fields of an object: `metadata.managedFields`.

Source: kubernetes.io "Server-Side Apply"; k8s.io/apimachinery `managedfields`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actions.sandbox.api.codec import Object, dig
from actions.sandbox.api.fieldset import Path, decode_fields, encode_fields, leaves_of
from actions.sandbox.api.shapes import Shape

APPLY = "Apply"
UPDATE = "Update"


class Manager(msgspec.Struct, frozen=True):
    """One writer: the same name applying and updating, or writing status, counts as different ones."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Claim(msgspec.Struct):
    """What a manager owns. `time` is RFC 3339, when the claim last changed."""

    manager: Manager
    time: str
    paths: set[Path] = msgspec.field(default_factory=set)


def claims_of(body: Object) -> list[Claim]:
    """Read the claims of an object; entries without fields are dropped."""
    claims = []
    for entry in dig(body, "metadata", "managedFields") or ():
        if not entry.get("fieldsV1"):
            continue
        manager = Manager(
            entry.get("manager", ""), entry.get("operation", UPDATE), entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )  # fmt: skip
        claims.append(Claim(manager, entry.get("time", ""), decode_fields(entry["fieldsV1"])))
    return claims


def write_claims(body: Object, claims: Iterable[Claim]) -> None:
    """Write the claims that own something into the object, appliers first, then by time."""
    written = []
    for claim in sorted(claims, key=lambda claim: (claim.manager.operation, claim.time)):
        if not claim.paths:
            continue
        manager = claim.manager
        entry: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": claim.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_fields(claim.paths),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        written.append(entry)
    body["metadata"]["managedFields"] = written


def claim_of(claims: list[Claim], manager: Manager, *, now: str) -> Claim:
    """The claim of one manager, added to the list if it has none."""
    for claim in claims:
        if claim.manager == manager:
            return claim
    claims.append(Claim(manager, now))
    return claims[-1]


def track_update(before: Object | None, after: Object, shape: Shape, manager: Manager, *, now: str) -> None:
    """Record in `after` that `manager` wrote every field that differs from `before`.

    Claims that the writer changed by hand are taken as they are: that is how `kubectl` migrates them.
    """
    handed_in = dig(after, "metadata", "managedFields")
    known = dig(before, "metadata", "managedFields") if before is not None else None
    if handed_in is not None and handed_in != known and before is not None:
        write_claims(after, claims_of(after))
        return
    old = leaves_of(before, shape) if before is not None else {}
    new = leaves_of(after, shape)
    written = {path for path, value in new.items() if path not in old or old[path] != value}
    gone = old.keys() - new.keys()
    claims = claims_of(before) if before is not None else []
    if written or gone:
        for claim in claims:
            claim.paths -= written
            claim.paths -= gone
    if written:
        own = claim_of(claims, manager, now=now)
        own.paths |= written
        own.time = now
    write_claims(after, claims)
