"""The options of a write request beside its body."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actions.sandbox.apiserver.storage.codec import Object, dig


class WriteOptions(msgspec.Struct, frozen=True):
    """Query parameters of a write.

    `manager` is the writer, `strictness` the treatment of unknown fields: Strict, Warn or Ignore. `force` takes fields
    from other appliers. `warnings` collects what goes into `Warning` headers.
    """

    manager: str = "unknown"
    subresource: str = ""
    is_dry_run: bool = False
    strictness: str = "Warn"
    force: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)


class DeleteOptions(msgspec.Struct, frozen=True):
    """`metav1.DeleteOptions`. `grace_seconds` and `propagation` are `None` where the client leaves the choice."""

    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str = ""
    version: str = ""
    is_dry_run: bool = False


def delete_options(query: Mapping[str, str], body: Object) -> DeleteOptions:
    """Read deletion options, which may come in the query and in the body; the body wins."""
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = body.get("orphanDependents", query.get("orphanDependents"))
    if propagation is None and orphan is not None:
        propagation = "Orphan" if orphan in (True, "true") else "Background"
    return DeleteOptions(
        grace_seconds=int(grace) if grace is not None else None,
        propagation=propagation,
        uid=dig(body, "preconditions", "uid") or "",
        version=dig(body, "preconditions", "resourceVersion") or "",
        is_dry_run="All" in (body.get("dryRun") or [query.get("dryRun")]),
    )
