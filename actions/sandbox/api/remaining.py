"""Conditions of a namespace that is being deleted: what is still in it, and which finalizers hold that.

Source: k8s.io/kubernetes `pkg/controller/namespace/deletion/status_condition_utils.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actions.sandbox.api.codec import Object
from actions.sandbox.api.store import Stored


def remaining_conditions(remaining: Sequence[Stored], home: Object) -> list[Object]:
    """The conditions.

    Args:
        remaining: The namespace's contents, one at least.
        home: The namespace; its `deletionTimestamp` is the time of every transition.
    """
    kinds = Counter(f"{stored.key.plural}.{stored.key.group}" for stored in remaining)
    holding = Counter(name for stored in remaining for name in stored.body["metadata"].get("finalizers") or ())
    finalizers = "All content-preserving finalizers finished"
    if holding:
        finalizers = f"Some content in the namespace has finalizers remaining: {_counted(holding, 'in')}"
    found = [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            False,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            True,
            "SomeResourcesRemain",
            f"Some resources are remaining: {_counted(kinds, 'has')}",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(holding),
            "SomeFinalizersRemain" if holding else "ContentHasNoFinalizers",
            finalizers,
        ),
    ]
    at = home["metadata"]["deletionTimestamp"]
    return [
        {
            "type": kind,
            "status": "True" if holds else "False",
            "lastTransitionTime": at,
            "reason": reason,
            "message": said,
        }
        for kind, holds, reason, said in found
    ]


def _counted(counts: Counter[str], word: str) -> str:
    return ", ".join(f"{name} {word} {count} resource instances" for name, count in sorted(counts.items()))
